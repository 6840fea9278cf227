"""NVIDIA's disassembler, wherever this machine has it."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from executed import CannotRunError
from peer_builds import ROOT, find_nvcc


def find_nvdisasm(asked: str | None) -> str:
    """Only full CUDA toolkits have it; NVIDIA also gives it away as a Python package, which .ci/setup installs."""
    candidates = [asked, os.environ.get("NVDISASM"), shutil.which("nvdisasm")]
    candidates.append(str(Path(find_nvcc()).with_name("nvdisasm")))
    packaged = (ROOT / "build" / "venv-clients").glob("lib/python3*/site-packages/nvidia/*/bin/nvdisasm")
    for candidate in [*candidates, *map(str, packaged)]:
        if candidate and os.access(candidate, os.X_OK):
            return candidate
    raise CannotRunError("no nvdisasm: run .ci/setup, or say where it is with --nvdisasm or NVDISASM")
