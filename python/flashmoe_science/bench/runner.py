"""Runs cells: correctness, limits, samples; keeps what was measured when it is interrupted."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import torch

from . import correctness
from .cells import MODIFIED_KINDS, PAGED_KINDS, Cell
from .contention import Neighbours, is_disturbed
from .implementation import Implementation, Inputs, NotAvailable, PreparedCall, make_inputs
from .intervals import Interval
from .limits import LimitMeter, Limits, TileRates, roofline_seconds
from .peers import BEFORE
from .sampling import PairSampler, PairTimes, SamplingPolicy, processors_used
from .targets import Measured, cell_threshold
from .torch_side import TorchSdpa

# More processor time per second of wall time than this, beyond the threads allowed, is a side that cheats.
THREAD_TOLERANCE = 0.5
# A peer may be less exact than torch; it only has to solve the same problem.
PEER_ERROR_RATIO = 16.0
# A machine that stays busy would make every row unclear.
SECOND_PASS_SECONDS = 120

UNMEASURED = Interval(math.nan, 0.0, math.inf)


@dataclass(frozen=True)
class Job:
    cell: Cell
    dtype: str
    threads: int
    peer: Implementation

    @property
    def key(self) -> str:
        return f"{self.dtype}/t{self.threads}/{self.cell.name}"


@dataclass
class Row:
    """A measured (or skipped) job."""

    job: Job
    times: PairTimes = field(default_factory=PairTimes)
    ratio: Interval = UNMEASURED
    agreement: correctness.Agreement | None = None
    limits: Limits | None = None
    roofline_seconds: float | None = None
    skipped: str = ""  # a side cannot run it
    wrong: str = ""  # the result or the thread count is not as asked: not a time worth having
    note: str = ""
    used_by_others: float | None = None  # processors, while it was measured

    @property
    def disturbed(self) -> bool:
        return is_disturbed(self.job.threads, self.used_by_others)

    @property
    def roofline_share(self) -> float | None:
        if self.roofline_seconds is None or not self.times.ours_seconds:
            return None
        return self.roofline_seconds / self.times.ours_median

    def measured(self) -> Measured:
        job = self.job
        return Measured(
            job.cell, job.dtype, job.threads, job.peer.name, self.ratio, self.times.log_ratios, self.wrong,
            self.roofline_share, self.disturbed,
        )  # fmt: skip


def progress_to_stderr(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


class Runner:
    def __init__(
        self,
        ours: Implementation,
        policy: SamplingPolicy,
        meter: LimitMeter | None,
        progress: Callable[[str], None] = progress_to_stderr,
    ) -> None:
        self.ours, self.policy, self.meter, self.progress = ours, policy, meter, progress
        self.tile_rates = TileRates()
        self._inputs_key: tuple[Cell, str] | None = None
        self._inputs: Inputs | None = None
        self._torch_result: torch.Tensor | None = None

    def run(self, jobs: Sequence[Job], rows: list[Row], second_pass: bool = False) -> None:
        """Appends to `rows` one by one, so that they are there when the run is interrupted.

        A second pass goes on with the rows that are not clear of their threshold, and repeats the disturbed ones.
        """
        start = time.monotonic()
        for number, job in enumerate(jobs, 1):
            row = Row(job)
            self._measure(row, second_pass=False)
            rows.append(row)
            elapsed = time.monotonic() - start
            remaining = elapsed / number * (len(jobs) - number)
            self.progress(f"[{number}/{len(jobs)}, about {remaining:.0f} s left] {job.key} {summary(row)}")
        unclear = [row for row in rows if self._unclear(row)] if second_pass else []
        start = time.monotonic()
        for number, row in enumerate(unclear, 1):
            if time.monotonic() - start > SECOND_PASS_SECONDS:
                self.progress(f"the second pass ends here: {len(unclear) - number + 1} rows stay unclear")
                break
            self._measure(row, second_pass=True)
            self.progress(f"[again {number}/{len(unclear)}] {row.job.key} {summary(row)}")

    def _threshold(self, job: Job) -> float:
        return cell_threshold(job.peer.name, job.cell.kind, job.dtype)

    def _unclear(self, row: Row) -> bool:
        if row.skipped or row.wrong or row.job.cell.kind == "call" or len(self.policy.looks.blocks) == 1:
            return False
        return row.disturbed or not row.ratio.clear_of(self._threshold(row.job))

    def _inputs_for(self, job: Job) -> Inputs:
        if self._inputs is None or self._inputs_key != (job.cell, job.dtype):
            self._inputs, self._inputs_key = make_inputs(job.cell, job.dtype), (job.cell, job.dtype)
            self._torch_result = None
        return self._inputs

    def _measure(self, row: Row, second_pass: bool) -> None:
        job = row.job
        inputs = self._inputs_for(job)
        torch.set_num_threads(job.threads)
        try:
            baseline = job.peer.prepare(job.cell, job.dtype, inputs, job.threads)
            ours = self.ours.prepare(job.cell, job.dtype, inputs, job.threads)
            if not second_pass:
                row.note = ours.note
                self._check(row, inputs, baseline, ours)
        except NotAvailable as error:
            row.skipped = str(error)
        if row.skipped or row.wrong:
            return
        if row.disturbed:
            row.times = PairTimes()  # not evidence: begin anew
        before = self._limits(job)
        neighbours = Neighbours()
        sampler = PairSampler(
            baseline.run, ours.run, self.policy, seed=int(second_pass), times=row.times
        )
        row.ratio = sampler.run(self._threshold(job), second_pass=second_pass)
        row.used_by_others = neighbours.processors_used()
        after = self._limits(job)
        if before is not None and after is not None:
            around = before.better_of(after)
            row.limits = around if row.limits is None else row.limits.better_of(around)
            row.roofline_seconds = roofline_seconds(job.cell, job.dtype, row.limits)
        if row.times.ours_cpu_per_wall > job.threads + THREAD_TOLERANCE:
            # Samples last milliseconds, over which the processor clock has been seen to run at three times what two
            # processors can give: only a long row of calls accuses.
            row.times.ours_cpu_per_wall = processors_used(ours.run)
        if row.times.ours_cpu_per_wall > job.threads + THREAD_TOLERANCE:
            row.wrong = f"uses {row.times.ours_cpu_per_wall:.1f} processors with {job.threads} thread(s) allowed"

    def _check(self, row: Row, inputs: Inputs, baseline: PreparedCall, ours: PreparedCall) -> None:
        """Both sides against torch and fp64. A peer that computes something else is skipped, not beaten."""
        job = row.job
        torch_output = self._torch_output(job, inputs)
        if job.peer.name != "torch":
            peer_output = baseline.to_tensor(baseline.run())
            peer_agreement = correctness.compare(job.cell, inputs, torch_output, peer_output, PEER_ERROR_RATIO)
            if not peer_agreement.right:
                row.skipped = f"the peer computes something else: {peer_agreement.problem}"
                return
        row.agreement = correctness.compare(job.cell, inputs, torch_output, ours.to_tensor(ours.run()))
        row.wrong = row.agreement.problem

    def _torch_output(self, job: Job, inputs: Inputs) -> torch.Tensor:
        if self._torch_result is None:
            call = TorchSdpa().prepare(job.cell, job.dtype, inputs, job.threads)
            self._torch_result = call.to_tensor(call.run())
        return self._torch_result

    def _limits(self, job: Job) -> Limits | None:
        limits = None if self.meter is None else self.meter.measure(job.cell, job.dtype, job.threads)
        self.tile_rates.note(limits, job.threads)
        return limits


def summary(row: Row) -> str:
    if row.skipped:
        return f"skipped: {row.skipped}"
    if row.wrong:
        return f"WRONG: {row.wrong}"
    times, ratio = row.times, row.ratio
    return (
        f"{row.job.peer.name} {times.baseline_median * 1e6:.1f} us, ours {times.ours_median * 1e6:.1f} us, "
        f"{ratio.value:.2f}x [{ratio.low:.2f}, {ratio.high:.2f}] n={len(times.log_ratios)}"
        f"{' (machine busy)' if row.disturbed else ''}"
    )


def make_jobs(
    cells: Sequence[Cell], dtypes: Sequence[str], threads: Sequence[int], peers: Sequence[Implementation]
) -> list[Job]:
    """Thread count outermost: no side has to rebuild its thread pool between two samples."""

    def jobs() -> Iterator[Job]:
        for thread_count in threads:
            for dtype in dtypes:
                for cell in cells:
                    for peer in peers:
                        job = Job(cell, dtype, thread_count, peer)
                        if wanted(job):
                            yield job

    return list(jobs())


def wanted(job: Job) -> bool:
    if job.cell.kind == "call":
        return job.threads == 1 and job.peer.name == "torch"
    if job.peer.name == "onednn":
        return job.cell.kind == "decode"
    if job.peer.name == "vllm":
        return job.cell.kind in PAGED_KINDS and job.dtype != "fp32"
    if job.peer.name == BEFORE:
        return job.cell.is_plain or job.cell.kind in PAGED_KINDS
    return job.cell.is_plain or (job.cell.kind in MODIFIED_KINDS and job.peer.name == "torch")


