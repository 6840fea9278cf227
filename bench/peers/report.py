"""The comparison of loops as Markdown: the explanation below the whole calls (whole_calls.py)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from comparison import FLASH_ATTENTION, OURS, SIDES, Comparison, Goal, Instance, Row

INTRODUCTION = """\
## Why: the interior loops

What a block of keys in the middle of a long sequence costs; a call's beginning, edges and end are not in it, and short
calls have nothing else. The same problems, device and analysis for all: fp16, `virtual:l4`, cubins for sm_89 by one
compiler. Labels: *static* is read from the cubin, *virtual* is counted while the virtual GPU executes the kernel,
*measured here* is of the machine that wrote this page.

![Executed instructions for 1000 useful operations](kernel-comparison.svg)
"""

RULES = """\
### How it is counted

- **Main loop**: the innermost loop of the SASS with HMMAs and exponentials; of several the one with the most HMMAs,
  then the shortest. Counted is its shortest round with all HMMAs, so that each kernel gets its best case: FlashInfer's
  masks of the last keys and FlashAttention-2's copy of the next keys, which the last round skips, stand beside that
  path. "whole loop" has them.
- **Useful HMMA**: both factors are data. FlashInfer also sums rows by a product with ones; such an HMMA takes an issue
  slot and its pipe, and counts as work executed, not as useful.
- **Static tensor use**: one warp walks the round in order, one issue a clock; HMMA.16816.F32 holds its pipe 16 clocks,
  MUFU 8, ALU 2, FP32 1, LDSM.x4 4. LDSM's port is one for the whole SM: the second figure charges 16. Latencies are not
  in it, nor is power: a diagnostic, not a speed.
- **Executed instructions**: instructions of a round for each HMMA, times the HMMAs that the virtual GPU executed, over
  useful operations: 4 D for each visible pair of a query and a key. Tiles that stick out and masked tiles thus cost.
  "PTX" is the exact count of PTX instructions of all kernels, prologue and epilogue included, a check on the former.
- **Sectors**: 32 bytes each; a request of a full warp with 16 bytes a lane has 16. "whole" is the share of the bytes in
  touched sectors that was asked for.
- **DRAM**: modelled bytes, write-back included, over Q, K, V read and O written once.
- **Compile**: device code of one kernel from source to cubin, processor seconds and the largest process.
"""


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "".join("| " + " | ".join(line) + " |\n" for line in lines)


def verdict(goal: Goal) -> str:
    return {True: "reached", False: "missed", None: "nothing to judge by"}[goal.reached]


def _number(value: float | None, digits: int = 2) -> str:
    return "-" if value is None else f"{value:.{digits}f}"


def goals_table(comparison: Comparison) -> str:
    return table(("goal", "figure", ""), [(g.name, g.figure, verdict(g)) for g in comparison.goals()])


def _instance_cells(comparison: Comparison, one: Instance) -> list[str]:
    executed = comparison.any_row_of(one).executed
    cells = [one.side, f"`{one.name}`"]
    if loop := one.loop:
        mark = " (inner loop counted once)" if loop.inner_loops else ""
        cells += [
            f"{loop.instructions_per_useful_hmma:.2f}",
            f"{loop.loop_instructions / loop.useful_hmmas:.2f}{mark}",
            f"{loop.useful_hmmas} of {loop.hmmas}",
            f"{loop.tensor_use:.1%}",
            f"{loop.tensor_use_shared_port:.1%}",
        ]
    else:
        cells += ["no HMMA", "-", "-", "-", "-"]
    cells += [
        str(executed.registers),
        f"{executed.spill_store_bytes} / {executed.spill_load_bytes}",
        f"{executed.shared_bytes / 1024:.0f}",
        str(executed.ctas_per_sm),
    ]
    if cost := one.cost:
        return [*cells, f"{cost.processor_seconds:.1f}", f"{cost.peak_bytes / 1e9:.2f}"]
    return [*cells, "-", "-"]


def instances_table(comparison: Comparison) -> str:
    head = (
        "", "kernel", "instructions per useful HMMA", "whole loop", "useful HMMAs", "tensor use", "LDSM charged 16",
        "registers", "spill bytes stored / loaded", "shared KB", "CTAs/SM", "compile s", "GB",
    )  # fmt: skip
    return table(head, [_instance_cells(comparison, one) for one in comparison.instances])


def _row_cells(comparison: Comparison, row: Row) -> list[str]:
    executed = row.executed
    theirs = comparison.of_problem(row.problem).get(FLASH_ATTENTION)
    mine, reference = row.instructions_per_kiloflop, theirs.instructions_per_kiloflop if theirs else None
    return [
        row.problem.name,
        row.instance.side,
        str(executed.ctas),
        f"{row.executed_work:.2f}" if executed.hmmas else "-",
        _number(mine),
        _number(row.loop_instructions_per_kiloflop),
        _number(mine / reference if mine and reference else None),
        _number(row.ptx_instructions_per_kiloflop),
        str(executed.bank_conflicts),
        f"{executed.sectors_per_request:.1f}",
        f"{executed.coalescing_percent:.1f} %",
        f"{executed.dram_bytes / row.problem.compulsory_bytes:.2f}",
        {True: "yes", False: "NO", None: "not judged"}[executed.right],
    ]


def rows_table(comparison: Comparison) -> str:
    head = (
        "problem", "", "CTAs", "HMMA work / useful", "instructions per 1000 useful FLOP", "whole loop",
        "over FlashAttention-2", "PTX, all kernels", "bank conflicts", "sectors per request", "whole",
        "DRAM / compulsory", "right",
    )  # fmt: skip
    ordered = [comparison.of_problem(problem) for problem in comparison.problems]
    rows = [_row_cells(comparison, sides[side]) for sides in ordered for side in SIDES if side in sides]
    return table(head, rows)


def rounds_table(comparison: Comparison) -> str:
    """Where the clocks of the walk go."""
    pipes = ("tensor", "transcendental", "alu", "shared")
    rows = []
    for one in comparison.instances:
        if loop := one.loop:
            busy = [f"{loop.busy_clocks.get(pipe, 0) / loop.clocks:.0%}" for pipe in pipes]
            cells = [f"`{one.name}`", f"{loop.clocks:g}", f"{loop.instructions / loop.clocks:.0%}", *busy]
            rows.append([*cells, str(loop.longest_stretch_without_hmma), str(loop.local_memory_instructions)])
    head = ("kernel", "clocks of a round", "issue", "tensor", "MUFU", "ALU", "LDSM", "longest stretch without HMMA")
    return table((*head, "spill instructions"), rows)


def opcodes_table(comparison: Comparison) -> str:
    """What the rounds are made of: where to look for what limits them."""
    loops = {one.name: one.loop for one in comparison.instances if one.loop is not None}
    totals = Counter[str]()
    for loop in loops.values():
        totals.update(loop.opcodes)
    shown = [name for name, _ in totals.most_common(14)]
    rows = []
    for name, loop in loops.items():
        rest = sum(count for opcode, count in loop.opcodes.items() if opcode not in shown)
        rows.append([f"`{name}`", *[str(loop.opcodes.get(opcode, 0)) for opcode in shown], str(rest)])
    return table(("kernel", *shown, "others"), rows)


def explanation(comparison: Comparison) -> str:
    parts = [INTRODUCTION, "### Goals of the loops\n", goals_table(comparison)]
    if not any(one.side == OURS for one in comparison.instances):
        parts.append("Our own kernels are not in this table.\n")
    parts += [
        "### Main loops, registers, compilation\nStatic; compile columns measured here.\n",
        instances_table(comparison),
        "### Problems\nVirtual. 12 heads up to S=128, then 16; decode has 32 query heads on 8.\n",
        rows_table(comparison),
        "### What holds a round back\nStatic: the walk's clocks, and the share of them in which each pipe is held.\n",
        rounds_table(comparison),
        "### What a round is made of\nStatic: SASS instructions of the shortest round, by opcode.\n",
        opcodes_table(comparison),
        RULES,
    ]
    return "\n".join(parts)
