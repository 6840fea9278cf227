"""The comparison as a picture: executed instructions for 1000 useful operations, four panels, logarithmic bars.

A line across a bar's column is the exact number of PTX instructions, prologue, epilogue and masked rounds included.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from xml.sax.saxutils import escape

from comparison import SIDES, Comparison
from problems import Problem

_COLOURS = dict(zip(SIDES, ("#1b6ca8", "#e08e2b", "#8a8f98"), strict=True))
_WIDTH, _HEIGHT = 440, 220  # of a panel, pixels
_LEFT, _TOP, _RIGHT, _BOTTOM = 46, 30, 12, 34  # margins in it
_BAR = 20
_HEADER = 34
_TITLE = "Instructions for 1000 useful operations on virtual:l4 (bars: SASS main loop x executed HMMAs; lines: all PTX)"


def _text(x: float, y: float, words: str, anchor: str = "middle", size: int = 11, fill: str = "#222") -> str:
    place = f'x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-size="{size}" fill="{fill}"'
    return f"<text {place}>{escape(words)}</text>"


def _panel(
    comparison: Comparison, problems: Sequence[Problem], title: str, x: int, y: int, top_value: float
) -> list[str]:
    bottom, height = y + _HEIGHT - _BOTTOM, _HEIGHT - _TOP - _BOTTOM
    decades = math.ceil(math.log10(top_value) + 1)  # the axis begins at 0.1

    def y_of(value: float) -> float:
        return bottom - height * (math.log10(max(value, 0.1)) + 1) / decades

    parts = [_text(x + _WIDTH / 2, y + 18, title, size=13)]
    for decade in range(-1, decades):
        at = y_of(10.0**decade)
        parts.append(f'<line x1="{x + _LEFT}" x2="{x + _WIDTH - _RIGHT}" y1="{at:.1f}" y2="{at:.1f}" stroke="#ddd"/>')
        parts.append(_text(x + _LEFT - 6, at + 4, f"{10.0**decade:g}", "end"))
    step = (_WIDTH - _LEFT - _RIGHT) / len(problems)
    for number, problem in enumerate(problems):
        centre = x + _LEFT + step * (number + 0.5)
        parts.append(_text(centre, bottom + 16, f"S={problem.len_q}"))
        sides = comparison.of_problem(problem)
        for place, side in enumerate(SIDES):
            value = sides[side].instructions_per_kiloflop if side in sides else None
            if value is None:
                continue
            left, top = centre + (place - 1.5) * _BAR, y_of(value)
            parts.append(
                f'<rect x="{left:.1f}" y="{top:.1f}" width="{_BAR - 2}" height="{bottom - top:.1f}" '
                f'fill="{_COLOURS[side]}"><title>{escape(f"{side}, {problem.name}: {value:.2f}")}</title></rect>'
            )
            figure = f"{value:.1f}" if value < 10 else f"{value:.0f}"
            parts.append(_text(left + _BAR / 2 - 1, top + 11, figure, size=9, fill="#fff"))
            exact = y_of(sides[side].ptx_instructions_per_kiloflop)
            ends = f'x1="{left:.1f}" x2="{left + _BAR - 2:.1f}" y1="{exact:.1f}" y2="{exact:.1f}"'
            parts.append(f'<line {ends} stroke="#222"/>')
    return parts


def svg(comparison: Comparison) -> str:
    prefill = [problem for problem in comparison.problems if not problem.is_decode]
    values = [
        max(row.instructions_per_kiloflop or 0, row.ptx_instructions_per_kiloflop)
        for row in comparison.rows
        if not row.problem.is_decode
    ]
    parts = [_text(_WIDTH, 20, _TITLE, size=14)]
    panels = [(head_dim, causal) for head_dim in (64, 128) for causal in (False, True)]
    for number, (head_dim, causal) in enumerate(panels):
        shown = [p for p in prefill if p.head_dim == head_dim and p.causal == causal]
        if shown:
            title = f"D={head_dim}{', causal' if causal else ''}"
            x, y = number % 2 * _WIDTH, _HEADER + number // 2 * _HEIGHT
            parts += _panel(comparison, shown, title, x, y, max(values))
    height = _HEADER + 2 * _HEIGHT + 26
    for place, side in enumerate(SIDES):
        x = _WIDTH - 190 + place * 130
        parts.append(f'<rect x="{x}" y="{height - 20}" width="12" height="12" fill="{_COLOURS[side]}"/>')
        parts.append(_text(x + 18, height - 10, side, "start"))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{2 * _WIDTH}" height="{height}" '
        f'viewBox="0 0 {2 * _WIDTH} {height}" font-family="sans-serif">\n'
        f'<rect width="100%" height="100%" fill="#fff"/>\n' + "\n".join(parts) + "\n</svg>\n"
    )
