"""SASS as nvdisasm prints it: functions, instructions, and the loops of their control flow.

Nothing here knows attention; tensor_use.py does.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

_SECTION = re.compile(r"^\s*\.section\s+\.text\.([^,\s]+),")
_LABEL = re.compile(r"^(\.L_\w+):")
_INSTRUCTION = re.compile(r"^\s*/\*[0-9a-f]{4,}\*/\s+(?:(@!?U?P\w+)\s+)?([A-Z][\w.]*)\s*([^;]*);")
_TARGET = re.compile(r"`\((\.L_\w+)\)")
_REGISTER = re.compile(r"^[-~|!]*R(\d+)(?:\.\w+)*\|?$")


@dataclass(frozen=True)
class Instruction:
    guard: str  # "@P0", "" without one
    opcode: str  # "HMMA.16816.F32"
    operands: tuple[str, ...]

    @property
    def base(self) -> str:
        return self.opcode.split(".")[0]

    @property
    def modifiers(self) -> list[str]:
        return self.opcode.split(".")[1:]

    @property
    def target(self) -> str | None:
        found = [match for operand in self.operands if (match := _TARGET.search(operand))]
        return found[-1].group(1) if found else None


@dataclass
class Function:
    name: str
    code: list[Instruction] = field(default_factory=list)
    labels: dict[str, int] = field(default_factory=dict)  # to the index of the instruction that follows


def register_number(operand: str) -> int | None:
    """Of "R12" and "-R12.reuse"; None for RZ, predicates, immediates, memory."""
    match = _REGISTER.match(operand)
    return int(match.group(1)) if match else None


def parse(text: str) -> list[Function]:
    functions: list[Function] = []
    for line in text.splitlines():
        if section := _SECTION.match(line):
            functions.append(Function(section.group(1)))
        elif not functions:
            continue
        elif label := _LABEL.match(line):
            functions[-1].labels[label.group(1)] = len(functions[-1].code)
        elif match := _INSTRUCTION.match(line):
            operands = tuple(part.strip() for part in match.group(3).split(",") if part.strip())
            functions[-1].code.append(Instruction(match.group(1) or "", match.group(2), operands))
    return functions


def disassemble(nvdisasm: str, cubin: Path) -> list[Function]:
    done = subprocess.run([nvdisasm, "-c", str(cubin)], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"{nvdisasm} on {cubin} ended with {done.returncode}: {done.stderr.strip()[-500:]}")
    functions = parse(done.stdout)
    if not any(function.code for function in functions):
        raise RuntimeError(f"{cubin} has no code that {nvdisasm} prints")
    return functions


def _is_always_taken(instruction: Instruction) -> bool:
    # BRA may also test a predicate that it names as an operand: "BRA P0, `(.L)".
    return instruction.guard in ("", "@PT") and (instruction.base != "BRA" or len(instruction.operands) == 1)


def _successors(function: Function) -> list[list[int]]:
    """Of every instruction. BRA.DIV is not followed: it leaves for a path that only a diverged warp takes."""
    reconvergence: dict[str, int] = {}  # barrier register to where BSYNC on it goes on
    out: list[list[int]] = []
    for index, instruction in enumerate(function.code):
        following = [index + 1] if index + 1 < len(function.code) else []
        target = function.labels.get(instruction.target or "")
        if instruction.base == "BSSY" and target is not None:
            reconvergence[instruction.operands[0]] = target
        if instruction.base == "BRA" and "DIV" not in instruction.modifiers and target is not None:
            out.append([target] if _is_always_taken(instruction) else [*following, target])
        elif instruction.base == "CALL" and target is not None:
            out.append([*following, target])  # to a label of the same function: how ptxas leaves some loops
        elif instruction.base == "BSYNC" and instruction.operands[0] in reconvergence:
            out.append([reconvergence[instruction.operands[0]]])
        elif instruction.base in ("EXIT", "RET", "BRX", "JMX", "KILL") and instruction.guard in ("", "@PT"):
            out.append([])
        else:
            out.append(following)
    return out


class _Blocks:
    """Basic blocks, their edges, and who dominates whom."""

    def __init__(self, function: Function) -> None:
        successors = _successors(function)
        count = len(function.code)
        leaders = {0}
        for index, followers in enumerate(successors):
            if followers != [index + 1]:
                leaders.update(followers)
                leaders.add(index + 1)
        self.starts = sorted(leader for leader in leaders if leader < count)
        ends = [*self.starts[1:], count]
        block_at = {start: number for number, start in enumerate(self.starts)}
        self.ranges = [range(start, end) for start, end in zip(self.starts, ends, strict=True)]
        self.followers = [[block_at[at] for at in successors[r[-1]]] for r in self.ranges]
        self.leaders_into: list[list[int]] = [[] for _ in self.ranges]
        for block, followers in enumerate(self.followers):
            for follower in followers:
                self.leaders_into[follower].append(block)
        self.dominators = self._dominators()

    def _dominators(self) -> dict[int, set[int]]:
        """For each block that the entry reaches. Iterates sets: functions here have a few hundred blocks."""
        reached, waiting = [], [0]
        seen = {0}
        while waiting:
            block = waiting.pop()
            reached.append(block)
            for follower in self.followers[block]:
                if follower not in seen:
                    seen.add(follower)
                    waiting.append(follower)
        reached.sort()
        dominators = {block: set(reached) for block in reached}
        dominators[0] = {0}
        changed = True
        while changed:
            changed = False
            for block in reached[1:]:
                into = [dominators[leader] for leader in self.leaders_into[block] if leader in dominators]
                new = set.intersection(*into) | {block}
                if new != dominators[block]:
                    dominators[block], changed = new, True
        return dominators


@dataclass(frozen=True)
class Loop:
    """A natural loop: everything from which a backward branch is reached without passing its first block again."""

    blocks: tuple[range, ...]  # of indices into Function.code; the first is where every round begins
    edges: tuple[tuple[int, int], ...]  # between the starts of blocks, without those of backward branches
    latches: frozenset[int]  # starts of the blocks that end with a backward branch to the first one

    @property
    def indices(self) -> list[int]:
        return [index for block in self.blocks for index in block]

    def shortest_round(self, function: Function, opcode: str) -> list[int]:
        """Indices, as executed, of the round with the most of the opcode and, of those, the fewest instructions.

        What a compiler puts beside the path (masks of the last keys, a copy that the last round has no need for) is
        left out.
        """
        best: dict[int, tuple[int, int, list[int]]] = {}
        for block in self.blocks:
            wanted = sum(function.code[index].base == opcode for index in block)
            into = [best[source] for source, target in self.edges if target == block.start and source in best]
            if not into and best:
                continue
            before = max(into, key=lambda way: way[:2]) if into else (0, 0, [])
            best[block.start] = (before[0] + wanted, before[1] - len(block), [*before[2], *block])
        ends = [best[block.start] for block in self.blocks if block.start in best and block.start in self.latches]
        return max(ends, key=lambda way: way[:2])[2]


def _body(blocks: _Blocks, header: int, latches: Iterable[int]) -> set[int]:
    body, waiting = {header}, list(latches)
    while waiting:
        block = waiting.pop()
        if block not in body:
            body.add(block)
            waiting += [leader for leader in blocks.leaders_into[block] if leader in blocks.dominators]
    return body


def _in_order_of_execution(blocks: _Blocks, header: int, body: set[int]) -> list[int]:
    """Reverse postorder: a block comes after all that lead to it, but for inner backward branches."""
    order: list[int] = []
    seen = {header}
    stack = [(header, iter(blocks.followers[header]))]
    while stack:
        block, followers = stack[-1]
        follower = next((f for f in followers if f in body and f not in seen), None)
        if follower is None:
            order.append(block)
            stack.pop()
        else:
            seen.add(follower)
            stack.append((follower, iter(blocks.followers[follower])))
    return order[::-1]


def loops(function: Function) -> list[Loop]:
    if not function.code:
        return []
    blocks = _Blocks(function)
    latches: dict[int, list[int]] = {}
    for block, dominators in blocks.dominators.items():
        for follower in blocks.followers[block]:
            if follower in dominators:
                latches.setdefault(follower, []).append(block)
    found = []
    for header, ends in sorted(latches.items()):
        order = _in_order_of_execution(blocks, header, _body(blocks, header, ends))
        place = {block: at for at, block in enumerate(order)}
        forward = [(b, f) for b in order for f in blocks.followers[b] if f in place and place[b] < place[f]]
        found.append(
            Loop(
                blocks=tuple(blocks.ranges[block] for block in order),
                edges=tuple((blocks.starts[b], blocks.starts[f]) for b, f in forward),
                latches=frozenset(blocks.starts[end] for end in ends),
            )
        )
    return found


def innermost(all_loops: list[Loop]) -> list[Loop]:
    """Those that hold no other loop of the list."""
    sets = [set(loop.indices) for loop in all_loops]
    return [loop for loop, mine in zip(all_loops, sets, strict=True) if not any(other < mine for other in sets)]
