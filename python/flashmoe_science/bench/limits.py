"""The machine's own limits, measured beside each row, and the time they allow a cell at best.

The measuring code is bench/machine_limits.cpp, a small library that is optional: without it the columns stay empty.
"""

from __future__ import annotations

import ctypes
import os
import statistics
from dataclasses import dataclass, field
from pathlib import Path

from .cells import Cell

LIBRARY_NAME = "libflashmoe_machine_limits.so"
ENVIRONMENT_VARIABLE = "FLASHMOE_MACHINE_LIMITS"
BYTES_PER_ELEMENT = {"fp16": 2, "bf16": 2, "fp32": 4}
# Operands of tiles are bf16. Those of fp16 are split exactly into two of them, of which three products are taken, and
# those of fp32 into three: six products.
AMX_PRODUCTS = {"fp16": 3, "bf16": 1, "fp32": 6}
# The polynomial degree that 2^x needs: weights rounded to bf16, kept as two bf16 parts, or kept in fp32.
EXP2_LIMITS = {"bf16": "exp2_degree3", "fp16": "exp2_degree4", "fp32": "exp2_degree6"}


@dataclass(frozen=True)
class Limits:
    """Rates of all threads together; None where the machine has no such unit."""

    amx_bf16_flops: float | None
    fma_fp32_flops: float | None
    exp2_per_second: float | None
    read_bytes_per_second: float | None  # over a working set of the cell's size

    def better_of(self, other: Limits) -> Limits:
        def larger(a: float | None, b: float | None) -> float | None:
            return max((x for x in (a, b) if x is not None), default=None)

        return Limits(
            larger(self.amx_bf16_flops, other.amx_bf16_flops),
            larger(self.fma_fp32_flops, other.fma_fp32_flops),
            larger(self.exp2_per_second, other.exp2_per_second),
            larger(self.read_bytes_per_second, other.read_bytes_per_second),
        )


# Of its best rate, in the median over a run: below this somebody else uses the tile unit too.
SHARED_TILES = 0.75


@dataclass
class TileRates:
    """bf16 tile products a second and thread, each time they were measured in a run.

    Two hyperthreads of a core have one tile unit between them, and the other one may belong to another machine. fp16
    spends three products where bf16 spends one, so that a shared unit changes which side of a comparison is faster.
    """

    flops: list[float] = field(default_factory=list)

    def note(self, limits: Limits | None, threads: int) -> None:
        if limits is not None and limits.amx_bf16_flops is not None:
            self.flops.append(limits.amx_bf16_flops / threads)

    @property
    def share(self) -> float | None:
        return statistics.median(self.flops) / max(self.flops) if self.flops else None

    def text(self) -> str:
        if self.share is None:
            return "tile unit: not measured"
        best, median = max(self.flops) * 1e-12, statistics.median(self.flops) * 1e-12
        return f"tile unit: {best:.2f} TFLOP/s a thread at best, {median:.2f} in the median ({self.share:.0%})"


def roofline_seconds(cell: Cell, dtype: str, limits: Limits) -> float | None:
    """Serial roofline: products at the multiply unit's peak, plus every visible score's exp2, or the memory's time.

    Serial because the tile unit and the vector unit share issue ports: their times add up rather than overlap.
    """
    on_tiles = (limits.amx_bf16_flops or 0.0) / AMX_PRODUCTS[dtype]
    on_vectors = limits.fma_fp32_flops or 0.0
    # fp32 takes either; of the other types nothing is widened where tiles are.
    flops_per_second = max(on_tiles, on_vectors) if dtype == "fp32" else on_tiles or on_vectors
    if not flops_per_second or limits.exp2_per_second is None or limits.read_bytes_per_second is None:
        return None
    compute_seconds = cell.flops / flops_per_second + cell.scores / limits.exp2_per_second
    memory_seconds = cell.bytes_touched(BYTES_PER_ELEMENT[dtype]) / limits.read_bytes_per_second
    return max(compute_seconds, memory_seconds)


class LimitMeter:
    """Measures limits with the library at `path`."""

    def __init__(self, path: str) -> None:
        self._measure = ctypes.CDLL(path).flashmoe_measure_limit
        self._measure.argtypes = [
            ctypes.c_char_p, ctypes.c_int, ctypes.c_double, ctypes.c_size_t, ctypes.POINTER(ctypes.c_double)
        ]  # fmt: skip
        self._measure.restype = ctypes.c_int

    def _rate(self, name: str, threads: int, seconds: float, working_set_bytes: int = 0) -> float | None:
        rate = ctypes.c_double()
        status = self._measure(name.encode(), threads, seconds, working_set_bytes, ctypes.byref(rate))
        return rate.value if status == 0 else None

    def measure(self, cell: Cell, dtype: str, threads: int, seconds: float = 4e-3) -> Limits:
        bytes_touched = cell.bytes_touched(BYTES_PER_ELEMENT[dtype])
        return Limits(
            self._rate("amx_bf16", threads, seconds),
            self._rate("fma_fp32", threads, seconds),
            self._rate(EXP2_LIMITS[dtype], threads, seconds),
            self._rate("read", threads, seconds, bytes_touched),
        )


def find_meter(path: str | None) -> tuple[LimitMeter | None, str]:
    """The meter, or None with the reason. An explicit path must work; the default places may be empty."""
    explicit = path or os.environ.get(ENVIRONMENT_VARIABLE)
    candidate = Path(explicit) if explicit else Path(__file__).with_name(LIBRARY_NAME)
    if not candidate.exists():
        return None, f"machine limits are not measured: no {candidate} (built by CMake's flashmoe_machine_limits)"
    try:
        return LimitMeter(str(candidate)), ""
    except (OSError, AttributeError) as error:
        return None, f"machine limits are not measured: {error}"
