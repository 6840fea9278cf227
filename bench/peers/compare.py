"""FlashInfer's and FlashAttention-2's interior loops beside ours: the same problems, device and analysis, and a plot.

compare.py [--build DIR] [--nvdisasm PATH] [--side NAME]... [--quick] [--no-compile-cost] [--json] [--check]
           [--write-docs]

Every kernel runs each problem on the virtual GPU (virtual:l4) through the peers' harness, which judges the result; the
main loop of its sm_89 cubin is read by sass.py and tensor_use.py. Peers are fetched and compiled the first time (some
minutes for FlashAttention-2) and kept; a full run then takes three to five minutes.

--build DIR           a build tree with peers_host, vgpu and flashmoe_peer        (default: build/release)
--nvdisasm PATH       (default: $NVDISASM, PATH, the CUDA toolkit, build/venv-clients)
--side NAME           ours, FlashInfer or FlashAttention-2; may be given again    (default: all)
--quick               only problems of at most 128 queries
--no-compile-cost     leave the compile columns empty
--write-docs          write the second half of docs/kernel-comparison.md and its .svg; the first is predict_map.py's
--check               exit with 1 when a goal is missed

Exit code 0: it ran and every judged result was right (goals are printed, reached or missed); 1: a result was wrong, or
--check and a goal was missed; 2: usage; 3: it could not run.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

import compile_cost
import gpu_pipes
import plot
import report
from comparison import FLASHINFER, OURS, SIDES, Comparison, Instance, Row
from compile_cost import CompileCost
from executed import DEVICE, CannotRunError, Executed, run
from nvdisasm import find_nvdisasm
from peer_builds import ROOT, build
from problems import PROBLEMS, Problem, flash_attention_instance, flashinfer_instance
from sass import disassemble
from tensor_use import MainLoop, main_loop
from whole_calls import with_explanation


def instance_of(side: str, problem: Problem) -> str:
    if side == FLASHINFER:
        return flashinfer_instance(problem)
    return flash_attention_instance(problem, split=problem.is_decode)


def say(words: str) -> None:
    print(words, file=sys.stderr, flush=True)


class Collector:
    """Runs and reads kernels; remembers what it has read."""

    def __init__(self, build_tree: Path, nvdisasm: str, wants_cost: bool) -> None:
        self.build_tree = build_tree
        self.nvdisasm = nvdisasm
        self.wants_cost = wants_cost
        self.host = build_tree / "tests" / "peers" / "peers_host"
        self.driver = build_tree / "vgpu" / "libcuda.so.1"
        cudadent = build_tree / "bin" / "cudadent"
        for needed in (self.host, self.driver, cudadent):
            if not needed.exists():
                raise CannotRunError(f"{needed} is not there: build the targets peers_host, vgpu and cudadent")
        self.pipes = gpu_pipes.all_gpus(cudadent)[DEVICE]
        self._instances: dict[str, Instance] = {}

    def row(self, side: str, problem: Problem) -> Row:
        if side == OURS:
            plugin = self.build_tree / "bench" / "peers" / "flashmoe_peer.so"
            if not plugin.exists():
                raise CannotRunError(f"{plugin} is not there: build the target flashmoe_peer")
            executed = run(self.host, self.driver, plugin, problem)
            return Row(problem, self._ours(executed, problem), executed)
        name = instance_of(side, problem)
        executed = run(self.host, self.driver, build(name) / "peer.so", problem)
        return Row(problem, self._peer(side, name, executed, problem), executed)

    def _ours(self, executed: Executed, problem: Problem) -> Instance:
        name = executed.kernels[0]
        if name not in self._instances:
            cubin = self.build_tree / "src" / "kernels" / "cuda" / "images" / f"{name}.sm_89.cubin"
            cost = compile_cost.of_ours(name) if self.wants_cost else None
            self._instances[name] = Instance(OURS, name, problem.head_dim, self._loop(cubin, name), cost)
        return self._instances[name]

    def _peer(self, side: str, name: str, executed: Executed, problem: Problem) -> Instance:
        if name not in self._instances:
            loop = self._loop(build(name) / "kernel.cubin", executed.kernels[0])
            self._instances[name] = Instance(side, name, problem.head_dim, loop, self._peer_cost(name))
        return self._instances[name]

    def _peer_cost(self, name: str) -> CompileCost | None:
        # A kernel for uneven problems costs what its even twin does; measuring both would take minutes more.
        if not self.wants_cost or name.endswith("_uneven"):
            return None
        return compile_cost.of_peer(name)

    def _loop(self, cubin: Path, kernel: str) -> MainLoop | None:
        functions = {function.name: function for function in disassemble(self.nvdisasm, cubin)}
        if kernel not in functions:
            raise CannotRunError(f"{cubin} has no kernel {kernel}; it has {', '.join(functions)}")
        return main_loop(functions[kernel], self.pipes)


def collect(collector: Collector, sides: list[str], problems: list[Problem]) -> Comparison:
    rows = []
    for problem in problems:
        for side in sides:
            say(f"{problem.name}: {side}")
            rows.append(collector.row(side, problem))
    return Comparison(rows)


def write_docs(comparison: Comparison) -> None:
    (ROOT / "docs" / "kernel-comparison.svg").write_text(plot.svg(comparison))
    page = ROOT / "docs" / "kernel-comparison.md"
    page.write_text(with_explanation(page.read_text(), report.explanation(comparison)))
    say("wrote docs/kernel-comparison.md and docs/kernel-comparison.svg")


def parse(arguments: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=Path, default=ROOT / "build" / "release")
    parser.add_argument("--nvdisasm")
    parser.add_argument("--side", action="append", choices=SIDES)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--no-compile-cost", action="store_true")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--write-docs", action="store_true")
    parsed = parser.parse_args(arguments)
    if parsed.write_docs and (parsed.side or parsed.quick or parsed.no_compile_cost):
        parser.error("--write-docs writes the whole comparison: not with --side, --quick or --no-compile-cost")
    return parsed


def main() -> int:
    options = parse()
    problems = [problem for problem in PROBLEMS if not options.quick or problem.len_q <= 128]
    try:
        collector = Collector(options.build.absolute(), find_nvdisasm(options.nvdisasm), not options.no_compile_cost)
        comparison = collect(collector, options.side or list(SIDES), problems)
    except (RuntimeError, OSError, SystemExit) as error:  # the build script of the peers ends with SystemExit
        say(f"compare: {error}")
        return 3
    if options.json:
        print(json.dumps(comparison.to_json(), indent=1))
    else:
        print(report.explanation(comparison))
    if options.write_docs:
        write_docs(comparison)
    wrong = [row for row in comparison.rows if row.executed.right is False]
    for row in wrong:
        say(f"compare: {row.instance.name} is wrong on {row.problem.name}")
    missed = options.check and any(goal.reached is False for goal in comparison.goals())
    return 1 if wrong or missed else 0


if __name__ == "__main__":
    sys.exit(main())
