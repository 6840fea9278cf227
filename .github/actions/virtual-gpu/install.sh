#!/usr/bin/env bash
# cudadent into an environment of its own, and where no nvcc is found NVIDIA's toolkit from PyPI.
#
#   install.sh WORK REQUIREMENT     REQUIREMENT: what pip installs, `cudadent`
#
# WORK/settings.sh then has what the other steps need.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
work=$1 requirement=$2
mkdir -p "$work"
work=$(cd "$work" && pwd)

pip_install() { # pip_install environment arguments...
  python3 -m venv "$1"
  "$1/bin/pip" install --quiet --disable-pip-version-check "${@:2}"
}

pip_install "$work/cudadent" "$requirement"
# nvcc links the runtime into a program unless told otherwise; the lines are what findings are annotated at.
{
  echo "export PATH='$work/cudadent/bin':\"\$PATH\""
  echo 'export NVCC_APPEND_FLAGS="-cudart shared -lineinfo ${NVCC_APPEND_FLAGS:-}"'
} >"$work/settings.sh"
if ! command -v nvcc >/dev/null; then
  pip_install "$work/toolkit" --require-hashes --requirement "$here/../../../.ci/requirements-toolkit.txt"
  toolkit=$(echo "$work"/toolkit/lib/python3*/site-packages/nvidia/cu13)
  # As an installed toolkit has them.
  ln -sfn lib "$toolkit/lib64"
  ln -sfn libcudart.so.13 "$toolkit/lib/libcudart.so"
  echo "export CUDA_HOME='$toolkit' CUDACXX='$toolkit/bin/nvcc' PATH='$toolkit/bin':\"\$PATH\"" >>"$work/settings.sh"
fi
(. "$work/settings.sh" && cudadent --version && nvcc --version | tail -n 1)
