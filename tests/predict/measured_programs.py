"""The very kernels that were measured: cut out of the wheel of torch that ran them, and disassembled.

    measured_programs.py CUT_CUBINS      prints one line a kernel: its declared path, its architecture, its SASS

The wheel comes through pip, by name and version; of its 755 MB only the SASS of a dozen kernels stays, below
$FLASHMOE_CACHE (default ~/.cache/flashmoe-science). Nothing of it is ever part of the tree.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

from declared_paths import DeclaredKernel, read_all

TORCH = "torch==2.2.1"
SHA256 = "8d3bad336dd2c93c6bcb3268e8e9876185bda50ebde325ef211fb565c7d15273"
LIBRARY = "torch/lib/libtorch_cuda.so"
ARCHITECTURES = ("sm_80", "sm_86")
NAMES = ("flash_fwd_kernel", "fmha_cutlassF_f16_aligned_64x")

Programs = dict[tuple[str, str], Path]  # by declared path and architecture


def cache_directory() -> Path:
    default = Path(os.environ.get("HOME", "/root")) / ".cache" / "flashmoe-science"
    return Path(os.environ.get("FLASHMOE_CACHE") or default) / "predict"


def find_nvdisasm() -> str:
    """On PATH, or in the environments that .ci/setup makes."""
    if found := shutil.which("nvdisasm"):
        return found
    root = Path(__file__).resolve().parents[2]
    for venv in ("venv", "venv-clients"):
        for found_file in sorted((root / "build" / venv).glob("lib/python*/site-packages/nvidia/*/bin/nvdisasm")):
            return str(found_file)
    raise SystemExit("measured_programs: no nvdisasm on PATH or below build/venv*; .ci/setup brings one")


def _download(folder: Path) -> Path:
    # The wheel's own Python and platform: what is inside is read, never run.
    subprocess.run(
        [sys.executable, "-m", "pip", "download", TORCH, "--no-deps", "--only-binary", ":all:", "--python-version",
         "3.10", "--platform", "manylinux1_x86_64", "--quiet", "--no-cache-dir", "--dest", str(folder)],
        check=True,
    )  # fmt: skip
    (wheel,) = folder.glob("*.whl")
    digest = hashlib.sha256()
    with wheel.open("rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    if digest.hexdigest() != SHA256:
        raise SystemExit(f"measured_programs: {wheel.name} has SHA-256 {digest.hexdigest()}, expected {SHA256}")
    return wheel


def _sections(text: str) -> dict[str, str]:
    """The code sections of what nvdisasm prints, each with the header of the file."""
    header, *parts = text.split("\n//--------------------- ")
    found = {}
    for part in parts:
        if part.startswith(".text."):
            found[part.split()[0].removeprefix(".text.")] = f"{header}\n//--------------------- {part}"
    return found


def _keep(cubin: Path, symbols: list[str], declared: list[DeclaredKernel], target: Path) -> None:
    architecture = cubin.suffixes[0].removeprefix(".")
    wanted = [(kernel, symbol) for kernel in declared for symbol in symbols if kernel.fits(symbol)]
    if not wanted:
        return
    done = subprocess.run(
        [find_nvdisasm(), "-c", "-hex", str(cubin)], capture_output=True, text=True, check=False
    )  # it warns of the older format on stderr
    if done.returncode != 0:
        raise SystemExit(f"measured_programs: nvdisasm on {cubin.name}: {done.stderr.strip()[-500:]}")
    sections = _sections(done.stdout)
    for kernel, symbol in wanted:
        (target / f"{kernel.name}.{architecture}.sass").write_text(sections[symbol])


def _make(cut_cubins: str, target: Path) -> None:
    with tempfile.TemporaryDirectory(dir=target.parent) as scratch_name:
        scratch = Path(scratch_name)
        wheel = _download(scratch)
        with zipfile.ZipFile(wheel) as archive:
            archive.extract(LIBRARY, scratch)
        wheel.unlink()
        architectures = ",".join(name.removeprefix("sm_") for name in ARCHITECTURES)
        cut = subprocess.run(
            [cut_cubins, str(scratch / LIBRARY), str(scratch), architectures, *NAMES],
            capture_output=True, text=True, check=True,
        )  # fmt: skip
        symbols: dict[str, list[str]] = {}
        for line in cut.stdout.splitlines():
            file, _, _, symbol = line.split()
            symbols.setdefault(file, []).append(symbol)
        for file, names in symbols.items():
            _keep(scratch / file, names, list(read_all().values()), target)


def programs(cut_cubins: str) -> Programs:
    """SASS files; downloads and cuts the first time."""
    root = cache_directory()
    root.mkdir(parents=True, exist_ok=True)
    declared = hashlib.sha256("\n".join(kernel.symbol for kernel in read_all().values()).encode()).hexdigest()
    target = root / f"torch-2.2.1-{declared[:12]}"
    with (root / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (target / "complete").exists():
            shutil.rmtree(target, ignore_errors=True)
            target.mkdir()
            _make(cut_cubins, target)
            (target / "complete").touch()
    found = {}
    for file in sorted(target.glob("*.sass")):
        name, architecture = file.stem.split(".")
        found[name, architecture] = file
    missing = [(name, sm) for name in read_all() for sm in ARCHITECTURES if (name, sm) not in found]
    if missing:
        raise SystemExit(f"measured_programs: {TORCH} has none of {missing}")
    return found


def main() -> None:
    if len(sys.argv) != 2:
        raise SystemExit(__doc__)
    for (name, architecture), file in programs(sys.argv[1]).items():
        print(name, architecture, file)


if __name__ == "__main__":
    main()
