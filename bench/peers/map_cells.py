"""From rows of the map to its cells: ours over the better peer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from comparison import OURS

if TYPE_CHECKING:
    from predict_map import Row

Panel = tuple[str, str, int, bool]  # GPU, kind of problem, head size, causal


@dataclass(frozen=True)
class Cell:
    length: int
    heads: int
    ours: Row
    peer: Row | None  # the faster one; None: none is predicted
    all_predicted: bool  # else the better peer may be one that is not

    @property
    def speedup(self) -> float | None:
        """Times as fast as the better peer; None: one of both is not predicted."""
        if self.ours.refusal or self.peer is None:
            return None
        return self.peer.microseconds / self.ours.microseconds

    @property
    def is_validated(self) -> bool:
        return self.all_predicted and self.peer is not None and self.ours.is_validated and self.peer.is_validated


def cells(rows: Sequence[Row]) -> dict[Panel, list[Cell]]:
    problems: dict[tuple[str, str, int, bool, int, int], list[Row]] = {}
    for row in rows:
        key = (row.gpu, row.kind, row.head_dim, row.causal, row.length, row.heads)
        problems.setdefault(key, []).append(row)
    found: dict[Panel, list[Cell]] = {}
    for (*panel, length, heads), sides in sorted(problems.items(), key=lambda one: one[0]):
        own = [row for row in sides if row.side == OURS]
        peers = [row for row in sides if row.side != OURS and not row.refusal]
        if own:
            better = min(peers, key=lambda row: row.microseconds, default=None)
            complete = all(not row.refusal for row in sides)
            found.setdefault(tuple(panel), []).append(Cell(length, heads, own[0], better, complete))
    return found


def words(panel: Panel) -> str:
    gpu, kind, head_dim, causal = panel
    return f"{gpu}, {'' if kind == 'prefill' else kind + ', '}D={head_dim}{', causal' if causal else ''}"
