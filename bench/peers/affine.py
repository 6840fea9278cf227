"""Instructions of a long problem from those of shorter ones, where its CTAs do as much for every block of keys."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from fractions import Fraction
from typing import TYPE_CHECKING

from predicted import busiest_sm

if TYPE_CHECKING:
    from predict_map import Row

LENGTHS = [256, 512, 1024, 2048]  # three for the line, the last to hold it against


def lengthened(shorter: Sequence[Row], length: int, heads: int, sms: int) -> list[int] | None:
    """What every CTA of a peer does, in the order of the grid: tiles, then heads.

    `shorter`: rows of one kernel with LENGTHS, as many heads each, keys whole. A CTA does the same for every tile of
    keys that it sees, of its own rows' size; with a causal mask the first, which sees one, or the last does something
    else beside. None: they do not say so, to the instruction.
    """
    if [row.length for row in shorter] != LENGTHS or any(row.launches != 1 for row in shorter):
        return None
    causal = shorter[0].causal
    tiles = [row.ctas // row.heads for row in shorter]
    of_head = [Fraction(row.instructions or 0, row.heads) for row in shorter]
    seen = [sum(tiles_seen(count, causal)) for count in tiles]
    # of_head = apart + own x tiles + each x seen. From one length to the double one, less twice the first:
    more = [of_head[i + 1] - 2 * of_head[i] for i in (0, 1)]
    more_seen = [seen[i + 1] - 2 * seen[i] for i in (0, 1)]
    each = (more[1] - more[0]) / (more_seen[1] - more_seen[0])
    apart = each * more_seen[0] - more[0]
    own = (of_head[0] - apart - each * seen[0]) / tiles[0]
    if apart != 0 and not causal:
        return None

    def ctas(count: int, times: int, other: int, step: int) -> list[Fraction]:
        found = [own + each * keys for keys in tiles_seen(count, causal)]
        found[other] += apart
        return found[::step] * times

    for other, step in itertools.product((0, -1), (1, -1)):
        made = [ctas(count, row.heads, other, step) for count, row in zip(tiles, shorter, strict=True)]
        known = [(row.instructions, row.busiest_sm) for row in shorter]
        if [(sum(one), busiest_sm(one, sms)) for one in made] == known:
            return [int(one) for one in ctas(tiles[0] * length // LENGTHS[0], heads, other, step)]
    return None


def tiles_seen(count: int, causal: bool) -> list[int]:
    return list(range(1, count + 1)) if causal else [count] * count
