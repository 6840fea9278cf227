#!/usr/bin/env bash
# Builds the wheels flashmoe-science and flashmoe-science-cuda and tests them where people will use them: installed into
# fresh environments, from outside the tree. Builds them once more in a copy of the tree elsewhere: the same bytes must
# come out.
#
#   python/tests/wheel_test.sh [--build | --test | --one-more | --timed | --twice-from-nothing] PYTHON [OTHER_PYTHON ...]
#
# --build: only what comes before the installation. --test: only the installation and the tests that may run beside
# anything. --timed: only the tests that judge times, in the environments that --test left. --one-more: as --test, for
# PYTHON's torch alone and in an environment of its own, with the wheels that --build left.
# --twice-from-nothing: only the building, and the copy is compiled anew instead of with what the cache keeps; kernels for
# one architecture only.
# PYTHON builds: it has scikit-build-core and torch. Its packages, and those of each OTHER_PYTHON (another torch version:
# the same binary must serve it), are what the wheels meet in a fresh environment each. One more environment has NumPy but
# no torch, and the CPU's wheel alone. Beside torch there is transformers, of build/venv-hf. Compiled kernels are those of
# build/release. Works in build/wheel-test (build/wheel-twice).
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
root=$PWD work=$PWD/build/wheel-test mode=
case ${1:-} in --*) mode=$1 && shift ;; esac
[[ $mode != --twice-from-nothing ]] || work=$root/build/wheel-twice
[[ $# -ge 1 ]] || { sed -n '2,/^set /{/^set /d;s/^# \{0,1\}//;p}' "$0" >&2; exit 2; }
# What a wheel's entries are dated by; without it, by the moment of the build.
export SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}

build_wheels() { # build_wheels python tree target CMAKE_SETTING=value...
  local source settings=("${@:4}")
  for source in "$2" "$2/packaging/flashmoe-science-cuda"; do
    "$1" -m pip wheel --quiet --no-deps --no-build-isolation --wheel-dir "$3" \
      "${settings[@]/#/--config-settings=cmake.define.}" "$source"
  done
}

build_twice() { # build_twice python
  local here=("FLASHMOE_BUILD=$root/build/release") there=() wheel
  [[ $mode != --twice-from-nothing ]] || here=(FLASHMOE_BUILD= FLASHMOE_CUDA_ARCHITECTURES=89)
  [[ $mode != --twice-from-nothing ]] || there=(FLASHMOE_BUILD_CACHE= FLASHMOE_CUDA_ARCHITECTURES=89)
  rm -rf "$work"
  mkdir -p "$work"
  build_wheels "$1" "$root" "$work/wheel" "${here[@]}"
  (cd "$work/wheel" && stat --format='built %n: %s bytes' -- *.whl)

  # The files of this tree, committed or not, at a path of another length.
  local elsewhere=$work/a/copy/of/the/tree/elsewhere
  mkdir -p "$elsewhere"
  git ls-files -z --cached --others --exclude-standard | tar --null --files-from=- --create | tar --extract --directory="$elsewhere"
  build_wheels "$1" "$elsewhere" "$work/wheel-elsewhere" "${there[@]}"
  for wheel in "$work"/wheel/*.whl; do
    "$1" python/tests/same_wheel.py "$wheel" "$work/wheel-elsewhere/$(basename "$wheel")"
  done
  rm -rf "$elsewhere"
  [[ $mode != --twice-from-nothing ]] || return 0

  mkdir "$work/unpacked"
  for wheel in "$work"/wheel/*.whl; do "$1" -m zipfile -e "$wheel" "$work/unpacked"; done
  "$1" tests/elf_test.py "$work/unpacked"
  for wheel in "$work"/unpacked/*.dist-info; do
    [[ -s $wheel/licenses/THIRD_PARTY.md ]] || { echo "$wheel has no THIRD_PARTY.md"; exit 1; }
  done
}

# What torch's own compiler builds around our operators stays, by its content, beside what else compilers made; the graphs
# that lead to it are made anew each time, and by this process instead of by workers that import torch first.
export TORCHINDUCTOR_CACHE_DIR=${FLASHMOE_CACHE:-${HOME:-/root}/.cache/flashmoe-science}/inductor
export TORCHINDUCTOR_FX_GRAPH_CACHE=0 TORCHINDUCTOR_COMPILE_THREADS=1

run_tests() { # run_tests environment marks
  (cd "$work" && OMP_WAIT_POLICY=passive "$1/bin/python" -m pytest -q -p no:cacheprovider -m "$2" "$root/python/tests")
}

# One environment after the other. What a neighbour spoilt is asked again: it can make a call slower, never quicker.
run_timed() {
  local environment status=0
  for environment in "$work"/with-torch-*/; do
    run_tests "$environment" timed || { sleep 20 && run_tests "$environment" timed; } ||
      { sleep 40 && run_tests "$environment" timed; } || status=1
  done
  return $status
}

case $mode in
  "") build_twice "$1" ;;
  --test | --one-more) ;;
  --timed) run_timed; exit ;;
  *) build_twice "$1"; exit ;;
esac
wheel=$(echo "$work"/wheel/flashmoe_science-*.whl) images=$(echo "$work"/wheel/flashmoe_science_cuda-*.whl)

# Side by side: one core's work each for the most part. Who waits for a thread sleeps, where another needs the core.
environments=() testing=()
begin_tests() { # begin_tests environment
  run_tests "$1" "not wheel and not timed and not nightly" >"$1.log" 2>&1 &
  testing+=($!)
  environments+=("$1")
}

test_with_torch() { # test_with_torch python environment
  "$1" -m venv --without-pip "$2"
  local shared=$(echo "$2"/lib/python3*/site-packages)/shared.pth
  "$1" -c 'import torch, os; print(os.path.dirname(os.path.dirname(torch.__file__)))' >"$shared"
  echo "$(realpath build/venv-hf)"/lib/python3*/site-packages >>"$shared"
  "$1" -m pip --python "$2/bin/python" install --quiet --no-index --no-deps "$wheel" "$images"
  "$2/bin/python" -c 'import torch; print("with-torch: torch", torch.__version__)'
  begin_tests "$2"
}

end_tests() {
  local index status=0
  for index in "${!testing[@]}"; do
    wait "${testing[$index]}" || status=1
    echo "${environments[$index]##*/}"
    cat "${environments[$index]}.log"
  done
  return $status
}

if [[ $mode == --one-more ]]; then
  rm -rf "$work/one-more"
  test_with_torch "$1" "$work/one-more"
  end_tests
  exit
fi
rm -rf "$work"/with*
index=0
for python in "$@"; do
  test_with_torch "$python" "$work/with-torch-$index"
  index=$((index + 1))
done

"$1" -m venv "$work/without-torch"
"$work/without-torch/bin/pip" install --quiet --disable-pip-version-check --require-hashes \
  --requirement .ci/requirements-base.txt
"$work/without-torch/bin/pip" install --quiet --disable-pip-version-check --no-index --no-deps "$wheel"
begin_tests "$work/without-torch"

status=0
end_tests || status=1
[[ $mode == --test ]] || run_timed || status=1
exit $status
