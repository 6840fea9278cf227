"""The comparison as data: one row for each problem and kernel, one for each instance, and the goals."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from typing import Any

from compile_cost import CompileCost
from executed import Executed
from problems import Problem
from tensor_use import MainLoop

OURS, FLASHINFER, FLASH_ATTENTION = "ours", "FlashInfer", "FlashAttention-2"
SIDES = (OURS, FLASHINFER, FLASH_ATTENTION)


@dataclass(frozen=True)
class Instance:
    """One compiled kernel."""

    side: str
    name: str
    head_dim: int
    loop: MainLoop | None  # None: it has no HMMA
    cost: CompileCost | None  # None: not measured


@dataclass(frozen=True)
class Row:
    """One kernel on one problem."""

    problem: Problem
    instance: Instance
    executed: Executed

    @property
    def instructions_per_kiloflop(self) -> float | None:
        """SASS instructions of the main loop's shortest round for each HMMA, times executed HMMAs, over useful work."""
        loop = self.instance.loop
        return None if loop is None else self._per_kiloflop(loop.instructions / loop.hmmas)

    @property
    def loop_instructions_per_kiloflop(self) -> float | None:
        """The same by the whole loop: as if all that stands beside that round were executed in every one."""
        loop = self.instance.loop
        return None if loop is None else self._per_kiloflop(loop.loop_instructions / loop.hmmas)

    def _per_kiloflop(self, instructions_per_hmma: float) -> float:
        return 1000 * instructions_per_hmma * self.executed.hmmas / self.problem.useful_flops

    @property
    def ptx_instructions_per_kiloflop(self) -> float:
        return 1000 * self.executed.ptx_instructions / self.problem.useful_flops

    @property
    def executed_work(self) -> float:
        """Of all HMMAs (4096 operations each), over useful work: padding, masked tiles, row sums."""
        return 4096 * self.executed.hmmas / self.problem.useful_flops


@dataclass(frozen=True)
class Goal:
    name: str
    figure: str
    reached: bool | None  # None: there is nothing to judge it by


def _is_most(limit: float) -> Callable[[float], bool]:
    return lambda ratio: ratio <= limit


class Comparison:
    def __init__(self, rows: list[Row]) -> None:
        self.rows = rows

    @property
    def instances(self) -> list[Instance]:
        """Each once, in the order of the rows, ours first."""
        seen = {row.instance.name: row.instance for row in self.rows}
        return sorted(seen.values(), key=lambda one: (SIDES.index(one.side), one.head_dim))

    def of_problem(self, problem: Problem) -> dict[str, Row]:
        return {row.instance.side: row for row in self.rows if row.problem == problem}

    @property
    def problems(self) -> list[Problem]:
        return list(dict.fromkeys(row.problem for row in self.rows))

    def any_row_of(self, instance: Instance) -> Row:
        return next(row for row in self.rows if row.instance == instance)

    def ratios(self, problems: Iterable[Problem], other: str, whole_loop: bool = False) -> dict[str, float]:
        """Ours over the other's executed instructions per useful FLOP, by problem."""
        found: dict[str, float] = {}
        for problem in problems:
            sides = self.of_problem(problem)
            if OURS in sides and other in sides:
                name = "loop_instructions_per_kiloflop" if whole_loop else "instructions_per_kiloflop"
                mine, theirs = getattr(sides[OURS], name), getattr(sides[other], name)
                if mine is not None and theirs is not None:
                    found[problem.name] = mine / theirs
        return found

    def loops_of(self, side: str, head_dim: int) -> list[MainLoop]:
        """Of the kernels that the side takes for long prefill problems."""
        rows = [r for r in self.rows if r.instance.side == side and r.problem.len_q >= 512]
        loops = {r.instance.name: r.instance.loop for r in rows if r.problem.head_dim == head_dim}
        return [loop for loop in loops.values() if loop is not None]

    def goals(self) -> list[Goal]:
        return [*self._tensor_use_goals(64, 0.92), *self._tensor_use_goals(128, 0.91), *self._work_goals()]

    def _tensor_use_goals(self, head_dim: int, wanted: float) -> list[Goal]:
        ours = self.loops_of(OURS, head_dim)
        theirs = self.loops_of(FLASH_ATTENTION, head_dim)
        absolute = f"static tensor use at least {wanted:.0%}, D={head_dim}"
        relative = f"above FlashAttention-2 by both charges of LDSM, D={head_dim}"
        if not ours:
            return [Goal(absolute, "-", None), Goal(relative, "-", None)]
        use = min(loop.tensor_use for loop in ours)
        shared = min(loop.tensor_use_shared_port for loop in ours)
        goals = [Goal(absolute, f"{use:.1%}", use >= wanted)]
        if theirs:
            their_use = max(loop.tensor_use for loop in theirs)
            their_shared = max(loop.tensor_use_shared_port for loop in theirs)
            figure = f"{use:.1%} against {their_use:.1%}, {shared:.1%} against {their_shared:.1%}"
            goals.append(Goal(relative, figure, use > their_use and shared > their_shared))
        else:
            goals.append(Goal(relative, "-", None))
        return goals

    def _work_goals(self) -> list[Goal]:
        prefill = [problem for problem in self.problems if not problem.is_decode]
        long, short = [p for p in prefill if p.len_q >= 512], [p for p in prefill if p.len_q <= 64]
        return [
            self._work_goal("below FlashInfer's", prefill, FLASHINFER, lambda ratio: ratio < 1),
            self._work_goal("at most 1.35 times FlashAttention-2's, S >= 512", long, FLASH_ATTENTION, _is_most(1.35)),
            self._work_goal("at most 0.5 times FlashAttention-2's, S <= 64", short, FLASH_ATTENTION, _is_most(0.5)),
        ]

    def _work_goal(self, name: str, problems: list[Problem], other: str, holds: Callable[[float], bool]) -> Goal:
        name = f"executed instructions per useful FLOP {name}"
        ratios, by_loop = self.ratios(problems, other), self.ratios(problems, other, whole_loop=True)
        if not ratios:
            return Goal(name, "-", None)
        worst = max(ratios, key=lambda problem: ratios[problem])
        held = sum(map(holds, ratios.values()))
        figure = f"{held} of {len(ratios)} problems, {sum(map(holds, by_loop.values()))} by whole loops; "
        figure += f"worst {ratios[worst]:.2f} times ({worst})"
        return Goal(name, figure, held == len(ratios))

    def to_json(self) -> dict[str, Any]:
        return {
            "label": "static figures of sm_89 cubins; executed figures virtual (virtual:l4); no time of a GPU",
            "instances": [
                {
                    **asdict(one),
                    "instructions_per_useful_hmma": one.loop.instructions_per_useful_hmma if one.loop else None,
                }
                for one in self.instances
            ],
            "rows": [
                {
                    "problem": {**row.problem._asdict(), "name": row.problem.name},
                    "side": row.instance.side,
                    "instance": row.instance.name,
                    "useful_flops": row.problem.useful_flops,
                    "instructions_per_kiloflop": row.instructions_per_kiloflop,
                    "loop_instructions_per_kiloflop": row.loop_instructions_per_kiloflop,
                    "ptx_instructions_per_kiloflop": row.ptx_instructions_per_kiloflop,
                    "executed_work": row.executed_work,
                    "executed": asdict(row.executed),
                }
                for row in self.rows
            ],
            "goals": [asdict(goal) for goal in self.goals()],
        }
