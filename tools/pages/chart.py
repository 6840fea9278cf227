"""Bars from a table of a Markdown page: the page has the figures, the picture shows the same ones."""

from __future__ import annotations

import re
from dataclasses import dataclass
from xml.sax.saxutils import escape

LABEL_WIDTH, PLOT_WIDTH, VALUE_WIDTH, MARGIN = 330, 420, 70, 16
ROW_HEIGHT, BAR_HEIGHT, TOP = 30, 10, 62
INK, FAINT, GRID = "#24292f", "#57606a", "#d0d7de"
BARS = ("#2f6fb7", "#8fb4de")
FIGURE = re.compile(r"^(\d+\.\d+)(?: \[(\d+\.\d+), (\d+\.\d+)\])?$")


@dataclass(frozen=True)
class Figure:
    value: float
    low: float
    high: float


@dataclass(frozen=True)
class Row:
    label: str
    figures: list[Figure | None]


@dataclass(frozen=True)
class Table:
    columns: list[str]
    rows: list[Row]


def figure(text: str) -> Figure | None:
    if not text:
        return None
    match = FIGURE.match(text)
    if not match:
        raise ValueError(f"'{text}' is no figure such as 2.66 or 2.66 [2.62, 2.75]")
    value = float(match[1])
    return Figure(value, float(match[2] or value), float(match[3] or value))


def table_below(page: str, heading: str) -> Table:
    """The first table of a section: what is named in its first column, figures in the others."""
    section = page.partition(f"\n{heading}\n")[2]
    lines = re.search(r"(?:^\|.*\n)+", section, re.MULTILINE)
    if not lines:
        raise ValueError(f"there is no table below '{heading}'")
    parts = [[part.strip() for part in line.strip().strip("|").split("|")] for line in lines[0].splitlines()]
    head, _, *body = parts
    return Table(head[1:], [Row(label, [figure(text) for text in cells]) for label, *cells in body])


def bar(at: Figure, x: float, y: float, scale: float, colour: str) -> str:
    width, middle = at.value * scale, y + BAR_HEIGHT / 2
    drawn = f'<rect x="{x}" y="{y}" width="{width:.1f}" height="{BAR_HEIGHT}" fill="{colour}"/>'
    if at.low < at.high:
        drawn += (
            f'<path d="M{x + at.low * scale:.1f} {middle} H{x + at.high * scale:.1f}" stroke="{INK}" stroke-width="3"/>'
        )
    end = x + max(at.value, at.high) * scale
    return drawn + f'<text x="{end + 5:.1f}" y="{y + 9}" font-size="11" fill="{FAINT}">{at.value:.2f}</text>'


def svg(table: Table, title: str, subtitle: str, unit: str) -> str:
    largest = max(at.high for row in table.rows for at in row.figures if at)
    scale = PLOT_WIDTH / largest
    begin, bottom = MARGIN + LABEL_WIDTH, TOP + len(table.rows) * ROW_HEIGHT
    width, height = begin + PLOT_WIDTH + VALUE_WIDTH, bottom + 44
    parts = [
        f'<text x="{MARGIN}" y="26" font-size="15" font-weight="bold" fill="{INK}">{escape(title)}</text>',
        f'<text x="{MARGIN}" y="46" font-size="12" fill="{FAINT}">{escape(subtitle)}</text>',
    ]
    for tick in range(int(largest) + 1):
        x = begin + tick * scale
        stroke = f'stroke="{INK}" stroke-dasharray="4 3"' if tick == 1 else f'stroke="{GRID}"'
        parts.append(f'<path d="M{x:.1f} {TOP - 4} V{bottom + 2}" {stroke}/>')
        name = f"{tick}: {unit}" if tick == 1 else f"{tick}"
        parts.append(
            f'<text x="{x:.1f}" y="{bottom + 16}" font-size="11" text-anchor="middle" fill="{FAINT}">{name}</text>'
        )
    for at, row in enumerate(table.rows):
        y = TOP + at * ROW_HEIGHT
        place = f'x="{begin - 10}" y="{y + 15}" text-anchor="end"'
        parts.append(f'<text {place} font-size="12" fill="{INK}">{escape(row.label)}</text>')
        known = [(run, colour) for run, colour in zip(row.figures, BARS, strict=True) if run]
        first = y + (ROW_HEIGHT - len(known) * (BAR_HEIGHT + 1)) / 2 - 3
        parts += [bar(run, begin, first + i * (BAR_HEIGHT + 1), scale, colour) for i, (run, colour) in enumerate(known)]
    for at, (column, colour) in enumerate(zip(table.columns, BARS, strict=True)):
        x = begin + at * 70
        parts.append(f'<rect x="{x}" y="{bottom + 26}" width="10" height="10" fill="{colour}"/>')
        parts.append(f'<text x="{x + 15}" y="{bottom + 35}" font-size="11" fill="{FAINT}">{escape(column)}</text>')
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}"'
            ' font-family="system-ui, -apple-system, \'Segoe UI\', \'DejaVu Sans\', sans-serif">',
            f"<title>{escape(title)}</title>",
            f'<rect x="0.5" y="0.5" width="{width - 1}" height="{height - 1}" rx="8" fill="#fff" stroke="{GRID}"/>',
            *parts,
            "</svg>\n",
        ]
    )
