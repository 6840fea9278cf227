"""The validation as a page of Markdown and a picture."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from fits import Cycles
from judgement import EFFICIENCY, EVENTS_CARD, MODEL, PIPE, Facts, HeldOut, NeverFitted, Ratio, SignRow
from picture import picture
from published import Point

if TYPE_CHECKING:
    from validate import Check, Use

INTRODUCTION = """\
# The model against published measurements

What `src/predict` says of kernels that others have timed on cards that are not here. Written by the target
`predict_validation` (`tests/predict/validate.py`). Labels: *published* is somebody's measurement (who and how:
`tests/predict/sources.toml`, row by row: `tests/predict/published.csv`), *predicted* is the model's, *fitted* is
chosen so that predictions meet some of the published rows. Nothing on this page was measured by this project.

The kernels are those that were measured, as far as that is known: FlashAttention-2 and CUTLASS's memory-efficient
attention, cut out of the wheel of torch 2.2.1 (CUDA 12.1) when the validation runs. That wheel ran on the L4; what
version ran on the other cards is not told by their sources, and it stands in for them. These cubins carry no PTX, so
the virtual GPU cannot give their paths: those are declared (`tests/predict/paths`), and the validation checks that
each is a path of the SASS and multiplies exactly what attention has to.

Fitted is one number for each card, its sustained SM clock, and on the L4, whose rows are times between events, two
more: the gap between the events and the kernel, and the share of DRAM's bandwidth that is reached. Nothing is fitted
for a kernel.
"""

RULES = """\
## How it is counted

- **Clock-free**: cycles in which a pipe is busy over cycles, which no clock enters. FlashAttention-2's is of its main
  loop with two CTAs on an SM; that of CUTLASS's kernel is of the whole launch, 64 CTAs on 58 SMs.
- **Held out**: a random half of a card's shapes is fitted on, the error is that of the other half; 20 such splits,
  whose seeds are 0 to 19 (`fitted_shapes()` in `tests/predict/published.py`). On the L4 each regime is halved by
  itself. The error is predicted over published time, less 1, and its mean is over the absolute values of all held-out
  rows of all splits.
- **Rivals**, fitted on the same rows: *one efficiency a card* (FLOP over a constant); *tensor pipe, waves, one
  constant* (CTAs in grid order that take as long as their HMMAs, over a fitted clock). On the L4, too, they have one
  number each.
- **Never fitted**: a card whose rows nothing was fitted on. "at boost": at its nominal boost clock. "at the others'
  share": at the share of boost that the clocks of the other cards are of theirs. The rival: its tensor peak times the
  mean efficiency of the others.
- **Pairs**: two rows of one card; right is a pair whose predicted order, by FLOP a second, is the published one.
  Charts print whole TFLOPS, so that small gaps are also small gaps of rounding. It is the same clock for both, unless
  power says otherwise.
"""

FRESH = """\
## The same rows from a fresh build

FlashAttention-2's rows up to S = 8192 twice: by the program that was measured on its declared path, as everywhere
above, and through the whole pipeline: FlashAttention-2 2.8.3 compiled here for the card's architecture
(`tests/peers`), one head on the virtual GPU, its recorded path, the grid of all heads. Mean held-out error on the same
rows and splits. The fresh build is another version by another compiler than what ran on the cards: where the columns
differ, that is in it.

"""

FAILURES = """\
## What is known to be wrong

- CUTLASS's kernel, alone on an SM, comes out too fast by Nsight Compute's counters. The conflicts of its shared-memory
  accesses and of its atomic maxima are not known here, since the virtual GPU has not run it, and are taken to be none:
  a likely cause, not an established one.
- Ratios assume one clock for two kernels. A card at its power limit gives the kernel that keeps the tensor pipe less
  busy a higher one; the RTX A6000 departs most, and FlashAttention-2 runs it well below its boost clock.
- The rows of all cards but the L4 are of a version that their sources do not tell.
"""

REGIMES = """\
The rows of the L4 are in three regimes, labelled before anything was fitted: *boost* (S up to 512, short calls), at
the boost clock; *dram* (S = 512 with 256 or more heads in all: Q, K, V and O exceed 48 MB of L2); *throttled* (S of
1024 and more, long calls at the cap of 72 W), at the fitted clock.
"""


@dataclass(frozen=True)
class Fresh:
    """A card's rows by two programs: that which was measured, on its declared path, and a fresh build of another."""

    card: str
    rows: int
    declared: float  # mean held-out error, 0..1
    pipeline: float
    ratio: float  # cycles of the pipeline over those of the declared path, geometric mean

    def __str__(self) -> str:
        return (
            f"{self.card}, {self.rows} rows: held-out error {_percent(self.declared)} by the declared path, "
            f"{_percent(self.pipeline)} through the pipeline, {self.ratio:.3f} times its cycles"
        )


@dataclass
class Page:
    uses: list[Use]
    points: list[Point] = field(default_factory=list)
    facts: dict[str, Facts] = field(default_factory=dict)
    cycles: Cycles | None = None
    held_out: HeldOut | None = None
    never_fitted: list[NeverFitted] = field(default_factory=list)
    ratios: list[Ratio] = field(default_factory=list)
    signs: list[SignRow] = field(default_factory=list)
    kernel_signs: list[SignRow] = field(default_factory=list)
    pipeline: list[Fresh] = field(default_factory=list)


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "".join("| " + " | ".join(line) + " |\n" for line in lines)


def _percent(value: float, digits: int = 1) -> str:
    return f"{100 * value:.{digits}f} %"


def _signed(value: float) -> str:
    return f"{100 * value:+.1f} %"


def _must(checks: Sequence[Check]) -> str:
    rows = [
        (check.what, check.figure, check.bound, "holds" if check.holds else "**does not hold**") for check in checks
    ]
    return "## What must hold\n\n" + table(("what", "figure", "bound", ""), rows)


def _uses(page: Page) -> str:
    rows = [
        (use.kernel, use.card, use.what, f"{use.published:.1f} %", f"{use.predicted:.1f} %", use.source)
        for use in page.uses
    ]
    head = ("kernel", "card", "pipe", "published (Nsight Compute)", "predicted, nothing fitted", "source")
    return "## Without a clock\n\n" + table(head, rows)


def _held_out(result: HeldOut, facts: dict[str, Facts], points: Sequence[Point]) -> str:
    others = [card for card in result.cards() if card != EVENTS_CARD]
    rows = []
    for name, cards in [*((card, [card]) for card in result.cards()), ("all but the L4", others)]:
        count = sum(point.use == "split" and point.card in cards for point in points)
        means = [_percent(result.mean(predictor, cards)) for predictor in (MODEL, EFFICIENCY, PIPE)]
        worst = max((abs(e) for card in cards for e in result.errors[MODEL][card]), default=0)
        clocks = ["", ""]
        if len(cards) == 1:
            boost = facts[name].boost_clock_mhz
            clocks = [
                f"{mean:.0f} MHz ({100 * mean / boost:.0f} % of {boost:.0f})"
                for mean in (statistics.fmean(result.clocks[name]), statistics.fmean(result.pipe_clocks[name]))
            ]
        rows.append((name, str(count), *means, _percent(worst, 0), *clocks))
    head = (
        "card", "rows", MODEL, EFFICIENCY, PIPE, "model, worst row", "fitted clock of the model", "of the tensor pipe",
    )  # fmt: skip
    text = "## Held out\n\nMean error of rows that were not fitted on, 20 splits.\n\n" + table(head, rows)
    gap = statistics.fmean(times.gap_ms for times in result.event_times)
    efficiency = statistics.fmean(times.dram_efficiency for times in result.event_times)
    fitted = f"gap {1000 * gap:.0f} us, {_percent(efficiency, 0)} of DRAM's bandwidth"
    return f"{text}\n{REGIMES}Fitted there, mean of the splits: {fitted}.\n"


def _never_fitted(page: Page) -> str:
    columns = ("at_boost", "at_share", "rival")
    rows = [[one.card, *(_percent(getattr(one, name)) for name in columns)] for one in page.never_fitted]
    means = [statistics.fmean(getattr(one, name) for one in page.never_fitted) for name in columns]
    rows.append(["mean of the cards", *map(_percent, means)])
    head = ("card", "model at boost", "model at the others' share", "peak times the others' efficiency")
    return "## A card that was never fitted\n\nMean error.\n\n" + table(head, rows)


def _shape(point: Point) -> str:
    return f"D={point.head_dim}, {'causal' if point.causal else 'not causal'}, S={point.seqlen}"


def _ratios(page: Page) -> str:
    groups: dict[tuple[str, int, bool], list[Ratio]] = {}
    for ratio in page.ratios:
        groups.setdefault((ratio.point.card, ratio.point.head_dim, ratio.point.causal), []).append(ratio)
    rows = []
    for (card, head_dim, causal), found in groups.items():
        deviations = sorted(ratio.deviation for ratio in found)
        rows.append(
            (
                card, str(head_dim), "causal" if causal else "not causal", str(len(found)),
                f"{statistics.median(ratio.published for ratio in found):.2f}",
                f"{statistics.median(ratio.predicted for ratio in found):.2f}",
                _signed(statistics.median(deviations)), f"{_signed(deviations[0])} to {_signed(deviations[-1])}",
            )
        )  # fmt: skip
    head = ("card", "D", "mask", "shapes", "published, median", "predicted, median", "deviation, median", "from, to")
    text = "## FlashAttention-2 over the memory-efficient kernel\n\nTimes faster, at one clock for both.\n\n" + table(
        head, rows
    )
    outliers = [ratio for ratio in page.ratios if abs(ratio.deviation) > 0.15]
    if outliers:
        text += "\nMore than 15 % off:\n\n" + table(
            ("card", "shape", "published", "predicted", "deviation"),
            [
                (r.point.card, _shape(r.point), f"{r.published:.2f}", f"{r.predicted:.2f}", _signed(r.deviation))
                for r in outliers
            ],
        )
    return text


def _signs(page: Page) -> str:
    rows = []
    for every, kernels in zip(page.signs, page.kernel_signs, strict=True):
        gap = f"{100 * every.least_gap:.0f} to {100 * every.most_gap:.0f} %" if every.most_gap < 9 else "above 15 %"
        cells = [gap]
        for one in (every, kernels):
            cells += [str(one.pairs), _percent(one.right / one.pairs) if one.pairs else "-"]
        rows.append(cells)
    head = ("predicted gap", "pairs of rows", "sign right", "pairs of kernels on one shape", "sign right")
    return "## Sign right, by predicted gap\n\n" + table(head, rows)


def _pipeline(page: Page) -> str:
    rows = [
        (one.card, str(one.rows), _percent(one.declared), _percent(one.pipeline), f"{one.ratio:.3f}")
        for one in page.pipeline
    ]
    head = (
        "card",
        "rows",
        "measured program, declared path",
        "fresh build, virtual GPU",
        "cycles, fresh over measured",
    )
    return FRESH + table(head, rows)


def _rows(points: Sequence[Point]) -> str:
    counts = Counter(
        (point.card, point.kernel, point.use, point.why if point.use == "excluded" else "") for point in points
    )
    rows = [(card, kernel, use, why, str(count)) for (card, kernel, use, why), count in counts.items()]
    return "## The rows\n\n" + table(("card", "kernel", "use", "why", "rows"), rows)


def text(page: Page, checks: Sequence[Check]) -> str:
    assert page.held_out is not None
    parts = [
        INTRODUCTION + "\n![Published against predicted time](predict-validation.svg)\n",
        _must(checks),
        _uses(page),
        _held_out(page.held_out, page.facts, page.points),
        _never_fitted(page),
        _ratios(page),
        _signs(page),
        _pipeline(page),
        FAILURES,
        RULES,
        _rows(page.points),
    ]
    return "\n".join(parts)


def write(page: Page, checks: Sequence[Check], docs: Path) -> None:
    assert page.held_out is not None and page.cycles is not None
    (docs / "predict-validation.md").write_text(text(page, checks))
    (docs / "predict-validation.svg").write_text(picture(page.points, page.cycles, page.held_out))
