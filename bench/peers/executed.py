"""One problem on the virtual GPU, through the peers' harness, and what its counters say."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from problems import Problem

DEVICE = "l4"
# The oracle is plain fp64 code: beyond this many visible pairs of all heads it takes longer than the run.
_MOST_JUDGED_PAIRS = 5_000_000


class CannotRunError(RuntimeError):
    """Something that the comparison needs is not there, or fails."""


@dataclass(frozen=True)
class Executed:
    kernels: list[str]  # as launched; the first is the one with the most tensor instructions
    ctas: int  # of that one, like all that follows up to occupancy
    threads: int
    registers: int
    spill_store_bytes: int
    spill_load_bytes: int
    shared_bytes: int
    ctas_per_sm: int
    occupancy_percent: float
    hmmas: int  # of all launches together, like all that follows
    ptx_instructions: int
    bank_conflicts: int
    requests: int
    sectors: int
    coalescing_percent: float  # of the kernel with the most tensor instructions
    dram_bytes: int
    right: bool | None  # None: too large for the oracle

    @property
    def sectors_per_request(self) -> float:
        return self.sectors / self.requests


def _metrics(launch: dict[str, Any]) -> dict[str, float]:
    return {metric["name"]: metric["value"] for metric in launch["metrics"]}


def _total(launches: list[dict[str, float]], *names: str) -> int:
    return round(sum(launch.get(name, 0) for launch in launches for name in names))


def summarise(launches: list[dict[str, Any]], right: bool | None) -> Executed:
    """Of the lines of a VGPU_REPORT."""
    tensor = "vgpu__ptx_inst_executed_pipe_tensor.sum"
    instructions = "vgpu__ptx_inst_executed.sum"
    ordered = sorted(launches, key=lambda one: (-_metrics(one).get(tensor, 0), -_metrics(one)[instructions]))
    main, values = ordered[0], _metrics(ordered[0])
    every = [_metrics(launch) for launch in ordered]
    return Executed(
        kernels=[launch["kernel"] for launch in ordered],
        ctas=round(values["launch__grid_size"]),
        threads=round(values["launch__block_size"]),
        registers=main["registers"],
        spill_store_bytes=main["spill_store_bytes"],
        spill_load_bytes=main["spill_load_bytes"],
        shared_bytes=round(values["launch__shared_mem_per_block"]),
        ctas_per_sm=main["ctas_per_sm"],
        occupancy_percent=main["occupancy_percent"],
        hmmas=_total(every, tensor),
        ptx_instructions=_total(every, instructions),
        bank_conflicts=_total(every, "vgpu__shared_bank_conflicts.sum"),
        requests=_total(
            every,
            "l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum",
            "l1tex__t_requests_pipe_lsu_mem_global_op_st.sum",
            "vgpu__async_copy_requests_mem_global.sum",
        ),
        sectors=_total(
            every,
            "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum",
            "l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum",
            "vgpu__async_copy_sectors_mem_global.sum",
        ),
        coalescing_percent=values["vgpu__coalescing_efficiency.pct"],
        dram_bytes=_total(
            every, "vgpu__dram_bytes_read.sum", "vgpu__dram_bytes_written.sum", "vgpu__l2_dirty_bytes_at_end"
        ),
        right=right,
    )


def launches_of(
    host: Path, driver: Path, plugin: Path, problem: Problem, report: Path, judged: bool, **environment: str
) -> bool:
    """Runs it with its report written there; whether the result was right (True where nobody judged)."""
    command = [str(host), "--plugin", str(plugin), "--driver", str(driver), "--shape", problem.shape]
    command += ["--judge", "all" if judged else "none", *(["--causal"] if problem.causal else [])]
    whole_environment = {
        **os.environ,
        "FLASHMOE_DRIVER": str(driver),
        "VGPU_DEVICE": DEVICE,
        "VGPU_CHECK": "none",
        "VGPU_LOG": "off",
        "VGPU_REPORT": str(report),
        **environment,
    }
    done = subprocess.run(command, env=whole_environment, capture_output=True, text=True, check=False)
    if done.returncode not in (0, 1) or not report.exists():
        raise CannotRunError(f"{' '.join(command)} ended with {done.returncode}: {done.stderr.strip()[-1500:]}")
    return done.returncode == 0


def first_launch(
    host: Path, driver: Path, plugin: Path, problem: Problem, scratch: Path, **environment: str
) -> tuple[str, list[int]]:
    """Kernel and grid, without a run: the launch is stopped at once, and its report says what was asked for."""
    report = scratch / "stopped.jsonl"
    try:
        launches_of(host, driver, plugin, problem, report, judged=False, VGPU_BUDGET="1", **environment)
    except CannotRunError:
        if not report.exists():
            raise
    launch = json.loads(report.read_text().splitlines()[0])
    return launch["kernel"], launch["grid"]


def run(host: Path, driver: Path, plugin: Path, problem: Problem) -> Executed:
    judged = problem.heads_q * problem.visible_pairs <= _MOST_JUDGED_PAIRS
    with tempfile.TemporaryDirectory() as scratch:
        report = Path(scratch) / "report.jsonl"
        right = launches_of(host, driver, plugin, problem, report, judged)
        launches = [json.loads(line) for line in report.read_text().splitlines()]
    return summarise(launches, right if judged else None)
