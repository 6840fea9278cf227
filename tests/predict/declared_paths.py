"""The paths that kernels take whose PTX nobody has: declared in paths/*.toml, and held against their SASS here.

A path is written in pieces: "0-438 462-1626" are instructions by their number in the SASS, both ends included;
"(n-2) x" before some says how often for n blocks of keys; a word names a piece of the table [pieces].
"""

from __future__ import annotations

import itertools
import re
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

PATHS = Path(__file__).parent / "paths"
_REPEATED = re.compile(r"(?:\(n-(\d+)\)|(\d+)) x (.*)")
_RANGE = re.compile(r"(\d+)-(\d+)")

Ranges = list[tuple[int, int]]
Groups = list[tuple[int, Ranges]]  # how often, and what


class PathError(Exception):
    pass


@dataclass(frozen=True)
class Piece:
    fixed: int  # how often: fixed, or n less this
    grows: bool
    ranges: Ranges

    def times(self, key_blocks: int) -> int:
        return key_blocks - self.fixed if self.grows else self.fixed


@dataclass(frozen=True)
class DeclaredKernel:
    name: str
    symbol: str  # a pattern that the mangled name fits
    rows: int  # of Q a CTA works on
    keys: int  # of a block
    head_dim: int
    causal: bool
    warps: int
    resident: int  # CTAs an SM holds
    resident_sm_80: int  # whose shared memory is larger
    instructions: int
    paths: list[tuple[int, int, list[Piece]]]  # from so many blocks of keys to so many

    def fits(self, symbol: str) -> bool:
        return fnmatchcase(symbol, f"*{self.symbol}*")

    def resident_on(self, architecture: str) -> int:
        return self.resident_sm_80 if architecture == "sm_80" else self.resident

    def groups(self, key_blocks: int) -> Groups:
        """What a warp executes that works on this many blocks of keys."""
        for least, most, pieces in self.paths:
            if least <= key_blocks <= most:
                return [(times, piece.ranges) for piece in pieces if (times := piece.times(key_blocks)) > 0]
        raise PathError(f"{self.name}: no path for {key_blocks} blocks of keys")

    def key_blocks(self, seqlen: int) -> list[int]:
        """Of the CTAs of one head, in the order of the grid."""
        rows = -(-seqlen // self.rows)
        whole = -(-seqlen // self.keys)
        if not self.causal:
            return [whole] * rows
        return [min(whole, -(-(row + 1) * self.rows // self.keys)) for row in range(rows)]


def _ranges(text: str, pieces: dict[str, str], where: str) -> Ranges:
    found: Ranges = []
    for word in text.split():
        if match := _RANGE.fullmatch(word):
            found.append((int(match.group(1)), int(match.group(2))))
        elif word in pieces:
            found += _ranges(pieces[word], {}, where)
        else:
            raise PathError(f"{where}: {word!r} is neither a range nor a piece")
    return found


def _piece(text: str, pieces: dict[str, str], where: str) -> Piece:
    match = _REPEATED.fullmatch(text)
    if match is None:
        return Piece(1, False, _ranges(text, pieces, where))
    grows = match.group(1) is not None
    return Piece(int(match.group(1) if grows else match.group(2)), grows, _ranges(match.group(3), pieces, where))


def read(file: Path) -> DeclaredKernel:
    text = tomllib.loads(file.read_text())
    pieces = text.get("pieces", {})
    paths = [(*path["key_blocks"], [_piece(run, pieces, file.name) for run in path["run"]]) for path in text["path"]]
    rows, keys = text["tile"]
    return DeclaredKernel(
        file.stem, text["symbol"], rows, keys, text["head_dim"], text["causal"], text["warps"], text["resident"],
        text.get("resident_sm_80", text["resident"]), text["instructions"], paths,
    )  # fmt: skip


def read_all(folder: Path = PATHS) -> dict[str, DeclaredKernel]:
    return {file.stem: read(file) for file in sorted(folder.glob("*.toml"))}


def flat(groups: Groups) -> Ranges:
    return [one for times, ranges in groups for _ in range(times) for one in ranges]


@dataclass(frozen=True)
class Step:
    """What the walk has to know of an instruction."""

    full_opcode: str  # "HMMA.16816.F32"
    always: bool  # without a guard
    target: int | None  # of a branch

    @property
    def opcode(self) -> str:
        return self.full_opcode.partition(".")[0]


def _follows(code: Sequence[Step], last: int, first: int) -> bool:
    step = code[last]
    if first == last + 1 and not (step.always and step.opcode in ("BRA", "EXIT", "RET")):
        return True
    return step.opcode in ("BRA", "CALL") and step.target == first


def faults(kernel: DeclaredKernel, code: Sequence[Step], key_blocks: int) -> list[str]:
    """Where the declared path is none that the SASS has. `code`: all instructions of the kernel."""
    if len(code) != kernel.instructions:
        return [f"{kernel.name}: {len(code)} instructions, declared are {kernel.instructions}"]
    found = []
    ranges = flat(kernel.groups(key_blocks))
    for first, last in ranges:
        if not 0 <= first <= last < len(code):
            return [f"{kernel.name}: no range {first}-{last}"]
        inside = [at for at in range(first, last) if not _follows(code, at, at + 1)]
        found += [f"{kernel.name}: {first}-{last} leaves at {at} ({code[at].opcode})" for at in inside]
    for (_, last), (first, _) in itertools.pairwise(ranges):
        if not _follows(code, last, first):
            found.append(f"{kernel.name}: {first} does not follow {last} ({code[last].opcode})")
    if ranges[0][0] != 0:
        found.append(f"{kernel.name}: does not begin at 0")
    if code[ranges[-1][1]].opcode != "EXIT":
        found.append(f"{kernel.name}: ends at {ranges[-1][1]}, which is no EXIT")
    return found


def tensor_flops(kernel: DeclaredKernel, opcodes: Sequence[str], key_blocks: int) -> tuple[int, int]:
    """Multiply-adds of the tensor pipe on the path of a CTA, and those of QK^T and PV."""
    per = {"16816": 16 * 8 * 16, "1688": 16 * 8 * 8}
    done = 0
    for times, ranges in kernel.groups(key_blocks):
        for first, last in ranges:
            for opcode in opcodes[first : last + 1]:
                if opcode.startswith("HMMA."):
                    done += times * per[opcode.split(".")[1]]
    return done * kernel.warps, 2 * kernel.rows * kernel.keys * kernel.head_dim * key_blocks
