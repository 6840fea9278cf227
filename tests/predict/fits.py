"""Predictors that are fitted on half of the shapes and judged on the other half.

The model has one number for each card: its sustained clock. On the L4 it has three: that clock for long calls, the time
between the events before a kernel begins, and the share of DRAM's bandwidth that is reached; short calls run at the
boost clock, which is data. Its rivals: one efficiency for each card; the tensor pipe and whole waves with one constant.
"""

from __future__ import annotations

import heapq
import math
import statistics
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from declared_paths import DeclaredKernel
from published import Point

Cycles = Callable[[Point], float]
Milliseconds = Callable[[Point], float]


def geometric_mean(values: Iterable[float]) -> float:
    return math.exp(statistics.fmean(math.log(value) for value in values))


def least(function: Callable[[float], float], low: float, high: float, rounds: int = 80) -> float:
    """Where a function with one valley is least, by golden section."""
    ratio = (math.sqrt(5) - 1) / 2
    for _ in range(rounds):
        left, right = high - ratio * (high - low), low + ratio * (high - low)
        low, high = (low, right) if function(left) < function(right) else (left, high)
    return (low + high) / 2


def squared_error(predicted: Milliseconds, points: Sequence[Point]) -> float:
    return sum(math.log(predicted(point) / point.ms) ** 2 for point in points)


def errors(predicted: Milliseconds, points: Iterable[Point]) -> list[float]:
    return [predicted(point) / point.ms - 1 for point in points]


def fitted_clock_mhz(cycles: Cycles, points: Sequence[Point]) -> float:
    return geometric_mean(cycles(point) / (point.ms * 1e3) for point in points)


def at_clock(cycles: Cycles, mhz: float) -> Milliseconds:
    return lambda point: cycles(point) / (mhz * 1e3)


@dataclass(frozen=True)
class EventTimes:
    """Three terms for what CUDA events around one call measure on the L4."""

    gap_ms: float
    throttled_mhz: float
    dram_efficiency: float
    boost_mhz: float
    dram_gb_per_s: float

    def ms(self, cycles: Cycles, point: Point) -> float:
        clock = self.throttled_mhz if point.regime == "throttled" else self.boost_mhz
        kernel = cycles(point) / (clock * 1e3)
        if point.regime == "dram":
            kernel = max(kernel, point.dram_bytes / (self.dram_efficiency * self.dram_gb_per_s * 1e6))
        return self.gap_ms + kernel


def fitted_event_times(cycles: Cycles, points: Sequence[Point], boost_mhz: float, dram_gb_per_s: float) -> EventTimes:
    """The gap from the short calls, the other two given it, each from the rows of its regime."""

    def of(gap: float, clock: float, efficiency: float, regime: str) -> float:
        times = EventTimes(gap, clock, efficiency, boost_mhz, dram_gb_per_s)
        return squared_error(lambda point: times.ms(cycles, point), [p for p in points if p.regime == regime])

    gap = least(lambda value: of(value, boost_mhz, 1, "boost"), 0, 0.1)
    clock = least(lambda value: of(gap, value, 1, "throttled"), boost_mhz / 4, boost_mhz)
    efficiency = least(lambda value: of(gap, boost_mhz, value, "dram"), 0.2, 1)
    return EventTimes(gap, clock, efficiency, boost_mhz, dram_gb_per_s)


def tensor_pipe_cycles(kernel: DeclaredKernel, seqlen: int, heads: int, sms: int, mma_clocks: float) -> float:
    """Nothing but the tensor pipe and whole CTAs on SMs: each slot of an SM gets its share of the pipe."""
    per_block = 2 * kernel.rows * kernel.keys * kernel.head_dim / (16 * 8 * 16) / 4 * mma_clocks
    slots = [0.0] * (sms * kernel.resident)
    for _ in range(heads):
        for blocks in kernel.key_blocks(seqlen):
            heapq.heappush(slots, heapq.heappop(slots) + blocks * per_block * kernel.resident)
    return max(slots)
