"""Ratios with confidence intervals, from paired blocks.

A block holds samples of both sides taken next to each other in time, so slow drift of the machine (frequency, other
tenants) is in both and cancels in the block's log ratio. The median of the blocks' log ratios is the estimate; its
interval is made of order statistics, which is exact for any noise distribution. Sampling stops early at fixed looks,
and the error probability is divided by the number of looks, so that looking often does not make the interval lie.
"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

ERROR_PROBABILITY = 0.05


@dataclass(frozen=True)
class Interval:
    """An estimate with its confidence bounds; unbounded where there are too few blocks."""

    value: float
    low: float
    high: float

    def clear_of(self, threshold: float) -> bool:
        return self.low >= threshold or self.high < threshold

    @property
    def relative_width(self) -> float:
        return (self.high - self.low) / self.value


def order_statistic_rank(count: int, error_probability: float) -> int:
    """The largest k for which [x_(k), x_(count+1-k)] holds the median with probability >= 1 - error; 0 if none does."""
    rank = 0
    tail = 0.0
    for k in range(1, count // 2 + 1):
        tail += math.comb(count, k - 1) * 0.5**count
        if 2 * tail > error_probability:
            break
        rank = k
    return rank


def ratio_interval(log_ratios: Sequence[float], error_probability: float = ERROR_PROBABILITY) -> Interval:
    """The median ratio of the blocks and its order-statistic confidence interval."""
    ordered = sorted(log_ratios)
    value = math.exp(median(ordered))
    rank = order_statistic_rank(len(ordered), error_probability)
    if rank == 0:
        return Interval(value, 0.0, math.inf)
    return Interval(value, math.exp(ordered[rank - 1]), math.exp(ordered[-rank]))


def geometric_mean(values: Sequence[float]) -> float:
    return math.exp(sum(math.log(value) for value in values) / len(values))


def geometric_mean_interval(
    log_ratios_by_cell: Sequence[Sequence[float]],
    error_probability: float = ERROR_PROBABILITY,
    resamples: int = 400,
    seed: int = 1,
) -> Interval:
    """The geometric mean of the cells' median ratios; a percentile bootstrap over the blocks of every cell."""
    value = geometric_mean([math.exp(median(cell)) for cell in log_ratios_by_cell])
    rng = random.Random(seed)
    means = sorted(
        sum(median(rng.choices(cell, k=len(cell))) for cell in log_ratios_by_cell) / len(log_ratios_by_cell)
        for _ in range(resamples)
    )
    # A bootstrap of a median is coarse: never report bounds that do not even hold the estimate.
    low = math.exp(means[int(resamples * error_probability / 2)])
    high = math.exp(means[min(resamples - 1, int(resamples * (1 - error_probability / 2)))])
    return Interval(value, min(low, value), max(high, value))


@dataclass(frozen=True)
class Looks:
    """When to look at the data: numbers of blocks, increasing. The last one is used only in a second pass."""

    blocks: tuple[int, ...]

    @property
    def error_probability(self) -> float:
        return ERROR_PROBABILITY / len(self.blocks)


# 8 blocks are the fewest whose extremes bound the median well enough for one of four looks (2 / 2^8 < 0.05 / 4).
FULL_LOOKS = Looks((8, 16, 32, 64))
QUICK_LOOKS = Looks((6,))
