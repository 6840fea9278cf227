"""Peak extra memory of one call, against the path that materialises the softmax."""

from __future__ import annotations

import ctypes
import gc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from .cells import Cell
from .implementation import Implementation, Inputs, NotAvailable, make_inputs

CELL = Cell("prefill", 1, 8, 8, 4096, 4096, 64, causal=False)
GOAL = 0.95  # less than the materialised path


def _status_bytes(field: str) -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(field + ":"):
            return int(line.split()[1]) * 1024
    raise NotAvailable(f"/proc/self/status has no {field}")


def peak_extra_bytes(call: Callable[[], object]) -> int:
    """Growth of the resident set's peak over one call. Linux: writing 5 to clear_refs resets the peak."""
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)  # freed memory that is still mapped would hide what the call takes
    before = _status_bytes("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")
    call()
    return max(0, _status_bytes("VmHWM") - before)


def materialised(inputs: Inputs) -> torch.Tensor:
    scores = inputs.q @ inputs.k.transpose(-1, -2) * CELL.head_dim**-0.5
    return torch.softmax(scores, dim=-1) @ inputs.v


def measure(ours: Implementation, dtype: str, threads: int) -> dict[str, Any]:
    """Extra bytes of both paths; the first call of each is not counted (pools and code pages are made once)."""
    inputs = make_inputs(CELL, dtype)
    torch.set_num_threads(threads)
    try:
        # What a side allocates while it prepares (workspace, output) belongs to its call as well.
        def ours_whole() -> None:
            ours.prepare(CELL, dtype, inputs, threads).run()

        ours_whole()
        ours_bytes = peak_extra_bytes(ours_whole)
        materialised(inputs)
        materialised_bytes = peak_extra_bytes(lambda: materialised(inputs))
    except (NotAvailable, OSError) as error:
        return {"cell": CELL.name, "dtype": dtype, "skipped": str(error)}
    return {
        "cell": CELL.name,
        "dtype": dtype,
        "ours_bytes": ours_bytes,
        "materialised_bytes": materialised_bytes,
        "saved": 1 - ours_bytes / materialised_bytes,
        "goal": GOAL,
        "reached": 1 - ours_bytes / materialised_bytes >= GOAL,
    }


def text(figures: dict[str, Any]) -> str:
    if "skipped" in figures:
        return f"peak extra memory: not measured: {figures['skipped']}"
    word = "reached" if figures["reached"] else "missed"
    ours_mib, materialised_mib = figures["ours_bytes"] / 2**20, figures["materialised_bytes"] / 2**20
    return (
        f"goal  {word:<12} peak extra memory at {figures['cell']}, {figures['dtype']}: {ours_mib:.1f} MiB, the "
        f"materialised softmax {materialised_mib:.1f} MiB: {figures['saved']:.1%} less, at least {figures['goal']:.0%}"
    )
