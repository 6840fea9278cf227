"""pytest --virtual-gpu l4: an existing suite on the virtual GPU.

    pytest --virtual-gpu l4 tests      where the wheel is not installed: -p cudadent.pytest_plugin

Programs find the virtual driver when their process starts, so pytest starts itself again in the environment that
`cudadent run` would give it. A test that a check finds something in fails, with the kernel's source line; what the test
itself said is kept. Options: `pytest --help`, section "virtual GPU".

A finding of memcheck ends the CUDA context, as on a card: tests behind it in the same process fail, too, and say so
(pytest-xdist's or pytest-forked's processes keep them apart).
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from cudadent.__main__ import program
from cudadent.findings import finding_text, told_findings, totals

STARTED_AGAIN = "CUDADENT_PYTEST_REPORT"  # set in the process that was: the file of launches
# What a checked run executes at least on a slow host (docs/virtual-gpu.md, "How fast it is"): bounds a single launch,
# during which no Python code can look at a clock.
WARP_INSTRUCTIONS_A_SECOND = 10_000_000


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("virtual GPU")
    group.addoption("--virtual-gpu", metavar="GPU", help="run the suite on this virtual GPU: l4, a100, h100, ...")
    group.addoption(
        "--virtual-gpu-check",
        metavar="CHECKS",
        default="all",
        help="all, none, or a list of memcheck,initcheck,racecheck,synccheck (default: all)",
    )
    group.addoption("--virtual-gpu-seconds", metavar="S", type=float, help="a test that takes longer fails")
    group.addoption("--virtual-gpu-seed", metavar="N", type=int, default=0, help="seed of the schedule (default: 0)")
    group.addoption("--virtual-gpu-counters", action="store_true", help="what each test's launches counted, at the end")
    group.addoption(
        "--virtual-gpu-aten", action="store_true", help="torch's own operators on the CPU (cudadent.aten); yours run"
    )


def _cudadent() -> str:
    found = program()
    if not found:
        raise pytest.UsageError("--virtual-gpu: no cudadent on the PATH; CUDADENT says where it is")
    return found


def _environment(options: Any, report: str) -> dict[str, str]:
    """What `cudadent run` sets for a program, as it tells it itself."""
    flags = ["--device", f"virtual:{options.virtual_gpu}", "--check", options.virtual_gpu_check]
    flags += ["--seed", str(options.virtual_gpu_seed), "--report", report, "--explain", "--json"]
    why = ""
    try:
        command = [_cudadent(), "run", *flags, "--", sys.executable]
        asked = subprocess.run(command, capture_output=True, text=True, check=False)
        why = asked.stderr.strip()
        settings: dict[str, str] = json.loads(asked.stdout)["environment"]
    except (OSError, json.JSONDecodeError, KeyError) as error:
        os.unlink(report)
        raise pytest.UsageError(f"--virtual-gpu {options.virtual_gpu}: {why or error}") from None
    return settings


# Before pytest captures what is written, which would take stdout away from the new process.
@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_load_initial_conftests(early_config: pytest.Config) -> Generator[None, None, None]:
    options = early_config.known_args_namespace
    if options.virtual_gpu and STARTED_AGAIN not in os.environ:
        handle, report = tempfile.mkstemp(prefix="virtual-gpu-", suffix=".jsonl")
        os.close(handle)
        settings = _environment(options, report) | {STARTED_AGAIN: report}
        if options.virtual_gpu_seconds and "VGPU_BUDGET" not in os.environ:
            settings["VGPU_BUDGET"] = str(max(1, int(options.virtual_gpu_seconds * WARP_INSTRUCTIONS_A_SECOND)))
        if not options.virtual_gpu_counters:
            settings["VGPU_COUNTERS"] = "0"
        sys.stdout.flush()
        sys.stderr.flush()
        os.execve(sys.executable, [sys.executable, *sys.orig_argv[1:]], os.environ | settings)
    return (yield)


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("--virtual-gpu"):
        config.pluginmanager.register(VirtualGpu(config), "cudadent-virtual-gpu")


class VirtualGpu:
    def __init__(self, config: pytest.Config) -> None:
        self.options = config.option
        self.report = Path(os.environ[STARTED_AGAIN])
        if worker := os.environ.get("PYTEST_XDIST_WORKER"):  # findings of others are not this one's
            self.report = self.report.with_suffix(f".{worker}.jsonl")
            os.environ["VGPU_REPORT"] = str(self.report)
        self.read_bytes = 0
        self.told: dict[str, list[dict[str, Any]]] = {}
        self.launches = 0
        self.mode: Any = None

    def new_launches(self) -> list[dict[str, Any]]:
        if not self.report.exists():
            return []
        with self.report.open("rb") as file:
            file.seek(self.read_bytes)
            lines = file.read()
        self.read_bytes += len(lines)
        return [json.loads(line) for line in lines.splitlines()]

    @contextmanager
    def within_budget(self) -> Iterator[None]:
        seconds = self.options.virtual_gpu_seconds
        if not seconds:
            yield
            return

        def too_long(_signal: int, _frame: FrameType | None) -> None:
            pytest.fail(f"over its budget of {seconds:g} s (--virtual-gpu-seconds)")

        before = signal.signal(signal.SIGALRM, too_long)
        signal.setitimer(signal.ITIMER_REAL, seconds)
        try:
            yield
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)

    def watched(self, item: pytest.Item, phase: str) -> Generator[None, Any, Any]:
        """The phase of a test, and what the checks found during it."""
        try:
            with self.within_budget():
                result = yield
        except BaseException:
            if text := self.judged(item):
                item.add_report_section(phase, "virtual GPU", text)
            raise
        if text := self.judged(item):
            pytest.fail(text, pytrace=False)
        return result

    def judged(self, item: pytest.Item) -> str:
        launches = self.new_launches()
        counted = [launch for launch in launches if launch.get("kernel")]
        if counted:
            item.user_properties.append(("virtual_gpu", totals(counted)))
        texts = [finding_text(finding) for finding in told_findings(launches)]
        texts += [f"fault: {launch['fault']}" for launch in launches if launch.get("fault") and not texts]
        return "\n\n".join(dict.fromkeys(texts))

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> Generator[None, Any, Any]:
        return (yield from self.watched(item, "setup"))

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Generator[None, Any, Any]:
        return (yield from self.watched(item, "call"))

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_teardown(self, item: pytest.Item) -> Generator[None, Any, Any]:
        return (yield from self.watched(item, "teardown"))

    def pytest_sessionstart(self) -> None:
        if self.options.virtual_gpu_aten:
            from cudadent.aten import AtenOnCpu  # which imports torch

            self.mode = AtenOnCpu()
            self.mode.__enter__()

    def pytest_sessionfinish(self) -> None:
        if self.mode is not None:
            self.mode.__exit__(None, None, None)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when != "teardown":  # the last has what all three phases added
            return
        counted: list[Any] = [value for name, value in report.user_properties if name == "virtual_gpu"]
        self.launches += sum(value["launches"] for value in counted)
        if counted:
            self.told[report.nodeid] = counted

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        line = terminalreporter.write_line
        terminalreporter.section(f"virtual GPU {self.options.virtual_gpu}")
        if self.launches == 0:
            line("no kernel was launched, so nothing was checked")
        else:
            line(f"{self.launches} launches in {len(self.told)} tests; checks: {self.options.virtual_gpu_check}")
        if self.mode is not None and self.mode.operators:
            line(f"operators of torch on the CPU: {', '.join(sorted(self.mode.operators))}")
        if self.options.virtual_gpu_counters:
            for test, counted in self.told.items():
                sums = {name: sum(value[name] for value in counted) for name in counted[0]}
                line(f"{test}: " + ", ".join(f"{value:,.0f} {name}" for name, value in sums.items()))

    def pytest_unconfigure(self) -> None:
        self.report.unlink(missing_ok=True)
