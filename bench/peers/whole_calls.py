"""What a user pays, call by call: all instructions of all launches, those of the busiest SM, and predicted cycles.

The lead of docs/kernel-comparison.md, from rows of the map (predict_map.py). Ours stands beside the better peer, which
may be another one by each measure.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from comparison import FLASH_ATTENTION, FLASHINFER, OURS, Goal
from map_cells import cells
from report import table, verdict

if TYPE_CHECKING:
    from predict_map import Row

# What follows this line in the page is the explanation, which compare.py writes.
EXPLANATION = "## Why: the interior loops"
COUNTED_ON = "l4"
Wanted = tuple[str, int, bool, int, int]  # kind, head size, causal, length, heads
USER_CASE: Wanted = ("prefill", 64, False, 128, 1)
USER_CASE_LIMIT = 35_512  # half of what the first version executed

_INTRODUCTION = """\
# Our kernels beside FlashInfer and FlashAttention-2

Whole calls first: what all launches of a call execute, fp16, and what they are predicted to take. Instructions are PTX,
executed by warps and counted by the virtual GPU (`virtual:l4`, 58 SMs); *busiest SM* deals the CTAs of a launch to the
SMs in the order of the grid and adds up the launches' largest shares. Cycles are predicted by `cudadent predict`
([how far that may be believed](predict.md)). B x H heads of S queries and S keys; decode has one query for each of 4
heads that share keys, and its S and B x H are those of the keys. FlashInfer decodes on tensor cores, as it recommends
for such groups. *Heads run*: so many ran in full length, ours then FlashInfer's and FlashAttention-2's; the others do
the same, and their CTAs are added to the grid, in the order of the launch of all heads. *affine*: none of this length
ran; its CTAs do as much for every block of keys as those of 256, 512, 1024 and 2048 keys, which lie on one line to the
instruction. No GPU ran anything, and nothing here is a time on one.

Written by `bench/peers/predict_map.py --write-docs` (the target `whole_calls` makes what this page has, `predict_map`
predictions of all of it) from [predict-map.csv](predict-map.csv), which has every figure; the interior loops below by
`bench/peers/compare.py --write-docs`.
"""


@dataclass(frozen=True)
class Call:
    """One problem on one GPU, by all sides."""

    kind: str
    head_dim: int
    causal: bool
    length: int
    heads: int
    of: dict[str, Row]

    @property
    def problem(self) -> Wanted:
        return (self.kind, self.head_dim, self.causal, self.length, self.heads)

    @property
    def name(self) -> str:
        return f"{self.kind} S={self.length} B x H={self.heads} D={self.head_dim}{' causal' if self.causal else ''}"

    def ratio(self, measure: Callable[[Row], float | None]) -> float | None:
        """Ours over the least of the peers; None: one of the three is missing."""
        figures = {side: measure(row) for side, row in self.of.items()}
        own, peers = figures.get(OURS), [figures.get(FLASHINFER), figures.get(FLASH_ATTENTION)]
        known = [one for one in peers if one is not None]
        return own / min(known) if own is not None and len(known) == len(peers) else None


def total(row: Row) -> float | None:
    return row.instructions


def busiest(row: Row) -> float | None:
    return row.busiest_sm


def cycles(row: Row) -> float | None:
    return None if row.refusal else row.cycles


def calls(rows: Iterable[Row]) -> list[Call]:
    """Of the GPU on which instructions are counted."""
    found: dict[tuple[str, int, bool, int, int], dict[str, Row]] = {}
    for row in rows:
        if row.gpu == COUNTED_ON:
            found.setdefault((row.kind, row.head_dim, row.causal, row.length, row.heads), {})[row.side] = row
    return [Call(*key, of) for key, of in sorted(found.items(), key=lambda one: (one[0][0] != "prefill", one[0]))]


def _ratios(found: Iterable[Call], measure: Callable[[Row], float | None]) -> list[tuple[float, str]]:
    known = ((call.ratio(measure), call.name) for call in found)
    return [(ratio, name) for ratio, name in known if ratio is not None]


def _mean_goal(name: str, ratios: list[float], holds: Callable[[float], bool]) -> Goal:
    if not ratios:
        return Goal(name, "-", None)
    mean = statistics.geometric_mean(ratios)
    return Goal(name, f"{mean:.2f} over {len(ratios)} problems", holds(mean))


def _worst_goal(name: str, ratios: list[tuple[float, str]], limit: float, most: bool = True) -> Goal:
    if not ratios:
        return Goal(name, "-", None)
    worst, where = max(ratios) if most else min(ratios)
    held = sum(one <= limit if most else one >= limit for one, _ in ratios)
    mean = statistics.geometric_mean([one for one, _ in ratios])
    figure = f"{held} of {len(ratios)} hold; mean {mean:.2f}; worst {worst:.2f}: {where}"
    return Goal(name, figure, held == len(ratios))


def user_case(found: Iterable[Call]) -> Row | None:
    """The size that people come with."""
    for call in found:
        if call.problem == USER_CASE:
            return call.of.get(OURS)
    return None


def goals(rows: Sequence[Row]) -> list[Goal]:
    found = calls(rows)
    on_busiest, large = _ratios(found, busiest), [call for call in found if call.heads * call.length >= 8192]
    mine = user_case(found)
    count = None if mine is None else mine.instructions
    every = [(words_of(cell.ours), cell) for some in cells(rows).values() for cell in some]
    faster = [(cell.speedup, name, cell) for name, cell in every if cell.speedup is not None and cell.all_predicted]
    validated = [(speedup, name) for speedup, name, cell in faster if cell.is_validated]
    short = [(speedup, name) for speedup, name, cell in faster if cell.length <= 256 and cell.ours.kind == "prefill"]
    return [
        _mean_goal("busiest SM, over the better peer's: mean at most 0.9", [r for r, _ in on_busiest],
                   lambda r: r <= 0.9),
        _worst_goal("busiest SM: no problem above 1.2", on_busiest, 1.2),
        _worst_goal("all instructions: at most 1.3 where B x H x S >= 8192", _ratios(large, total), 1.3),
        Goal(
            f"S=128, D=64, B=H=1: at most {USER_CASE_LIMIT:,} instructions",
            "-" if count is None else f"{count:,}",
            None if count is None else count <= USER_CASE_LIMIT,
        ),
        _mean_goal("predicted, times as fast as the better peer: mean at least 1.1", [s for s, _, _ in faster],
                   lambda r: r >= 1.1),
        _worst_goal("predicted: no validated problem below 0.97", validated, 0.97, most=False),
        _mean_goal("predicted, S <= 256, not validated: mean at least 1.5", [s for s, _ in short], lambda r: r >= 1.5),
        _worst_goal("predicted, S <= 256, not validated: each at least 1.5", short, 1.5, most=False),
    ]  # fmt: skip


def words_of(row: Row) -> str:
    mask = " causal" if row.causal else ""
    return f"{row.gpu} {row.kind} S={row.length} B x H={row.heads} D={row.head_dim}{mask}"


def _figures(call: Call, measure: Callable[[Row], float | None]) -> str:
    found = [measure(call.of[side]) if side in call.of else None for side in (OURS, FLASHINFER, FLASH_ATTENTION)]
    return " / ".join("-" if one is None else f"{one:,.0f}" for one in found)


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"


def _heads_run(call: Call) -> str:
    found = [call.of.get(side) for side in (OURS, FLASHINFER, FLASH_ATTENTION)]
    return " / ".join("-" if one is None or one.heads_run is None else
                      str(one.heads_run) if one.how == "run" else one.how for one in found)  # fmt: skip


def calls_tables(found: Sequence[Call]) -> str:
    head = (
        "S", "B x H", "heads run", "busiest SM: ours / FlashInfer / FlashAttention-2", "over the better",
        "all instructions", "over the better", "predicted cycles", "over the better",
    )  # fmt: skip
    text = ""
    for kind, head_dim, causal in dict.fromkeys((call.kind, call.head_dim, call.causal) for call in found):
        here = [call for call in found if (call.kind, call.head_dim, call.causal) == (kind, head_dim, causal)]
        lines = [
            [
                str(call.length), str(call.heads), _heads_run(call),
                _figures(call, busiest), _number(call.ratio(busiest)), _figures(call, total),
                _number(call.ratio(total)), _figures(call, cycles), _number(call.ratio(cycles)),
            ]
            for call in here
        ]  # fmt: skip
        text += f"### {kind.capitalize()}, D={head_dim}{', causal' if causal else ''}\n\n" + table(head, lines) + "\n"
    return text


def left_out(found: Sequence[Call], wanted: Iterable[Wanted]) -> str:
    """What of the grid nobody has run with instructions counted for all three."""
    wanted = list(wanted)
    there = {call.problem for call in found if call.ratio(busiest) is not None}
    missing = [one for one in wanted if one not in there]
    text = f"Of the grid's {len(wanted)} problems {len(wanted) - len(missing)} have been counted for all three.\n"
    for kind, head_dim, causal in dict.fromkeys(one[:3] for one in missing):
        lengths: dict[int, list[int]] = {}
        for *panel, length, heads in missing:
            if panel == [kind, head_dim, causal]:
                lengths.setdefault(length, []).append(heads)
        alike: dict[tuple[int, ...], list[int]] = {}
        for length, found_heads in lengths.items():
            alike.setdefault(tuple(found_heads), []).append(length)
        sizes = [f"S = {_listed(some)} with B x H = {_listed(heads)}" for heads, some in alike.items()]
        text += f"- not yet: {kind}, D={head_dim}{', causal' if causal else ''}: {'; '.join(sizes)}\n"
    return text + "- not on this page: pages and biases, for which the peers' harness has no plug-in\n"


def _listed(numbers: Iterable[int]) -> str:
    return ", ".join(map(str, numbers))


def lead(rows: Iterable[Row], wanted: Sequence[Wanted]) -> str:
    """Of the problems that are wanted; the map may have more."""
    asked = set(wanted)
    rows = [row for row in rows if (row.kind, row.head_dim, row.causal, row.length, row.heads) in asked]
    found = calls(rows)
    parts = [
        _INTRODUCTION,
        "## Goals\n\n" + table(("whole calls", "figure", ""), [(g.name, g.figure, verdict(g)) for g in goals(rows)]),
        left_out(found, wanted),
        "## Whole calls\nVirtual and predicted, on an L4.\n",
        calls_tables(found),
    ]
    return "\n".join(parts)


def with_lead(page: str, new_lead: str) -> str:
    """The page with its explanation as it stands."""
    _, mark, rest = page.partition(EXPLANATION)
    return new_lead + mark + rest


def with_explanation(page: str, explanation: str) -> str:
    """The page with its lead as it stands; the explanation begins with its heading."""
    return page.partition(EXPLANATION)[0] + explanation
