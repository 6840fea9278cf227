"""The map as a page: what it is of, and how often ours is faster or slower, panel by panel."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import TYPE_CHECKING

from map_cells import Cell, cells, words

if TYPE_CHECKING:
    from predict_map import Row

# The least gap whose sign is right in nine of ten cases (docs/predict-validation.md).
_BELIEVED = 1.10

_INTRODUCTION = """\
# Our kernels against the peers', predicted over sizes

Whole kernels with all their launches, fp16, S queries and S keys, B x H heads, at the boost clock: ours beside the
better of FlashInfer's and FlashAttention-2's on the same problem, all three as `cudadent predict` says it
([how far that may be believed](predict.md)). Written by the target `predict_map` (`bench/peers/predict_map.py`); the
figures of every kernel are in [predict-map.csv](predict-map.csv). Nothing was measured, and nothing was fitted to any
of these kernels. Where ours is slower the kernels are to be mended, never the model.

Hatched is what is not like the points that the [validation](predict-validation.md) holds the model against: a kernel
below 10 us, a grid with fewer CTAs than SMs, an answer with a doubt; and where one of the three is not predicted at
all. Gaps below 10 % are what the model cannot tell apart.

![Ours over the better peer, predicted](predict-map.svg)

"""


def _line(name: str, found: Sequence[Cell]) -> str:
    speedups = [(cell.speedup, cell) for cell in found if cell.speedup is not None]
    figures = [speedup for speedup, _ in speedups]
    if not figures:
        return f"| {name} | {len(found)} | 0 | | | | |\n"
    worst, where = min(speedups, key=lambda one: one[0])
    return (
        f"| {name} | {len(found)} | {sum(cell.is_validated for cell in found)} "
        f"| {sum(one >= _BELIEVED for one in figures)} | {sum(one <= 1 / _BELIEVED for one in figures)} "
        f"| {statistics.geometric_mean(figures):.2f} | {worst:.2f} at S={where.length}, B x H={where.heads} |\n"
    )


def page(rows: Sequence[Row]) -> str:
    panels = cells(rows)
    text = _INTRODUCTION
    head = ("", "cells", "not hatched", "ours faster by 10 %", "slower by 10 %", "mean, times as fast", "worst")
    text += "| " + " | ".join(head) + " |\n" + "|" + " --- |" * len(head) + "\n"
    for panel, found in panels.items():
        text += _line(words(panel), found)
    text += _line("all", [cell for found in panels.values() for cell in found])
    missing = sum(cell.speedup is None for found in panels.values() for cell in found)
    if missing:
        text += f"\nNot predicted: {missing} cells (the reasons are in the table of figures).\n"
    return text
