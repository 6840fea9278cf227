"""What a main loop says before it runs: instructions for each useful HMMA, and the static use of the tensor pipe.

The main loop is the innermost loop that has HMMAs and exponentials, a step over the keys; of several the one with the
most HMMAs, then the shortest (a masked copy of the same loop is longer). Counted is its shortest round with all HMMAs:
what stands in the loop but beside that path (masks of the last keys, a copy that is skipped in the last round) is not,
so that every kernel gets its best case; how long the loop is with all of it is told beside. A loop of HMMAs inside it,
one that the compiler did not unroll, is counted once, and the kernel is marked: its figures are then too dark.

Useful is an HMMA that multiplies data by data. One of whose factors is a constant held in registers (row sums as a
product with ones) fills the pipe and is an instruction like any other, but does no work of attention.

The walk: one warp alone, the round's instructions in order, one issue a clock, each waits until its pipe is free. It
knows no latencies and no dependences: an upper bound of what one warp of a sub-partition can reach, and a diagnostic,
not a speed. Clocks that a pipe is held, per sub-partition (gpu_pipes.py asks for them; in brackets an L4's):

    HMMA.16816.F32 (16), half of it for 1688    MUFU and conversions to and from integers (8)    ALU (2)
    FP32 and IMAD (1)                           LDSM 1, 2 or 4 by its matrices (x4: 4)
    All else (global and local memory, shuffles, barriers, branches, the uniform datapath) takes its issue slot only.

LDSM goes through a port that the four sub-partitions share: the second figure charges it fourfold (x4: 16), as if the
other three were as busy.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from gpu_pipes import Pipes
from sass import Function, Instruction, Loop, innermost, loops, register_number

SHARED_PORT_FACTOR = 4
_FP32 = {"FADD", "FMUL", "FFMA", "IMAD"}
_TRANSCENDENTAL = {"MUFU", "F2I", "I2F", "F2F", "FRND"}
_ISSUE_ONLY = {
    "LDG", "STG", "LDGSTS", "LDGDEPBAR", "DEPBAR", "LDL", "STL", "LDS", "STS", "LD", "ST", "LDC", "ATOM", "ATOMG",
    "ATOMS", "RED", "SHFL", "BAR", "BRA", "BRX", "BSSY", "BSYNC", "BREAK", "CALL", "RET", "EXIT", "NOP", "WARPSYNC",
    "YIELD", "MEMBAR", "CCTL", "ERRBAR", "NANOSLEEP", "S2R", "CS2R", "S2UR", "R2UR", "B2R", "R2B",
}  # fmt: skip
_NO_RESULT = {"STG", "STL", "STS", "ST", "RED", "LDGSTS", "BAR", "BRA"}
_STEADY_STATE_ROUNDS = 4


def pipe_clocks(instruction: Instruction, pipes: Pipes, ldsm_factor: int) -> tuple[str, float] | None:
    """The pipe that the instruction holds and for how long; None: its issue slot is all it takes."""
    base = instruction.base
    if base == "HMMA":
        return "tensor", pipes.hmma_16816_f32 / (2 if "1688" in instruction.modifiers else 1)
    if base in _TRANSCENDENTAL:
        return "transcendental", pipes.transcendental
    if base == "LDSM":
        matrices = int(instruction.modifiers[-1]) if instruction.modifiers[-1] in ("2", "4") else 1
        return "shared", matrices * ldsm_factor
    if base in _FP32:
        return "fp32", pipes.fp32
    if base in _ISSUE_ONLY or base.startswith("U"):
        return None
    return "alu", pipes.alu


def _result_width(instruction: Instruction) -> int:
    """Registers that the instruction writes."""
    modifiers = instruction.modifiers
    if instruction.base == "HMMA":
        return 4 if "F32" in modifiers else 2
    if instruction.base == "LDSM":
        return int(modifiers[-1]) if modifiers[-1] in ("2", "4") else 1
    if "128" in modifiers:
        return 4
    if "64" in modifiers or "WIDE" in modifiers or (instruction.base == "CS2R" and "32" not in modifiers):
        return 2
    return 1


def _written(instruction: Instruction) -> range:
    if instruction.base in _NO_RESULT:
        return range(0)
    for operand in instruction.operands:
        if re.fullmatch(r"U?P(T|\d)", operand):
            continue  # a predicate comes before the register: SHFL, VOTE
        first = register_number(operand)
        return range(0) if first is None else range(first, first + _result_width(instruction))
    return range(0)


def _is_constant(instruction: Instruction) -> bool:
    """Its result depends on no register and no memory: MOV R1, 0x3c003c00; HFMA2 R1, -RZ, RZ, 1, 1."""
    sources = instruction.operands[1:]
    plain = all(register_number(s) is None and "[" not in s and not s.startswith(("UR", "SR_")) for s in sources)
    return plain and instruction.guard in ("", "@PT") and instruction.base not in ("S2R", "SHFL", "LDSM")


def _definition(function: Function, around: list[int], register: int) -> Instruction | None:
    """The nearest instruction before around[-1] that writes the register: a round back, then above the loop."""
    above = range(min(around) - 1, -1, -1)
    written = (function.code[at] for at in [*reversed(around[:-1]), *above])
    return next((instruction for instruction in written if register in _written(instruction)), None)


def is_useful(function: Function, round_indices: list[int], position: int) -> bool:
    """Of the HMMA at this position of the round."""
    hmma = function.code[round_indices[position]]
    around = [*round_indices[position + 1 :], *round_indices[: position + 1]]
    for operand, width in ((hmma.operands[1], 4), (hmma.operands[2], 2)):
        first = register_number(operand)
        if first is None:
            return False  # RZ as a factor
        definitions = [_definition(function, around, first + offset) for offset in range(width)]
        if all(definition is not None and _is_constant(definition) for definition in definitions):
            return False
    return True


def round_clocks(code: list[Instruction], pipes: Pipes, ldsm_factor: int) -> float:
    """How long the walk takes for one round when many follow each other."""
    free_at: dict[str, float] = {}
    clock = begin = 0.0
    for _ in range(_STEADY_STATE_ROUNDS):
        begin = clock
        for instruction in code:
            if held := pipe_clocks(instruction, pipes, ldsm_factor):
                pipe, clocks = held
                clock = max(clock, free_at.get(pipe, 0.0))
                free_at[pipe] = clock + clocks
            clock += 1
    # Pipes that are still busy when a round ends hold the next one back: the last round is as long as any to come.
    return clock - begin


def busy_clocks(code: list[Instruction], pipes: Pipes) -> dict[str, float]:
    """Of each pipe in one round; LDSM.x4 4."""
    busy: dict[str, float] = {}
    for instruction in code:
        if held := pipe_clocks(instruction, pipes, 1):
            busy[held[0]] = busy.get(held[0], 0.0) + held[1]
    return busy


def tensor_clocks_share(code: list[Instruction], pipes: Pipes, counted_hmmas: int, ldsm_factor: int) -> float:
    """Share of a round's clocks in which counted HMMAs hold the tensor pipe."""
    hmmas = sum(instruction.base == "HMMA" for instruction in code)
    return busy_clocks(code, pipes)["tensor"] * counted_hmmas / hmmas / round_clocks(code, pipes, ldsm_factor)


def longest_stretch_without_hmma(code: list[Instruction]) -> int:
    """Instructions in a row, also across the end of a round: where the tensor pipe runs dry."""
    places = [at for at, instruction in enumerate(code) if instruction.base == "HMMA"]
    following = [*places[1:], places[0] + len(code)]
    return max(later - earlier - 1 for earlier, later in zip(places, following, strict=True))


@dataclass(frozen=True)
class MainLoop:
    instructions: int  # of the shortest round
    loop_instructions: int  # of the loop with all that stands beside that round
    inner_loops: int  # with HMMAs, in it: their further rounds are not counted
    hmmas: int
    useful_hmmas: int
    tensor_use: float  # useful HMMAs; LDSM.x4 4 clocks
    tensor_use_shared_port: float  # useful HMMAs; LDSM.x4 16 clocks
    loop_tensor_use_all_hmmas: float  # LDSM.x4 4 clocks, the whole loop, every HMMA
    clocks: float  # of the walk for one round; LDSM.x4 4 clocks
    busy_clocks: dict[str, float]  # of each pipe in it
    longest_stretch_without_hmma: int  # instructions
    local_memory_instructions: int  # spills that a round pays for
    opcodes: dict[str, int]

    @property
    def instructions_per_useful_hmma(self) -> float:
        return self.instructions / self.useful_hmmas


def _hmmas(code: list[Instruction]) -> int:
    return sum(instruction.base == "HMMA" for instruction in code)


def main_loop(function: Function, pipes: Pipes) -> MainLoop | None:
    """None for a kernel that has none, or no useful HMMA in it."""

    def code_of(loop: Loop) -> list[Instruction]:
        return [function.code[index] for index in loop.indices]

    with_hmmas = [loop for loop in loops(function) if _hmmas(code_of(loop)) > 0]
    with_both = [loop for loop in with_hmmas if any(one.base == "MUFU" for one in code_of(loop))]
    candidates = innermost(with_both)
    if not candidates:
        return None
    rounds = {loop: loop.shortest_round(function, "HMMA") for loop in candidates}
    loop = max(candidates, key=lambda one: (_hmmas([function.code[i] for i in rounds[one]]), -len(rounds[one])))
    indices = rounds[loop]
    code = [function.code[index] for index in indices]
    useful = sum(one.base == "HMMA" and is_useful(function, indices, at) for at, one in enumerate(code))
    if useful == 0:
        return None
    opcodes: dict[str, int] = {}
    for instruction in code:
        opcodes[instruction.base] = opcodes.get(instruction.base, 0) + 1
    whole = code_of(loop)
    return MainLoop(
        instructions=len(code),
        loop_instructions=len(whole),
        inner_loops=sum(set(other.indices) < set(loop.indices) for other in with_hmmas),
        hmmas=_hmmas(code),
        useful_hmmas=useful,
        tensor_use=tensor_clocks_share(code, pipes, useful, 1),
        tensor_use_shared_port=tensor_clocks_share(code, pipes, useful, SHARED_PORT_FACTOR),
        loop_tensor_use_all_hmmas=tensor_clocks_share(whole, pipes, _hmmas(whole), 1),
        clocks=round_clocks(code, pipes, 1),
        busy_clocks=busy_clocks(code, pipes),
        longest_stretch_without_hmma=longest_stretch_without_hmma(code),
        local_memory_instructions=opcodes.get("LDL", 0) + opcodes.get("STL", 0),
        opcodes=dict(sorted(opcodes.items(), key=lambda item: -item[1])),
    )
