#!/usr/bin/env bash
# A release is built from the tag of the version that the tree says it is.
#
#   packaging/check_tag.sh refs/tags/v0.1.0
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
expected=refs/tags/v$(<VERSION)
[[ ${1:-} == "$expected" ]] || { echo "publish: this is ${1:-nothing}, and VERSION wants $expected" >&2; exit 1; }
