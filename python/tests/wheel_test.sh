#!/usr/bin/env bash
# Builds the wheel and tests it where people will use it: installed into fresh environments, from outside the tree.
#
#   python/tests/wheel_test.sh PYTHON [OTHER_PYTHON ...]
#
# PYTHON builds: it has scikit-build-core and torch. Its packages, and those of each OTHER_PYTHON (another torch version:
# the same binary must serve it), are what the wheel meets in a fresh environment each. One more environment has NumPy
# but no torch. Works in build/wheel-test. Kernels come for one architecture only: the build step compiles them all.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
[[ $# -ge 1 ]] || { sed -n '2,9s/^# \{0,1\}//p' "$0" >&2; exit 2; }
root=$PWD
work=$root/build/wheel-test
rm -rf "$work"
mkdir -p "$work/wheel"

"$1" -m pip wheel --quiet --no-deps --no-build-isolation --wheel-dir "$work/wheel" \
  --config-settings=cmake.define.FLASHMOE_PYTHON_TORCH=ON --config-settings=cmake.define.FLASHMOE_CUDA_ARCHITECTURES=89 .
wheel=$(echo "$work"/wheel/*.whl)
echo "built $(basename "$wheel")"

run_tests() { # run_tests environment
  (cd "$work" && "$1/bin/python" -m pytest -q -p no:cacheprovider -m "not wheel" "$root/python/tests")
}

index=0
for python in "$@"; do
  environment=$work/with-torch-$index
  "$python" -m venv --without-pip "$environment"
  "$python" -c 'import torch, os; print(os.path.dirname(os.path.dirname(torch.__file__)))' \
    >"$(echo "$environment"/lib/python3*/site-packages)/shared.pth"
  "$python" -m pip --python "$environment/bin/python" install --quiet --no-index --no-deps "$wheel"
  "$environment/bin/python" -c 'import torch; print("with torch", torch.__version__)'
  run_tests "$environment"
  index=$((index + 1))
done

echo "without torch"
"$1" -m venv "$work/without-torch"
"$work/without-torch/bin/pip" install --quiet --disable-pip-version-check "$wheel" numpy ml_dtypes pytest
run_tests "$work/without-torch"
