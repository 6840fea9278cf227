"""The library builds with a toolkit that is older than the newest GPUs.

    older_toolkit_test.py FATBINARY [--all]

The toolkit is made up of what there is: PTX by NVRTC 12.4 behind the name nvcc, ptxas 12.4, which knows neither sm_100
nor sm_120, and a fatbinary without --compress-mode. Configures a build tree of its own and makes one kernel's images;
with --all the whole library, which is asked what it has.
"""

from __future__ import annotations

import argparse
import ctypes
import os
import struct
import subprocess
import sys
import tempfile
from pathlib import Path

from toolkits import CompileError, toolkit

ROOT = Path(__file__).resolve().parents[2]
KERNEL = "forward_f16_d64_decode"
VERSION = "12.4"
KNOWN = [80, 86, 89, 90]
PTX, CUBIN, LZ4, ZSTD = 1, 2, 0x2000, 0x8000


def pretend_nvcc(arguments: list[str]) -> int:
    if "--version" in arguments:
        print(f"nvcc: NVIDIA (R) Cuda compiler driver\nCuda compilation tools, release {VERSION}, V{VERSION}.131")
        return 0
    if any("sm_100" in one or "sm_120" in one for one in arguments):
        print("nvcc fatal   : Unsupported gpu architecture", file=sys.stderr)
        return 1
    to = Path(arguments[arguments.index("-o") + 1])
    source = next(Path(one) for one in arguments if one.endswith(".cu"))
    options = [one for one in arguments if one.startswith(("-I", "-D"))]
    options += ["--std=c++20", "--gpu-architecture=compute_80", "--device-as-default-execution-space"]
    try:
        to.write_text(toolkit(VERSION).compile(source, options))
    except CompileError as problem:
        print(problem, file=sys.stderr)
        return 1
    return 0


def pretend_fatbinary(real: str, arguments: list[str]) -> int:
    if "--help" in arguments:
        print("Usage  : fatbinary [options]\n--compress-all")
        return 0
    if any(one.startswith("--compress-mode") for one in arguments):
        print("fatbinary fatal   : Unknown option '--compress-mode'", file=sys.stderr)
        return 1
    # What an older one does without being told.
    return subprocess.run([real, "--compress-mode=speed", *arguments], check=False).returncode


def entries(fatbin: bytes) -> list[tuple[int, int, int]]:
    """Kind, architecture and flags of each; the layout is that of src/images/fatbin.cpp."""
    at, found = struct.unpack_from("<H", fatbin, 6)[0], []
    while at + 64 <= len(fatbin):
        kind, _, header, padded = struct.unpack_from("<HHIQ", fatbin, at)
        found.append((kind, struct.unpack_from("<I", fatbin, at + 28)[0], struct.unpack_from("<Q", fatbin, at + 40)[0]))
        at += header + padded
    return found


def write_tools(folder: Path, fatbinary: str) -> dict[str, Path]:
    tools = {"NVCC": folder / "nvcc", "FATBINARY": folder / "fatbinary", "PTXAS": toolkit(VERSION).ptxas}
    for name in ("NVCC", "FATBINARY"):
        call = [sys.executable, str(Path(__file__).resolve()), fatbinary, f"--as-{name.lower()}"]
        tools[name].write_text("#!/bin/sh\nexec " + " ".join(f"'{word}'" for word in call) + ' "$@"\n')
        tools[name].chmod(0o755)
    return tools


def main() -> int:
    for name, pretend in (("--as-nvcc", lambda _, rest: pretend_nvcc(rest)), ("--as-fatbinary", pretend_fatbinary)):
        if sys.argv[2:3] == [name]:
            return pretend(sys.argv[1], sys.argv[3:])
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("fatbinary")
    parser.add_argument("--all", action="store_true")
    options = parser.parse_args()
    problems = []
    with tempfile.TemporaryDirectory() as folder:
        build = Path(folder) / "build"
        tools = write_tools(Path(folder), options.fatbinary)
        configure = ["cmake", "-G", "Ninja", "-S", str(ROOT), "-B", str(build), "-DCMAKE_BUILD_TYPE=Release"]
        configure += [f"-DFLASHMOE_BUILD_{part}=OFF" for part in ("TESTS", "BENCH", "TOOLS", "VGPU")]
        configure += [f"-DFLASHMOE_{name}={path}" for name, path in tools.items()]
        configure += ["-DFLASHMOE_CUDA_ARCHITECTURES=80;86;89;90;100;120"]
        subprocess.run(configure, check=True, stdout=subprocess.DEVNULL)
        images = Path("src/kernels/cuda/images")
        target = ["flashmoe"] if options.all else [str(images / f"{KERNEL}.zst")]
        subprocess.run(
            ["ninja", "-C", str(build), "-j", str(os.cpu_count()), *target], check=True, stdout=subprocess.DEVNULL
        )
        whole = entries((build / images / f"{KERNEL}.fatbin").read_bytes())
        alone = entries((build / images / f"{KERNEL}.ptx.fatbin").read_bytes())
        if [sm for kind, sm, _ in whole if kind == CUBIN] != KNOWN:
            problems.append(f"cubins for {whole}, expected {KNOWN}")
        if [kind for kind, _, _ in whole].count(PTX) != 1 or [kind for kind, _, _ in alone] != [PTX]:
            problems.append(f"PTX in {whole} and {alone}")
        # The library's own packing sees what the images have in common only if they are not packed each alone.
        if any(flags & (LZ4 | ZSTD) for _, _, flags in whole + alone):
            problems.append(f"packed by fatbinary: {whole}")
        if options.all:
            library = ctypes.CDLL(str(next(build.rglob("libflashmoe.so"))))
            answer = (ctypes.c_int32 * 16)()
            library.fms_cuda_images.restype = ctypes.c_size_t
            count = library.fms_cuda_images(answer, ctypes.c_size_t(16))
            if list(answer[:count]) != [0, *KNOWN]:
                problems.append(f"the library has {list(answer[:count])}")
    for problem in problems:
        print(problem, file=sys.stderr)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
