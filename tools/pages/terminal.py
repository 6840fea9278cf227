"""A terminal's screen: what a program wrote to it, and the screen as an SVG file."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import struct
import subprocess
import termios
from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path
from xml.sax.saxutils import escape

COLUMNS = 108
ROWS = 60
CELL_WIDTH, LINE_HEIGHT, MARGIN, BAR_HEIGHT = 7.8, 19, 16, 30
BACKGROUND, BAR, TEXT, DIM, PROMPT = "#16181d", "#23262e", "#d6dae2", "#8b93a3", "#7fd1a0"
COLOURS = {31: "#f07178", 32: "#7fd1a0", 33: "#e6c06a", 34: "#7aa7f0", 35: "#c792ea", 36: "#78c8d8", 90: DIM}
ESCAPE = re.compile(r"\x1b\[([0-9;?]*)([A-Za-z])")


@dataclass(frozen=True)
class Style:
    colour: str = TEXT
    is_bold: bool = False


Cell = tuple[str, Style]
Line = list[Cell]


def cells(text: str, style: Style) -> Line:
    return [(character, style) for character in text]


def text_of(line: Line) -> str:
    return "".join(character for character, _ in line)


def restyled(style: Style, numbers: str) -> Style:
    for number in (int(part or 0) for part in numbers.split(";")):
        if number == 0:
            style = Style()
        elif number == 1:
            style = replace(style, is_bold=True)
        elif number in COLOURS:
            style = replace(style, colour=COLOURS[number])
    return style


def screen_of(written: str) -> list[Line]:
    """The lines that stand there in the end; of escape sequences those that our programs use."""
    lines: list[Line] = [[]]
    column, style, at = 0, Style(), 0
    while at < len(written):
        if match := ESCAPE.match(written, at):
            at = match.end()
            if match[2] == "m":
                style = restyled(style, match[1])
            elif match[2] == "K":
                del lines[-1][column:]
            else:
                raise ValueError(f"an escape sequence that nobody draws: {match[0]!r}")
            continue
        character = written[at]
        at += 1
        if character == "\r":
            column = 0
        elif character == "\n":
            lines.append([])
            column = 0
        else:
            lines[-1][column : column + 1] = [(character, style)]
            column += 1
    return lines if lines[-1] else lines[:-1]


def run_on_terminal(command: str, directory: Path, environment: Mapping[str, str]) -> tuple[str, int]:
    """What a shell's command wrote to its terminal, and its exit code."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
    shell = ["bash", "-c", command]
    with subprocess.Popen(
        shell, cwd=directory, env=dict(environment), stdin=subprocess.DEVNULL, stdout=theirs, stderr=theirs
    ) as process:
        os.close(theirs)
        written = b""
        while True:
            try:
                some = os.read(ours, 65536)
            except OSError:  # nobody holds the other end any more
                break
            if not some:
                break
            written += some
        os.close(ours)
        return written.decode(), process.wait()


def wrapped(line: Line) -> list[Line]:
    """Lines that fit: broken at a space, what follows below where the text began."""
    text = text_of(line)
    indent = min(len(text) - len(text.lstrip()) + 4, COLUMNS // 2)
    pieces: list[Line] = []
    while len(line) > COLUMNS:
        room = text_of(line[: COLUMNS + 1])
        cut = room.rfind(" ", indent + 1)
        cut = cut if cut > 0 else COLUMNS
        pieces.append(line[:cut])
        line = cells(" " * indent, Style()) + line[cut + (line[cut][0] == " ") :]
    return [*pieces, line]


def prompt(command: str) -> Line:
    return cells("$ ", Style(PROMPT, True)) + cells(command, Style("#ffffff", True))


def remark(text: str) -> Line:
    return cells(text, Style(DIM))


def drawn(line: Line, y: float) -> str:
    """A run of one style is one element; its length is fixed, so that columns are columns in every font."""
    parts, column = [], 0
    for style, run in groupby(line, key=lambda cell: cell[1]):
        text = "".join(character for character, _ in run)
        begin, column = column, column + len(text)
        bare = text.strip()
        if not bare:
            continue
        x = MARGIN + (begin + text.index(bare[0])) * CELL_WIDTH
        weight = ' font-weight="bold"' if style.is_bold else ""
        parts.append(
            f'<text x="{x:.1f}" y="{y}" textLength="{len(bare) * CELL_WIDTH:.1f}" lengthAdjust="spacingAndGlyphs"'
            f' fill="{style.colour}"{weight}>{escape(bare)}</text>'
        )
    return "\n".join(parts)


def svg(lines: list[Line], title: str) -> str:
    fitted = [piece for line in lines for piece in wrapped(line)]
    width = round(2 * MARGIN + COLUMNS * CELL_WIDTH)
    height = BAR_HEIGHT + 2 * MARGIN + len(fitted) * LINE_HEIGHT - 4
    buttons = "".join(
        f'<circle cx="{MARGIN + 4 + 18 * at}" cy="{BAR_HEIGHT / 2:.0f}" r="5" fill="{colour}"/>'
        for at, colour in enumerate(("#e0655f", "#dfb04c", "#63b66b"))
    )
    body = [drawn(line, BAR_HEIGHT + MARGIN + 12 + at * LINE_HEIGHT) for at, line in enumerate(fitted)]
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}"'
            f' font-family="ui-monospace, SFMono-Regular, Menlo, Consolas, \'DejaVu Sans Mono\', monospace"'
            f' font-size="13" xml:space="preserve">',
            f"<title>{escape(title)}</title>",
            f'<rect width="{width}" height="{height}" rx="8" fill="{BACKGROUND}"/>',
            f'<path d="M0 {BAR_HEIGHT} V8 a8 8 0 0 1 8 -8 H{width - 8} a8 8 0 0 1 8 8 V{BAR_HEIGHT} Z" fill="{BAR}"/>',
            buttons,
            *(text for text in body if text),
            "</svg>\n",
        ]
    )
