"""The figures of the validation, from cycles of points to tables; nothing here knows how cycles are made."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from fits import (
    Cycles,
    EventTimes,
    Milliseconds,
    at_clock,
    errors,
    fitted_clock_mhz,
    fitted_event_times,
    geometric_mean,
)
from published import SPLITS, Point, fitted_shapes

MODEL, EFFICIENCY, PIPE = "model", "one efficiency a card", "tensor pipe, waves, one constant"
PREDICTORS = (MODEL, EFFICIENCY, PIPE)
GAPS = ((0.02, 0.05), (0.05, 0.10), (0.10, 0.15), (0.15, math.inf))
EVENTS_CARD = "l4"


@dataclass(frozen=True)
class Facts:
    sm_count: int
    boost_clock_mhz: float
    mma_sync_clocks: float
    dram_gb_per_s: float


@dataclass
class HeldOut:
    """Errors of points that were not fitted on, over all splits."""

    errors: dict[str, dict[str, list[float]]] = field(default_factory=dict)  # by predictor and card
    clocks: dict[str, list[float]] = field(default_factory=dict)  # of the model, a split each
    pipe_clocks: dict[str, list[float]] = field(default_factory=dict)
    event_times: list[EventTimes] = field(default_factory=list)

    def mean(self, predictor: str, cards: Sequence[str]) -> float:
        return statistics.fmean(abs(e) for card in cards for e in self.errors[predictor][card])

    def cards(self) -> list[str]:
        return list(self.errors[MODEL])


def _note(kept: dict[str, dict[str, list[float]]], predictor: str, card: str, found: list[float]) -> None:
    kept.setdefault(predictor, {}).setdefault(card, []).extend(found)


def held_out(points: Sequence[Point], facts: dict[str, Facts], model: Cycles, pipe: Cycles) -> HeldOut:
    """`points`: those of use "split"."""
    result = HeldOut()
    for seed in SPLITS:
        chosen = fitted_shapes(points, seed)
        for card in dict.fromkeys(point.card for point in points):
            rows = [point for point in points if point.card == card]
            fit = [point for point in rows if (card, point.shape) in chosen]
            rest = [point for point in rows if (card, point.shape) not in chosen]
            for predictor, cycles in ((MODEL, model), (PIPE, pipe), (EFFICIENCY, lambda point: point.flop)):
                clock = fitted_clock_mhz(cycles, fit)
                predicted: Milliseconds = at_clock(cycles, clock)
                if predictor == MODEL and card == EVENTS_CARD:
                    times = fitted_event_times(cycles, fit, facts[card].boost_clock_mhz, facts[card].dram_gb_per_s)
                    result.event_times.append(times)
                    clock = times.throttled_mhz
                    predicted = _events(times, cycles)
                if predictor != EFFICIENCY:
                    kept = result.clocks if predictor == MODEL else result.pipe_clocks
                    kept.setdefault(card, []).append(clock)
                _note(result.errors, predictor, card, errors(predicted, rest))
    return result


def _events(times: EventTimes, cycles: Cycles) -> Milliseconds:
    return lambda point: times.ms(cycles, point)


@dataclass(frozen=True)
class NeverFitted:
    """A card without any row of its own: at its boost clock, or at the share of it that others keep of theirs."""

    card: str
    at_boost: float  # mean error, 0..1
    at_share: float
    rival: float  # its tensor peak times the efficiency of others


def never_fitted(points: Sequence[Point], facts: dict[str, Facts], model: Cycles) -> list[NeverFitted]:
    rows = {card: [p for p in points if p.card == card] for card in dict.fromkeys(p.card for p in points)}
    rows.pop(EVENTS_CARD, None)  # its times are not the kernel's alone

    def peak(card: str) -> Cycles:
        fact = facts[card]
        return lambda point: point.flop * fact.mma_sync_clocks / (4096 * 4 * fact.sm_count)

    def shares(cycles_of: Callable[[str], Cycles], left_out: str) -> float:
        return geometric_mean(
            fitted_clock_mhz(cycles_of(card), own) / facts[card].boost_clock_mhz
            for card, own in rows.items()
            if card != left_out
        )

    def mean(cycles: Cycles, card: str, share: float) -> float:
        predicted = at_clock(cycles, facts[card].boost_clock_mhz * share)
        return statistics.fmean(abs(e) for e in errors(predicted, rows[card]))

    return [
        NeverFitted(
            card,
            mean(model, card, 1),
            mean(model, card, shares(lambda _: model, card)),
            mean(peak(card), card, shares(peak, card)),
        )
        for card in rows
    ]


@dataclass(frozen=True)
class Ratio:
    """How many times faster FlashAttention-2 is than the memory-efficient kernel on one shape."""

    point: Point
    published: float
    predicted: float

    @property
    def deviation(self) -> float:
        return self.predicted / self.published - 1


def ratios(points: Sequence[Point], model: Cycles) -> list[Ratio]:
    """Of the rows "split" and "ratio" that have the same card, source and shape."""
    slow = {(p.card, p.source, p.shape): p for p in points if p.kernel == "fmha" and p.use == "ratio"}
    found = []
    for fast in points:
        other = slow.get((fast.card, fast.source, fast.shape))
        if fast.kernel == "fa2" and fast.use == "split" and other is not None:
            found.append(Ratio(fast, other.ms / fast.ms, model(other) / model(fast)))
    return found


@dataclass(frozen=True)
class SignRow:
    least_gap: float
    most_gap: float
    pairs: int
    right: int


def signs(points: Sequence[Point], model: Cycles, same_shape: bool) -> list[SignRow]:
    """Pairs of rows of a card: whether the one predicted to reach more FLOP a second did. Equal ones are no pair.

    `same_shape`: only pairs that differ in the kernel alone.
    """
    measured: dict[tuple[str, str, object], list[Point]] = {}
    for point in points:
        if point.regime == "sustained":  # rows of several regimes differ by more than their kernels
            measured.setdefault((point.card, point.kernel, point.shape), []).append(point)
    one = [(rows[0], geometric_mean(p.flop / p.ms for p in rows)) for rows in measured.values()]
    counts = {gap: [0, 0] for gap in GAPS}
    for number, (first, first_rate) in enumerate(one):
        for second, second_rate in one[:number]:
            if first.card != second.card or first_rate == second_rate:
                continue
            if same_shape and first.shape != second.shape:
                continue
            predicted = math.log(first.flop / model(first)) - math.log(second.flop / model(second))
            for gap in GAPS:
                if gap[0] <= math.expm1(abs(predicted)) < gap[1]:
                    counts[gap][0] += 1
                    counts[gap][1] += (predicted > 0) == (first_rate > second_rate)
    return [SignRow(*gap, *count) for gap, count in counts.items()]
