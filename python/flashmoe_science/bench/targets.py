"""What the library promises (musts) and aims at (goals), as data, and the verdict on each.

A must holds when the lower bound of its interval reaches the threshold, fails when the upper bound stays below it, and
is inconclusive otherwise, as it is when one of its cells was not measured, or only while other programs left it too few
processors.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from enum import Enum

from .cells import PAGED_KINDS, Cell, all_cells
from .intervals import Interval, geometric_mean_interval


class Outcome(Enum):
    HOLDS = "holds"
    FAILS = "fails"
    INCONCLUSIVE = "inconclusive"


EXIT_CODES = {Outcome.HOLDS: 0, Outcome.FAILS: 1, Outcome.INCONCLUSIVE: 3}
EXIT_USAGE = 2


@dataclass(frozen=True)
class Measured:
    """One row of results, as far as a verdict needs it."""

    cell: Cell
    dtype: str
    threads: int
    peer: str
    ratio: Interval
    log_ratios: Sequence[float]
    wrong: str = ""  # why it was not timed
    roofline_share: float | None = None
    disturbed: bool = False  # other programs left it too few processors

    @property
    def key(self) -> str:
        return f"{self.dtype}/t{self.threads}/{self.cell.name}"


@dataclass
class Verdict:
    title: str
    is_must: bool
    threshold: float
    outcome: Outcome
    figure: Interval | None
    cells: list[str] = field(default_factory=list)  # those to blame
    missing: list[str] = field(default_factory=list)  # those that were not measured

    def as_json(self) -> dict[str, object]:
        figure = self.figure
        return {
            "title": self.title,
            "must": self.is_must,
            "threshold": self.threshold,
            "outcome": self.outcome.value,
            "figure": None if figure is None else figure.value,
            "low": None if figure is None else figure.low,
            "high": None if figure is None or math.isinf(figure.high) else figure.high,
            "cells": self.cells,
            "not_measured": self.missing,
        }


# No cell of the must's data types may be below this ratio; fp32 and decode in bf16 have only a goal.
CELL_THRESHOLDS = {"fp16": 1.1, "bf16": 1.1, "fp32": 1.05}
THREADS = (1, 2)


@dataclass(frozen=True)
class Held:
    """What no cell of some kinds may fall below: held is what was reached when it was last measured, less its noise."""

    peer: str
    kinds: tuple[str, ...]
    dtype: str
    held: float
    promised: float


HELD = (
    Held("torch", ("bias",), "fp16", 1.5, 1.5),
    Held("torch", ("bias",), "bf16", 1.4, 1.5),
    Held("torch", ("bias",), "fp32", 1.0, 1.1),
    Held("torch", ("padding", "mask", "lengths"), "fp16", 1.3, 1.3),
    Held("torch", ("padding", "mask", "lengths"), "bf16", 1.3, 1.3),
    Held("vllm", ("paged-decode",), "bf16", 0.85, 1.0),
    Held("vllm", ("paged-decode",), "fp16", 1.0, 1.0),
    Held("vllm", ("paged-prefill", "paged-chunk", "paged-mixed"), "bf16", 0.95, 1.0),
    Held("vllm", ("paged-prefill", "paged-chunk", "paged-mixed"), "fp16", 1.0, 1.0),
    Held("vllm", ("paged-window",), "bf16", 0.8, 1.0),
    Held("vllm", ("paged-window",), "fp16", 0.6, 1.0),
)
PROMISED_MEAN_AGAINST_VLLM = 1.25


def cell_threshold(peer: str, kind: str, dtype: str) -> float:
    """What a cell is measured until it is clear of."""
    for held in HELD:
        if held.peer == peer and kind in held.kinds and held.dtype == dtype:
            return held.held
    return CELL_THRESHOLDS[dtype] if peer == "torch" else 1.0


def judge(figure: Interval, threshold: float) -> Outcome:
    if figure.low >= threshold:
        return Outcome.HOLDS
    return Outcome.FAILS if figure.high < threshold else Outcome.INCONCLUSIVE


def _expected(kinds: Iterable[str], dtype: str, threads: Iterable[int]) -> list[str]:
    return [f"{dtype}/t{t}/{cell.name}" for t in threads for cell in all_cells() if cell.kind in set(kinds)]


def _rows(
    results: Iterable[Measured], peer: str, expected: Iterable[str]
) -> tuple[list[Measured], list[str], list[str]]:
    """The measured rows among the expected, the wrong ones with what is wrong, and the keys that are missing."""
    by_key = {result.key: result for result in results if result.peer == peer}
    good, wrong, missing = [], [], []
    for key in expected:
        row = by_key.get(key)
        if row is None or (not row.wrong and not row.log_ratios):
            missing.append(key)
        elif row.disturbed and not row.wrong:
            missing.append(f"{key} (only while the machine was busy)")
        elif row.wrong:
            wrong.append(f"{key}: {row.wrong}")
        else:
            good.append(row)
    return good, wrong, missing


def mean_at_least(
    results: Sequence[Measured],
    title: str,
    is_must: bool,
    threshold: float,
    expected: Sequence[str],
    peer: str = "torch",
) -> Verdict:
    """The geometric mean over the expected cells."""
    good, wrong, missing = _rows(results, peer, expected)
    figure = geometric_mean_interval([row.log_ratios for row in good]) if good else None
    if wrong:
        outcome = Outcome.FAILS
    elif missing or figure is None:
        outcome = Outcome.INCONCLUSIVE
    else:
        outcome = judge(figure, threshold)
    return Verdict(title, is_must, threshold, outcome, figure, wrong, missing)


def every_cell_at_least(
    results: Sequence[Measured],
    title: str,
    is_must: bool,
    threshold: float,
    expected: Sequence[str],
    peer: str = "torch",
    value_of: Callable[[Measured], Interval | None] = lambda row: row.ratio,
) -> Verdict:
    """The smallest of the expected cells."""
    good, wrong, missing = _rows(results, peer, expected)
    notes = list(wrong)
    outcomes = [Outcome.FAILS] * len(wrong)
    values = {row.key: value_of(row) for row in good}
    missing += [key for key, value in values.items() if value is None]
    slowest_first = sorted(((v, k) for k, v in values.items() if v is not None), key=lambda pair: pair[0].value)
    for value, key in slowest_first:
        outcomes.append(judge(value, threshold))
        if outcomes[-1] is not Outcome.HOLDS:
            notes.append(f"{key}: {value.value:.3f} [{value.low:.3f}, {value.high:.3f}] {outcomes[-1].value}")
    figure = slowest_first[0][0] if slowest_first else None
    if Outcome.FAILS in outcomes:
        outcome = Outcome.FAILS
    elif missing or not outcomes or Outcome.INCONCLUSIVE in outcomes:
        outcome = Outcome.INCONCLUSIVE
    else:
        outcome = Outcome.HOLDS
    return Verdict(title, is_must, threshold, outcome, figure, notes, missing)


# Prefill in fp16 where tiles multiply fp16 themselves (AMX-FP16): torch uses that, the library does not yet and spends
# three bf16 products on each. 2.5 is for CPUs without; here it may not be slower than torch on the whole.
FP16_TILES_MEAN = 1.0


def must_verdicts(
    results: Sequence[Measured], margin: float = 1.0, fp16_tiles: bool = False, peers: Sequence[str] = ("torch",)
) -> list[Verdict]:
    """The musts against these peers; a margin below 1 lowers every threshold by that factor."""
    verdicts = _torch_musts(results, margin, fp16_tiles) if "torch" in peers else []
    dtypes = {"fp16", "bf16"} | {row.dtype for row in results}  # fp32 is held where it is asked for
    for held in HELD:
        if held.peer not in peers or held.dtype not in dtypes:
            continue
        title = f"slowest cell against {held.peer}, {' and '.join(held.kinds)}, {held.dtype} (aim: {held.promised})"
        expected = _expected(held.kinds, held.dtype, THREADS)
        verdicts.append(every_cell_at_least(results, title, True, held.held * margin, expected, peer=held.peer))
    return verdicts


def _torch_musts(results: Sequence[Measured], margin: float, fp16_tiles: bool) -> list[Verdict]:
    verdicts = []
    for dtype, threshold in (("fp16", FP16_TILES_MEAN if fp16_tiles else 2.5), ("bf16", 1.8)):
        title = f"prefill geometric mean, {dtype}, 1 and 2 threads"
        if dtype == "fp16" and fp16_tiles:
            title += " (2.5 on CPUs without AMX-FP16, which torch uses here and the library does not)"
        expected = _expected(["prefill"], dtype, THREADS)
        verdicts.append(mean_at_least(results, title, True, threshold * margin, expected))
    for dtype, kinds in (("fp16", ["decode"] if fp16_tiles else ["prefill", "decode"]), ("bf16", ["prefill"])):
        threshold = CELL_THRESHOLDS[dtype] * margin
        title = f"slowest cell, {' and '.join(kinds)}, {dtype}"
        verdicts.append(every_cell_at_least(results, title, True, threshold, _expected(kinds, dtype, THREADS)))
    return verdicts


def _roofline(row: Measured) -> Interval | None:
    share = row.roofline_share
    return None if share is None else Interval(share, share, share)


def goal_verdicts(results: Sequence[Measured], python_calls: bool = True) -> list[Verdict]:
    """Goals for whatever was measured: a goal none of whose cells was asked for is left out."""
    verdicts = []
    for dtype, mean, least in (("fp16", 3.5, 1.3), ("bf16", 2.5, 1.3), ("fp32", 1.4, 1.05)):
        expected = _expected(["prefill"], dtype, THREADS)
        verdicts.append(mean_at_least(results, f"prefill geometric mean, {dtype}", False, mean, expected))
        verdicts.append(every_cell_at_least(results, f"slowest prefill cell, {dtype}", False, least, expected))
    for dtype, mean in (("fp16", 2.5), ("bf16", 1.1)):
        expected = _expected(["decode"], dtype, THREADS)
        verdicts.append(mean_at_least(results, f"decode geometric mean, {dtype}", False, mean, expected))
    # Both sides read the whole cache at the memory's speed: on one thread the bandwidth leaves about 1.15 at most.
    expected = _expected(["decode"], "bf16", THREADS)
    title = "slowest decode cell, bf16 (not in the exit code: memory-bound on both sides; a must if read strictly)"
    verdicts.append(every_cell_at_least(results, title, False, CELL_THRESHOLDS["bf16"], expected))
    for dtype in ("fp16", "bf16", "fp32"):
        expected = [row.key for row in results if row.peer == "onednn" and row.dtype == dtype]
        title = f"decode, slowest cell against oneDNN, {dtype}"
        verdicts.append(every_cell_at_least(results, title, False, 1.0, expected, peer="onednn"))
        for peer in ("onnxruntime", "openvino"):
            expected = [row.key for row in results if row.peer == peer and row.dtype == dtype]
            title = f"slowest cell against {peer}, {dtype}"
            verdicts.append(every_cell_at_least(results, title, False, 1.0, expected, peer=peer))
    for held in HELD:
        title = f"slowest cell against {held.peer}, {' and '.join(held.kinds)}, {held.dtype}"
        expected = _expected(held.kinds, held.dtype, THREADS)
        verdicts.append(every_cell_at_least(results, title, False, held.promised, expected, peer=held.peer))
    for dtype in ("bf16", "fp16"):
        expected = _expected(PAGED_KINDS, dtype, THREADS)
        title = f"geometric mean against vllm, {dtype}"
        verdicts.append(mean_at_least(results, title, False, PROMISED_MEAN_AGAINST_VLLM, expected, peer="vllm"))
    long_cells = [key for key in _expected(["prefill"], "bf16", THREADS) if _length(key) >= 1024]
    title = "share of the serial AMX + exp roofline, bf16, S >= 1024"
    verdicts.append(every_cell_at_least(results, title, False, 0.6, long_cells, value_of=_roofline))
    calls = [f"{dtype}/t1/{cell.name}" for dtype in ("fp16",) for cell in all_cells() if cell.kind == "call"]
    title = "one Python call at (1,1,1,64), fp16: torch's time over ours"
    if python_calls:
        verdicts.append(every_cell_at_least(results, title, False, 1 / 0.9, calls))
    return [verdict for verdict in verdicts if verdict.figure is not None]


def _length(key: str) -> int:
    name = key.rsplit("/", 1)[1]
    return next(cell.q_len for cell in all_cells() if cell.name == name)


def overall(verdicts: Iterable[Verdict]) -> Outcome:
    outcomes = {verdict.outcome for verdict in verdicts}
    if Outcome.FAILS in outcomes:
        return Outcome.FAILS
    return Outcome.HOLDS if outcomes == {Outcome.HOLDS} else Outcome.INCONCLUSIVE
