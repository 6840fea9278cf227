"""The file of compiled kernels beside the library: used where it fits, refused with a sentence where it does not.

Each case is a copy of the installed package, with the file as the case wants it, in a process of its own on the virtual
GPU of FMS_VGPU (build/release unless it is set). Without flashmoe-science-cuda there is no file to spoil: then what is
tested is the package alone.
"""

import importlib.util
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

pytest.importorskip("numpy")

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
VGPU = Path(os.environ.get("FMS_VGPU", ROOT / "build/release/src/vgpu/libvgpu.so"))
PACKAGE = Path(next(iter(importlib.util.find_spec("flashmoe_science").submodule_search_locations)))
IMAGES = "flashmoe_cuda.images"
VERSION = slice(80, 112)  # in the file: behind its first word and its seal
PLAN = """
import flashmoe_science as fs
print(fs.plan((1, 4, 64, 64), (1, 4, 64, 64), (1, 4, 64, 64), device="cuda"))
"""

pytestmark = pytest.mark.skipif(not VGPU.exists(), reason=f"{VGPU} is not built")
needs_images = pytest.mark.skipif(not (PACKAGE / IMAGES).exists(), reason="flashmoe-science-cuda is not installed")


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """A copy without the file."""
    return Path(
        shutil.copytree(PACKAGE, tmp_path / "site/flashmoe_science", ignore=shutil.ignore_patterns(IMAGES, "bench"))
    )


def run(package: Path, *command: str, **settings: str) -> subprocess.CompletedProcess[str]:
    settings = {
        "FLASHMOE_SCIENCE_NO_TORCH": "1",
        "FLASHMOE_DRIVER": str(VGPU),
        "FMS_VGPU": str(VGPU),
        "FLASHMOE_NVRTC": "/no/such/libnvrtc.so",
        "FLASHMOE_CACHE_DIR": str(package.parent / "cache"),
        "VGPU_DEVICE": "l4",
        "VGPU_PTXAS": "off",
        "PYTHONPATH": os.pathsep.join([str(package.parent), str(HERE), str(ROOT / "tests/accuracy")]),
        **settings,
    }
    return subprocess.run(
        [sys.executable, *command], env={**os.environ, **settings}, capture_output=True, text=True, check=False
    )


def refusal(package: Path) -> str:
    """The last line of what Python says, which is the exception."""
    done = run(package, "-c", PLAN)
    assert done.returncode == 1, done.stdout
    said = done.stderr.splitlines()[-1]
    assert said.startswith("NotImplementedError: "), done.stderr
    return said


def test_without_images_and_compiler_the_ways_out_are_told(package: Path) -> None:
    said = refusal(package)
    assert f"no CUDA images here: there is no {package / IMAGES}" in said
    assert "pip install flashmoe-science-cuda" in said
    assert "nvidia-cuda-nvrtc" in said


def test_without_images_kernels_are_compiled(package: Path) -> None:
    """Right results, and one image in the cache for each kernel that ran: planning compiles nothing."""
    compiler = Path("/usr/local/cuda/lib64/libnvrtc.so")
    if not compiler.exists():
        pytest.skip("there is no NVRTC to compile with")
    if (PACKAGE / IMAGES).exists():
        pytest.skip("compiled once, where flashmoe-science-cuda is not installed")
    log = package.parent / "driver.log"
    log.touch()
    settings = {"FLASHMOE_NVRTC": str(compiler), "VGPU_LOG": str(log), "VGPU_LOG_CALLS": "1"}
    assert run(package, "-c", PLAN, **settings).returncode == 0
    cache = package.parent / "cache"
    assert not list(cache.glob("*.image"))
    done = run(package, str(HERE / "virtual_gpu_calls.py"), **settings)
    assert done.returncode == 0, done.stderr
    assert list(cache.glob("*.image"))


@needs_images
def test_images_are_used(package: Path) -> None:
    shutil.copy(PACKAGE / IMAGES, package)
    done = run(package, "-c", PLAN)
    assert done.returncode == 0, done.stderr
    assert "on 58 SMs" in done.stdout
    assert not (package.parent / "cache").exists(), "nothing was compiled"


def with_version(content: bytes, version: bytes) -> bytes:
    return content[: VERSION.start] + version.ljust(VERSION.stop - VERSION.start, b"\0") + content[VERSION.stop :]


SPOILT: dict[str, tuple[Callable[[bytes], bytes], str]] = {
    "another version": (lambda content: with_version(content, b"9.9.9"), "is of version 9.9.9, the library of "),
    "cut in half": (lambda content: content[: len(content) // 2], " bytes where "),
    "cut in the head": (lambda content: content[:100], "is cut off"),
    "nothing": (lambda _: b"", "is no file of CUDA images"),
    "a shared library": (lambda _: (PACKAGE / "libflashmoe.so.0").read_bytes(), "is no file of CUDA images"),
    "a bit of the index": (lambda content: content[:205] + bytes([content[205] ^ 1]) + content[206:], "is damaged"),
}


@needs_images
@pytest.mark.parametrize("how", SPOILT)
def test_what_does_not_fit_is_refused(package: Path, how: str) -> None:
    spoil, sentence = SPOILT[how]
    (package / IMAGES).write_bytes(spoil((PACKAGE / IMAGES).read_bytes()))
    said = refusal(package)
    assert f"the CUDA images are not used: {package / IMAGES} " in said
    assert sentence in said
    assert "fix: pip install " in said


@needs_images
def test_damaged_kernels_are_not_loaded(package: Path) -> None:
    """What lies behind the index is looked at when it is unpacked."""
    content = bytearray((PACKAGE / IMAGES).read_bytes())
    for at in range(16384, len(content), 4096):  # the index of a hundred kernels takes 8 KB
        content[at] ^= 1
    (package / IMAGES).write_bytes(content)
    done = run(package, "-c", PLAN)
    assert done.returncode == 1, done.stdout
    assert "unpacking forward_" in done.stderr


@needs_images
def test_files_that_others_may_write_are_refused(package: Path) -> None:
    shutil.copy(PACKAGE / IMAGES, package)
    (package / IMAGES).chmod(0o666)
    assert "may be written by others than its owner" in refusal(package)
