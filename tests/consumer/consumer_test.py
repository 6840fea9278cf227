"""Installs the library into a temporary prefix and uses it from outside the tree, as a stranger would.

    consumer_test.py BUILD_DIR SOURCE_DIR

Builds and runs the examples twice: a CMake project that has find_package(FlashMoEScience) and nothing else, and a C
program compiled by the C compiler alone with the flags of pkg-config. The installed tree is moved once in between:
nothing in it may know where it was installed. The exported symbols are the C ABI and nothing else. The installed
cudadent finds the installed virtual GPU, and so does flashmoe_card, whose predictions are installed too.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path


def run(*command: str | Path, cwd: Path | None = None, env: dict[str, str] | None = None) -> str:
    print("+", *command, flush=True)
    done = subprocess.run(
        [str(word) for word in command], cwd=cwd, env=env, check=False, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    output = done.stdout.decode()
    print(output, flush=True)
    if done.returncode != 0:
        sys.exit(f"consumer: exit code {done.returncode}")
    return output


def check_exports(library: Path) -> None:
    symbols = {line.split()[-1] for line in run("nm", "-D", "--defined-only", library).splitlines()}
    strangers = sorted(symbol for symbol in symbols if not symbol.startswith("fms_"))
    if strangers or "fms_attention_run" not in symbols:
        sys.exit(f"consumer: {library.name} must export the fms_ functions and nothing else; found {strangers}")


def build_with_find_package(work: Path, prefix: Path, version: str) -> None:
    definitions = [f"-DCMAKE_PREFIX_PATH={prefix}", f"-DCONSUMER_VERSION={version}"]
    run("cmake", "-S", ".", "-B", "build", "-G", "Ninja", *definitions, cwd=work)
    run("cmake", "--build", "build", cwd=work)
    run(work / "build" / "consumer_c", cwd=work)
    run(work / "build" / "consumer_cpp", cwd=work)


def build_with_pkg_config(work: Path, library: Path, version: str) -> None:
    env = {**os.environ, "PKG_CONFIG_PATH": str(library.parent / "pkgconfig")}
    found = run("pkg-config", "--modversion", "flashmoe", env=env).strip()
    if found != version:
        sys.exit(f"consumer: flashmoe.pc says version {found}, the library is {version}")
    flags = run("pkg-config", "--cflags", "--libs", "flashmoe", env=env).split()
    # c11 and pedantic: the public header is C, not C++ that happens to compile.
    strict = ["-std=c11", "-pedantic", "-Wall", "-Wextra", "-Werror"]
    run("cc", *strict, "attention.c", *flags, "-lm", "-o", "pc", cwd=work)
    run(work / "pc", cwd=work, env={**os.environ, "LD_LIBRARY_PATH": str(library.parent)})


# A driver client with nothing but ctypes: one launch of an empty kernel.
CLIENT = """
import ctypes

cuda = ctypes.CDLL("libcuda.so.1")
context, module, kernel = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_void_p()
ptx = b".version 7.8\\n.target sm_80\\n.address_size 64\\n.visible .entry nothing() { ret; }"
assert cuda.cuInit(0) == 0
assert cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0
assert cuda.cuCtxSetCurrent(context) == 0
assert cuda.cuModuleLoadData(ctypes.byref(module), ptx) == 0
assert cuda.cuModuleGetFunction(ctypes.byref(kernel), module, b"nothing") == 0
assert cuda.cuLaunchKernel(kernel, 1, 1, 1, 32, 1, 1, 0, None, None, None) == 0
"""


def run_on_virtual_gpu(prefix: Path) -> None:
    env = {name: value for name, value in os.environ.items() if name != "FLASHMOE_DRIVER"}
    cudadent = prefix / "bin" / "cudadent"
    said = run(cudadent, "run", "--device", "virtual:l4", "--", sys.executable, "-c", CLIENT, env=env)
    if "1 launch on virtual:l4" not in said:
        sys.exit("consumer: the installed cudadent does not find the virtual GPU")
    if (prefix / "bin" / "flashmoe_card").exists():
        driver = prefix / "lib" / "flashmoe" / "vgpu" / "libcuda.so.1"
        said = run(prefix / "bin" / "flashmoe_card", "--plans", env={**env, "FLASHMOE_DRIVER": str(driver)})
        if "image_sha256" not in said or not (prefix / "share" / "flashmoe" / "predictions" / "l4.json").exists():
            sys.exit("consumer: the installed flashmoe_card has no plans, or its predictions are not installed")


def main(build_dir: Path, source_dir: Path) -> None:
    version = (source_dir / "VERSION").read_text(encoding="utf-8").strip()
    with tempfile.TemporaryDirectory(prefix="flashmoe-consumer-") as directory:
        first, prefix, work = (Path(directory) / name for name in ("first", "moved", "work"))
        run("cmake", "--install", build_dir, "--prefix", first)
        first.rename(prefix)
        library = next(prefix.rglob("libflashmoe.so"))
        check_exports(library)
        if (build_dir / "vgpu").is_dir() and (prefix / "bin" / "cudadent").exists():
            run_on_virtual_gpu(prefix)
        shutil.copytree(source_dir / "tests" / "consumer" / "cmake", work)
        for example in ("attention.c", "attention.cpp"):
            shutil.copy(source_dir / "examples" / example, work)
        build_with_find_package(work, prefix, version)
        build_with_pkg_config(work, library, version)
    print("consumer: find_package and pkg-config both work")


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve(), Path(sys.argv[2]).resolve())
