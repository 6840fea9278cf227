"""Predicted over published time of every row that was used, a column a card, at the mean of the fitted clocks."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from xml.sax.saxutils import escape

from fits import Cycles, EventTimes
from judgement import EVENTS_CARD, HeldOut
from published import Point

_WIDTH, _HEIGHT = 920, 380
_LEFT, _TOP, _RIGHT, _BOTTOM = 60, 50, 16, 44
_LOW, _HIGH = -0.3, 0.3
_COLOURS = {(64, False): "#1b6ca8", (64, True): "#7fb3dd", (128, False): "#c0561a", (128, True): "#e9a86b"}
_TITLE = "FlashAttention-2 forward, predicted over published time (one fitted clock a card; across: published time)"


def _text(x: float, y: float, words: str, anchor: str = "middle", size: int = 11) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-size="{size}" fill="#222">{escape(words)}</text>'


def _y(deviation: float) -> float:
    inside = min(max(deviation, _LOW), _HIGH)
    return _TOP + (_HEIGHT - _TOP - _BOTTOM) * (_HIGH - inside) / (_HIGH - _LOW)


def _predicted_ms(point: Point, cycles: Cycles, result: HeldOut) -> float:
    if point.card == EVENTS_CARD:
        names = ("gap_ms", "throttled_mhz", "dram_efficiency", "boost_mhz", "dram_gb_per_s")
        means = [statistics.fmean(getattr(times, name) for times in result.event_times) for name in names]
        return EventTimes(*means).ms(cycles, point)
    return cycles(point) / (statistics.fmean(result.clocks[point.card]) * 1e3)


def _axes() -> list[str]:
    parts = []
    for tenths in range(-3, 4):
        at = _y(tenths / 10)
        colour = "#888" if tenths == 0 else "#ddd"
        parts.append(f'<line x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{at:.1f}" y2="{at:.1f}" stroke="{colour}"/>')
        parts.append(_text(_LEFT - 8, at + 4, f"{tenths * 10:+d} %" if tenths else "0", "end"))
    return parts


def _legend() -> list[str]:
    parts = []
    for place, ((head_dim, causal), colour) in enumerate(_COLOURS.items()):
        x = _LEFT + 10 + place * 150
        parts.append(f'<circle cx="{x}" cy="36" r="4" fill="{colour}"/>')
        parts.append(_text(x + 9, 40, f"D={head_dim}, {'causal' if causal else 'not causal'}", "start"))
    return parts


def picture(points: Sequence[Point], cycles: Cycles, result: HeldOut) -> str:
    parts = [_text(_WIDTH / 2, 18, _TITLE, size=13), *_legend(), *_axes()]
    cards = result.cards()
    column = (_WIDTH - _LEFT - _RIGHT) / len(cards)
    for number, card in enumerate(cards):
        left = _LEFT + number * column
        parts.append(_text(left + column / 2, _HEIGHT - 22, card, size=12))
        rows = [point for point in points if point.card == card and point.use == "split"]
        parts.append(_text(left + column / 2, _HEIGHT - 8, f"{len(rows)} rows", size=10))
        if number:
            parts.append(f'<line x1="{left:.1f}" x2="{left:.1f}" y1="{_TOP}" y2="{_HEIGHT - _BOTTOM}" stroke="#eee"/>')
        times = [math.log(point.ms) for point in rows]
        span = max(times) - min(times) or 1
        for point, time in zip(rows, times, strict=True):
            deviation = _predicted_ms(point, cycles, result) / point.ms - 1
            x = left + 10 + (column - 20) * (time - min(times)) / span
            mask = "causal" if point.causal else "not causal"
            words = f"{card}, D={point.head_dim}, {mask}, {point.batch} x {point.heads}, S={point.seqlen}: "
            words += f"published {point.ms:.3g} ms, predicted {100 * deviation:+.1f} %"
            colour = _COLOURS[point.head_dim, point.causal]
            parts.append(
                f'<circle cx="{x:.1f}" cy="{_y(deviation):.1f}" r="3" fill="{colour}" fill-opacity="0.8">'
                f"<title>{escape(words)}</title></circle>"
            )
    body = "\n".join(parts)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" font-family="sans-serif">\n'
        f'<rect width="{_WIDTH}" height="{_HEIGHT}" fill="#fff"/>\n{body}\n</svg>\n'
    )
