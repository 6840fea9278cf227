#!/usr/bin/env bash
# The same suite as the base branch has it, for its counters. A base that cannot be built or run spoils nothing.
#
#   base.sh WORK BRANCH DEVICE BUILD TEST     in the folder of the sources, a clone with the remote `origin`
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
work=$1 branch=$2 device=$3 build=$4 test=$5
git fetch --quiet --depth 1 origin "$branch"
git worktree remove --force "$work/base" 2>/dev/null || true
git worktree add --quiet --detach "$work/base" FETCH_HEAD
(cd "$work/base" && "$here/suite.sh" "$work" base "$device" none "$build" "$test") ||
  echo "::warning title=Virtual GPU::the suite of $branch could not be built or run; its counters are missing"
git worktree remove --force "$work/base"
