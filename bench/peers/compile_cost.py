"""What it costs to compile one kernel's device code, source to sm_89 cubin, without the host's half.

Processor seconds (nvcc's steps run one after the other, so an idle machine takes about as many seconds) and the memory
of the largest process. Measured on the machine that runs the bench. A peer's cost is kept beside its plug-in: an
instance of FlashAttention-2 takes half a minute and more than 3 GB.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path

from executed import CannotRunError
from peer_builds import ROOT, build, compile_command, find_nvcc


@dataclass(frozen=True)
class CompileCost:
    processor_seconds: float
    peak_bytes: int  # of the largest process


def measure(command: list[str]) -> CompileCost:
    with tempfile.TemporaryFile() as complaints:
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=complaints)
        _, status, usage = os.wait4(process.pid, 0)  # of the process and of all that it waited for
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode != 0:
            complaints.seek(0)
            text = complaints.read().decode(errors="replace")
            raise CannotRunError(f"{' '.join(command)} ended with {process.returncode}: {text[-1500:]}")
    return CompileCost(usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024)


def of_peer(instance: str) -> CompileCost:
    kept = build(instance) / "compile_cost.json"
    if not kept.exists():
        with tempfile.TemporaryDirectory() as scratch:
            command = compile_command(instance, find_nvcc(), Path(scratch) / "stubs")
            cost = measure([*command, "-cubin", "-arch=sm_89", "-o", str(Path(scratch) / "kernel.cubin")])
        kept.write_text(json.dumps(asdict(cost)))
    return CompileCost(**json.loads(kept.read_text()))


def macros_of(kernel: str) -> dict[str, str]:
    """forward_f16_d64_large_paged: the macros that instance.cu is compiled with."""
    parts = kernel.split("_")
    if len(parts) < 4 or parts[0] != "forward" or parts[1] not in ("f16", "bf16") or not parts[2].startswith("d"):
        raise CannotRunError(f"{kernel} is not the name of an instance")
    value_dim = {"FMS_VALUE_DIM": parts.pop(3)[1:]} if re.fullmatch(r"v\d+", parts[3]) else {}
    return {
        "FMS_NAME": kernel,
        "FMS_ELEMENT": "Half" if parts[1] == "f16" else "BFloat16",
        "FMS_DIM": parts[2][1:],
        **value_dim,
        "FMS_TILE_CLASS": parts[3],
        "FMS_PAGED": str(int("paged" in parts)),
        "FMS_MODIFIED": str(int("modified" in parts)),
    }


def of_ours(kernel: str) -> CompileCost:
    """PTX for compute_80, and the cubin from it: what the build does."""
    nvcc = find_nvcc()
    source = ROOT / "src" / "kernels" / "cuda" / "instance.cu"
    with tempfile.TemporaryDirectory() as scratch:
        ptx, cubin = Path(scratch) / "kernel.ptx", Path(scratch) / "kernel.cubin"
        macros = [f"-D{name}={value}" for name, value in macros_of(kernel).items()]
        first = measure([nvcc, "-std=c++20", "-O3", "-arch=compute_80", "-ptx", f"-I{ROOT / 'src'}", *macros,
                         str(source), "-o", str(ptx)])  # fmt: skip
        second = measure([str(Path(nvcc).parent / "ptxas"), "-O3", "-arch=sm_89", str(ptx), "-o", str(cubin)])
    return CompileCost(first.processor_seconds + second.processor_seconds, max(first.peak_bytes, second.peak_bytes))
