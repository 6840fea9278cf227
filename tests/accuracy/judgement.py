"""The errors of a set of problems, and whether they are small enough."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

SET_LIMIT, PROBLEM_LIMIT = 1.2, 2.0
FP32_SCORE = 2.0**-22  # four roundings of fp32: what a sum over the head's size keeps of its terms


@dataclass(frozen=True)
class Limits:
    """Against the fp64 oracle."""

    lse: float  # or, where that is more, FP32_SCORE of the largest terms that a score of the problem is made of
    max_diff: dict[str, float]  # per dtype, on N(0,1) inputs


CPU_LIMITS = Limits(lse=1e-4, max_diff={"fp16": 0.01})
GPU_LIMITS = Limits(lse=1e-3, max_diff={"fp16": 0.01, "bf16": 0.03})


@dataclass
class TargetError:
    """One target (an ISA or a GPU) on one problem."""

    squared: float = 0.0
    largest: float = 0.0
    lse: float = 0.0
    how: str = ""  # it ran
    complaint: str = ""


@dataclass
class Record:
    """One problem."""

    index: int
    dtype: str
    plain_normal: bool
    large_scores: bool
    summary: str
    traits: list[str]
    elements: int = 0
    largest_terms: float = 0.0  # of |q k| in a score
    result_squared: float = 0.0
    torch_squared: float = 0.0
    rounding_squared: float = 0.0
    targets: dict[str, TargetError] = field(default_factory=dict)

    def ratio(self, target: str) -> float:
        """RMS error in units of PyTorch's, or of the rounding error where PyTorch was luckier than that."""
        baseline = max(self.torch_squared, self.rounding_squared)
        mine = self.targets[target].squared
        return math.sqrt(mine / baseline) if baseline > 0 else (0.0 if mine == 0 else math.inf)

    def allowed_lse(self, limits: Limits) -> float:
        return max(limits.lse, FP32_SCORE * self.largest_terms)


@dataclass
class Row:
    """One line of the table: a target in a dtype."""

    target: str
    dtype: str
    problems: int
    rms: float
    torch_rms: float
    set_ratio: float
    relative_set_ratio: float
    large_scores_ratio: (
        float  # the same over the problems of large scores, which the others leave out; 0: there are none
    )
    worst_problem_ratio: float
    worst_problem: str
    lse_error: float
    worst_lse_problem: str
    normal_max_diff: float  # over the problems whose inputs are N(0,1)
    failures: list[str] = field(default_factory=list)


def judge(records: list[Record], target: str, dtype: str, limits: Limits) -> Row:
    all_mine = [r for r in records if r.dtype == dtype]
    mine = [r for r in all_mine if r.elements > 0]  # the others have no row that sees a key
    if not mine:
        raise ValueError(f"no problem in {dtype}")
    large = [r for r in mine if r.large_scores]
    usual = [r for r in mine if not r.large_scores] or mine
    elements = sum(r.elements for r in usual)
    rms = math.sqrt(sum(r.targets[target].squared for r in usual) / elements)
    torch_rms = math.sqrt(sum(r.torch_squared for r in usual) / elements)
    worst = max(usual, key=lambda r: r.ratio(target))
    worst_lse = max(mine, key=lambda r: r.targets[target].lse / r.allowed_lse(limits))
    row = Row(
        target=target,
        dtype=dtype,
        problems=len(all_mine),
        rms=rms,
        torch_rms=torch_rms,
        set_ratio=rms / torch_rms,
        relative_set_ratio=_relative_ratio(usual, target),
        large_scores_ratio=_relative_ratio(large, target) if large else 0.0,
        worst_problem_ratio=worst.ratio(target),
        worst_problem=_name(worst, target),
        lse_error=worst_lse.targets[target].lse,
        worst_lse_problem=_name(worst_lse, target),
        normal_max_diff=max((r.targets[target].largest for r in mine if r.plain_normal), default=0.0),
    )
    for r in all_mine:
        if r.targets[target].complaint:
            row.failures.append(f"{r.targets[target].complaint} ({_name(r, target)})")
    for what, ratio in (
        ("RMS", row.set_ratio),
        ("relative RMS", row.relative_set_ratio),
        ("relative RMS of large scores", row.large_scores_ratio),
    ):
        if not ratio <= SET_LIMIT:
            row.failures.append(f"{what} over the set is {ratio:.3f} x PyTorch's, allowed {SET_LIMIT}")
    for r in mine:
        if not r.large_scores and not r.ratio(target) <= PROBLEM_LIMIT:
            ratio = r.ratio(target)
            row.failures.append(f"{ratio:.2f} x PyTorch's RMS, allowed {PROBLEM_LIMIT:g} ({_name(r, target)})")
    allowed_lse = worst_lse.allowed_lse(limits)
    if not row.lse_error <= allowed_lse:
        row.failures.append(
            f"lse is {row.lse_error:.2e} from the oracle, allowed {allowed_lse:.2e} ({row.worst_lse_problem})"
        )
    allowed = limits.max_diff.get(dtype, math.inf)
    if not row.normal_max_diff < allowed:
        row.failures.append(f"max_diff on N(0,1) is {row.normal_max_diff:.4f}, allowed below {allowed}")
    return row


def _relative_ratio(records: list[Record], target: str) -> float:
    """With each problem's errors divided by the RMS of its result."""
    mine = sum(r.targets[target].squared / r.result_squared for r in records)
    return math.sqrt(mine / sum(r.torch_squared / r.result_squared for r in records))


def _name(record: Record, target: str) -> str:
    return f"problem {record.index}: {record.summary}; {record.targets[target].how}"


def print_table(rows: list[Row], where: str, seconds: float) -> None:
    print(f"RMS error against the fp64 oracle, {where}; x: in units of PyTorch's own on this machine's CPU")
    print(
        f"{'target':14}{'dtype':7}{'problems':>9}{'RMS':>11}{'torch RMS':>11}{'set x':>8}{'rel. x':>8}"
        f"{'large x':>9}{'worst x':>9}{'lse':>10}{'max_diff':>10}  holds"
    )
    for row in rows:
        print(
            f"{row.target:14}{row.dtype:7}{row.problems:9}{row.rms:11.3e}{row.torch_rms:11.3e}{row.set_ratio:8.3f}"
            f"{row.relative_set_ratio:8.3f}{row.large_scores_ratio:9.3f}{row.worst_problem_ratio:9.2f}{row.lse_error:10.1e}"
            f"{row.normal_max_diff:10.5f}  {'no' if row.failures else 'yes'}"
        )
    for row in rows:
        for failure in row.failures[:10]:
            print(f"{row.target} {row.dtype}: {failure}")
        if len(row.failures) > 10:
            print(f"{row.target} {row.dtype}: and {len(row.failures) - 10} more")
    print(f"{seconds:.0f} s")
