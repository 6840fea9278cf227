"""The map as a picture: a panel for each GPU, head size and mask; hatched where nothing of the kind was validated."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING
from xml.sax.saxutils import escape

from map_cells import Cell, cells, words

if TYPE_CHECKING:
    from predict_map import Row

_CELL_WIDTH, _CELL_HEIGHT = 38, 24
_LEFT, _TOP, _GAP = 44, 30, 26
_HEADER = 56
_PANELS_A_ROW = 2
_FASTER, _EQUAL, _SLOWER = (27, 108, 168), (245, 245, 240), (192, 57, 43)
_MOST = 2.0  # times as fast or slow, from which on the colour is full


def _colour(speedup: float) -> str:
    share = max(-1.0, min(1.0, math.log(speedup) / math.log(_MOST)))
    end = _FASTER if share > 0 else _SLOWER
    mixed = (round(a + abs(share) * (b - a)) for a, b in zip(_EQUAL, end, strict=True))
    return "#" + "".join(f"{part:02x}" for part in mixed)


def _text(x: float, y: float, said: str, anchor: str = "middle", size: int = 10, fill: str = "#222") -> str:
    place = f'x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-size="{size}" fill="{fill}"'
    return f"<text {place}>{escape(said)}</text>"


def _cell(cell: Cell, x: float, y: float) -> list[str]:
    speedup = cell.speedup
    size = f'x="{x:.1f}" y="{y:.1f}" width="{_CELL_WIDTH - 1}" height="{_CELL_HEIGHT - 1}"'
    tip = f"S={cell.length}, B x H={cell.heads}: ours {cell.ours.microseconds:.2f} us"
    if cell.peer is not None:
        tip += f", {cell.peer.side} {cell.peer.microseconds:.2f} us, predicted"
    fill = "#cccccc" if speedup is None else _colour(speedup)
    parts = [f'<rect {size} fill="{fill}"><title>{escape(tip)}</title></rect>']
    if not cell.is_validated:
        parts.append(f'<rect {size} fill="url(#hatch)" pointer-events="none"/>')
    label = "-" if speedup is None else f"{speedup:.2f}"
    strong = speedup is not None and abs(math.log(speedup)) > 0.6 * math.log(_MOST)
    fill = "#fff" if strong and cell.is_validated else "#222"
    parts.append(_text(x + (_CELL_WIDTH - 1) / 2, y + 16, label, fill=fill))
    return parts


def picture(rows: Sequence[Row]) -> str:
    panels = cells(rows)
    lengths = sorted({row.length for row in rows})
    heads = sorted({row.heads for row in rows}, reverse=True)
    width = _LEFT + _CELL_WIDTH * len(lengths) + _GAP
    height = _TOP + _CELL_HEIGHT * len(heads) + _GAP
    rows_of_panels = -(-len(panels) // _PANELS_A_ROW)
    whole = (_PANELS_A_ROW * width + 10, _HEADER + rows_of_panels * height)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {whole[0]} {whole[1]}" font-family="sans-serif">',
        '<defs><pattern id="hatch" width="6" height="6" patternUnits="userSpaceOnUse" patternTransform="rotate(45)">'
        '<rect width="6" height="6" fill="#fff" fill-opacity="0.35"/>'
        '<line x1="0" y1="0" x2="0" y2="6" stroke="#555" stroke-opacity="0.35" stroke-width="2"/></pattern></defs>',
        '<rect width="100%" height="100%" fill="#fff"/>',
        _text(whole[0] / 2, 20, "Ours over the better of FlashInfer and FlashAttention-2, predicted", size=15),
        _text(
            whole[0] / 2, 38, "times as fast (above 1: ours is faster); hatched: not like anything that was validated"
        ),
    ]
    for number, (panel, found) in enumerate(panels.items()):
        left = (number % _PANELS_A_ROW) * width + 10
        top = _HEADER + number // _PANELS_A_ROW * height
        parts.append(_text(left + _LEFT + _CELL_WIDTH * len(lengths) / 2, top + 14, words(panel), size=13))
        for column, length in enumerate(lengths):
            at = left + _LEFT + _CELL_WIDTH * (column + 0.5)
            parts.append(_text(at, top + _TOP + _CELL_HEIGHT * len(heads) + 12, f"S={length}", size=9))
        for line, count in enumerate(heads):
            parts.append(_text(left + _LEFT - 4, top + _TOP + _CELL_HEIGHT * line + 16, f"BH={count}", "end", size=9))
        for cell in found:
            x = left + _LEFT + _CELL_WIDTH * lengths.index(cell.length)
            parts += _cell(cell, x, top + _TOP + _CELL_HEIGHT * heads.index(cell.heads))
    return "\n".join([*parts, "</svg>"]) + "\n"
