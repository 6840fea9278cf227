"""The virtual GPU's own speed: million warp instructions a second on this machine's cores.

vgpu_speed.py [--build DIR] [--case flashinfer|loop|checks] [--kernels NAMES] [--rounds N] [--json] [--check]

Four ways side by side: fast, and with every check and counter on; each with the host's widest instructions, and forced
to AVX2. They take turns within every round, so that what else the machine does meets all of them. A run counts from its
first launch to the end of its last kernel; the first run of a process, which also loads the PTX, is left out. How many
warp instructions a run has is read from the reports of the observed runs. "of a core" is per second of processor time:
about what a busy machine would give if it were not.

flashinfer: FlashInfer's own prefill kernel, head size 64, at (B, H, S, D) = (1, 8, 2048, 64); its plug-in is built by
tests/peers/build_peers.py. loop: a small kernel that is part of this bench (vgpu_loop.py) and needs nothing.
checks: what every check costs, and every check and counter, on kernels of everyday shapes (vgpu_kernels.cu, which nvcc
compiles): processor time of all threads together over that of a fast run; the wall clock's beside it. A finding in one
of them is a failure.

Exit code 0: it ran (goals are printed, reached or missed); 1: --check and a goal was missed; 3: it could not run.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from vgpu_kernels import KERNELS

ROOT = Path(__file__).resolve().parents[1]
LABEL = "virtual GPU, host time measured on this machine; never GPU time"
ACCEL_SIM = (0.0045, 0.042)  # million warp instructions a second, as its authors publish for Accel-Sim 2.0
PEER = "fi_prefill_hd64"
SHAPE = "1,8,8,2048,2048,64"  # batch, query heads, key heads, queries, keys, head size
MOST_TIMES = 10  # slower with every check than fast, of the kernels whose accesses have a pattern


@dataclass
class Way:
    name: str
    isa: str  # "": the widest that the host has
    observed: bool
    goal: float  # million warp instructions a second, for the case flashinfer
    seconds: list[float] = field(default_factory=list)
    processor_seconds: list[float] = field(default_factory=list)  # of all threads together

    def row(self, instructions: int, has_goal: bool) -> dict[str, object]:
        speeds = sorted(instructions / one / 1e6 for one in self.seconds)
        median = statistics.median(speeds)
        of_a_core = instructions / statistics.median(self.processor_seconds) / 1e6
        return {"way": self.name, "median": median, "lowest": speeds[0], "highest": speeds[-1], "of_a_core": of_a_core,
                "samples": len(speeds), "goal": self.goal if has_goal else None,
                "reached": median >= self.goal if has_goal else None}  # fmt: skip


def ways() -> list[Way]:
    return [
        Way("fast", "", False, 40),
        Way("fast, AVX2", "avx2", False, 20),
        Way("observed", "", True, 8),
        Way("observed, AVX2", "avx2", True, 4),
    ]


class CannotRun(Exception):
    pass


def peer_plugin() -> Path:
    sys.path.insert(0, str(ROOT / "tests" / "peers"))
    from fetch_peers import cache_directory  # a script's module, beside no package

    found = list((cache_directory() / "build").glob(f"{PEER}-*/complete"))
    if not found:
        raise CannotRun(
            f"FlashInfer's kernel is not built: python3 tests/peers/build_peers.py {PEER}\n"
            "  (needs nvcc and the package index; without them: --case loop)"
        )
    return max(found, key=lambda path: path.stat().st_mtime).parent / "peer.so"


def command(case: str, build: Path) -> list[str]:
    driver = build / "vgpu" / "libcuda.so.1"
    host = build / "tests" / "peers" / "peers_host"
    for needed, target in [(driver, "vgpu")] + ([(host, "peers_host")] if case == "flashinfer" else []):
        if not needed.exists():
            raise CannotRun(f"{needed} is missing: cmake --build {build} --target {target}")
    if case == "loop":
        return [sys.executable, str(ROOT / "bench" / "vgpu_loop.py"), str(driver)]
    return [str(host), "--driver", str(driver), "--plugin", str(peer_plugin()), "--shape", SHAPE, "--judge", "none"]


def count_instructions(report: Path, runs: int) -> int:
    total = 0
    for line in report.read_text().splitlines():
        for metric in json.loads(line).get("metrics", []):  # a line about leaks has none
            total += metric["value"] if metric["name"] == "vgpu__ptx_inst_executed.sum" else 0
    if total == 0 or total % runs != 0:
        raise CannotRun(f"{total} warp instructions in {runs} equal runs: the report is not whole")
    return total // runs


def add_times(base: Sequence[str], way: Way, repeat: int, settings: dict[str, str]) -> str:
    """Adds the times of `repeat` runs with these VGPU_ variables to the way; what the program said on stderr."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("VGPU_")} | settings
    arguments = [*base, "--repeat", str(repeat)]
    done = subprocess.run(arguments, env=environment, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise CannotRun(f"{' '.join(arguments)} ended with {done.returncode}\n{done.stderr[-2000:]}")
    times = json.loads(done.stdout)
    way.seconds += times["repeat_seconds"]
    way.processor_seconds += times["repeat_processor_seconds"]
    return done.stderr


def run_once(base: Sequence[str], way: Way, repeat: int) -> int:
    """Adds the times of `repeat` runs to the way; the warp instructions of one run when it is observed, else 0."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.json"
        settings = {"VGPU_LOG": "off", **({"VGPU_ISA": way.isa} if way.isa else {})}
        if way.observed:
            settings |= {"VGPU_CHECK": "all", "VGPU_REPORT": str(report)}
        add_times(base, way, repeat, settings)
        return count_instructions(report, 1 + repeat) if way.observed else 0


def measure(base: Sequence[str], rounds: int) -> tuple[list[Way], int]:
    measured = ways()
    instructions = 0
    for turn in range(rounds):
        for way in measured[turn % len(measured) :] + measured[: turn % len(measured)]:
            print(f"vgpu_speed: round {turn + 1} of {rounds}: {way.name}", file=sys.stderr, flush=True)
            counted = run_once(base, way, 1 if way.observed else 3)
            if counted and instructions and counted != instructions:
                raise CannotRun(f"{way.name}: {counted} warp instructions, before {instructions}")
            instructions = counted or instructions
    return measured, instructions


def compiled_kernels(folder: Path) -> Path:
    nvcc = os.environ.get("CUDACXX") or shutil.which("nvcc") or "/usr/local/cuda/bin/nvcc"
    ptx = folder / "kernels.ptx"
    source = ROOT / "bench" / "vgpu_kernels.cu"
    try:
        subprocess.run([nvcc, "-ptx", "-arch=sm_80", "-o", str(ptx), str(source)], check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError) as reason:
        raise CannotRun(f"{source.name} needs nvcc: {reason}") from reason
    return ptx


def check_ways() -> list[Way]:
    return [Way("fast", "", False, 0), Way("checks", "", False, 0), Way("checks and counters", "", True, 0)]


def run_checked(base: Sequence[str], way: Way) -> None:
    """Like run_once(), of a run that may have the checks alone; each kernel is right, so that they find nothing."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.json"
        settings = {"VGPU_CHECK": "none" if way.name == "fast" else "all"}
        said = add_times(base, way, 2, settings | ({"VGPU_REPORT": str(report)} if way.observed else {}))
        if "check:" in said:
            raise CannotRun(f"{' '.join(base)}: the checks found something\n{said[-2000:]}")


def measure_checks(build: Path, names: Sequence[str], rounds: int) -> list[dict[str, object]]:
    driver = build / "vgpu" / "libcuda.so.1"
    if not driver.exists():
        raise CannotRun(f"{driver} is missing: cmake --build {build} --target vgpu")
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        ptx = compiled_kernels(Path(folder))
        for name in names:
            base = [sys.executable, str(ROOT / "bench" / "vgpu_kernels.py"), str(driver), str(ptx), name]
            measured = check_ways()
            for turn in range(rounds):
                for way in measured[turn % 3 :] + measured[: turn % 3]:
                    print(f"vgpu_speed: round {turn + 1} of {rounds}: {name}, {way.name}", file=sys.stderr, flush=True)
                    run_checked(base, way)
            fast, checked, counted = measured
            most = MOST_TIMES if KERNELS[name].has_goal else None
            times = statistics.median(checked.processor_seconds) / statistics.median(fast.processor_seconds)
            rows.append({"kernel": name, "fast_processor_ms": 1e3 * statistics.median(fast.processor_seconds),
                         "checks": times,
                         "checks_and_counters": statistics.median(counted.processor_seconds)
                         / statistics.median(fast.processor_seconds),
                         "checks_wall": statistics.median(checked.seconds) / statistics.median(fast.seconds),
                         "most": most, "reached": None if most is None else times <= most})  # fmt: skip
    return rows


def checks_table(rows: list[dict[str, object]], machine: dict[str, object]) -> str:
    lines = [
        f"{machine['cpu']}, {machine['cores']} cores, load average at the start {machine['load_average_at_start']}",
        "",
        f"{'':18}{'fast':>10}{'times as long, processor time':>34}{'wall clock':>14}",
        f"{'':18}{'ms':>10}{'checks':>14}{'and counters':>20}{'checks':>14}   at most",
    ]
    for row in rows:
        goal = "-" if row["most"] is None else f"{row['most']} {'reached' if row['reached'] else 'missed'}"
        lines.append(f"{row['kernel']:18}{row['fast_processor_ms']:10.1f}{row['checks']:14.1f}"
                     f"{row['checks_and_counters']:20.1f}{row['checks_wall']:14.1f}   {goal}")  # fmt: skip
    return "\n".join([*lines, "", LABEL])


def host() -> dict[str, object]:
    names = [line.split(":", 1)[1].strip() for line in Path("/proc/cpuinfo").read_text().splitlines()
             if line.startswith("model name")]  # fmt: skip
    return {"cpu": names[0] if names else platform.machine(), "cores": len(os.sched_getaffinity(0)),
            "load_average_at_start": round(os.getloadavg()[0], 2)}  # fmt: skip


def table(result: dict[str, object], rows: list[dict[str, object]], host: dict[str, object]) -> str:
    lines = [
        f"{result['case']}: {result['warp_instructions']:,} warp instructions a run",
        f"{host['cpu']}, {host['cores']} cores, load average at the start {host['load_average_at_start']}",
        "",
        f"{'':16}{'million warp instructions a second':>34}",
        f"{'':16}{'median':>10}{'lowest':>12}{'highest':>12}{'of a core':>12}{'samples':>10}   goal",
    ]
    for row in rows:
        goal = "-" if row["goal"] is None else f"{row['goal']:g} {'reached' if row['reached'] else 'missed'}"
        lines.append(f"{row['way']:16}{row['median']:10.2f}{row['lowest']:12.2f}{row['highest']:12.2f}"
                     f"{row['of_a_core']:12.2f}{row['samples']:10}   {goal}")  # fmt: skip
    low, high = ACCEL_SIM
    lines += [f"{'Accel-Sim 2.0':16}{'':10}{low:12}{high:12}{'':25}(published, on other machines)", "", LABEL]
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description="the virtual GPU's own speed in million warp instructions a second")
    parser.add_argument("--build", type=Path, default=ROOT / "build" / "release", help="build tree")
    parser.add_argument("--case", choices=["flashinfer", "loop", "checks"], default="flashinfer")
    parser.add_argument("--kernels", default=",".join(KERNELS), help="of --case checks, with commas between")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", action="store_true", help="one JSON object instead of the table")
    parser.add_argument("--check", action="store_true", help="a missed goal ends with exit code 1")
    arguments = parser.parse_args()
    machine = host()
    try:
        if arguments.case == "checks":
            names = arguments.kernels.split(",")
            if unknown := [name for name in names if name not in KERNELS]:
                raise CannotRun(f"no such kernel: {', '.join(unknown)}")
            rows = measure_checks(arguments.build, names, max(1, arguments.rounds))
            result = {"case": "checks", "label": LABEL, "unit": "times the fast run", "host": machine, "kernels": rows}
            print(json.dumps(result) if arguments.json else checks_table(rows, machine))
            return 1 if arguments.check and any(row["reached"] is False for row in rows) else 0
        measured, instructions = measure(command(arguments.case, arguments.build), max(1, arguments.rounds))
    except CannotRun as reason:
        print(f"vgpu_speed: {reason}", file=sys.stderr)
        return 3
    has_goals = arguments.case == "flashinfer"  # they are for that kernel
    rows = [way.row(instructions, has_goals) for way in measured]
    result = {"case": arguments.case, "label": LABEL, "unit": "million warp instructions per second",
              "warp_instructions": instructions, "host": machine, "ways": rows,
              "accel_sim_published": ACCEL_SIM}  # fmt: skip
    print(json.dumps(result) if arguments.json else table(result, rows, machine))
    return 1 if arguments.check and any(row["reached"] is False for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
