"""What our kernels and the peers' would take on a GPU that is not here, all of them as `cudadent predict` says it.

predicted.py [--build DIR] [--nvdisasm PATH] [--journey PROJECT] [--check]

Every kernel runs the problem (one head, S=128) on the virtual GPU through the peers' harness, which judges the result
and records the way of the warps; the SASS is that of the PTX that ran. Nothing is measured.

--build DIR           a build tree with peers_host, vgpu, flashmoe_peer and cudadent    (default: build/release)
--nvdisasm PATH       (default: $NVDISASM, PATH, the CUDA toolkit, build/venv-clients)
--journey PROJECT     examples/attention_journey at some point, as a further row
--check               exit with 1 unless that row is at most the better peer's

Exit code 0: predicted; 1: a result was wrong, or --check failed; 3: it could not run.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from comparison import FLASH_ATTENTION, FLASHINFER, OURS, SIDES
from executed import DEVICE, CannotRunError, first_launch, launches_of
from nvdisasm import find_nvdisasm
from peer_builds import ROOT, build, find_nvcc
from problems import Problem, flash_attention_instance, flashinfer_instance

JOURNEY = "the journey"
PEERS = (FLASHINFER, FLASH_ATTENTION)
# One head, where no wave hides anything: what the journey is about.
SMALL = [Problem(1, 1, 128, 128, head_dim) for head_dim in (64, 128)]


@dataclass(frozen=True)
class Predicted:
    """A call: all its launches, and what lies between them."""

    side: str
    kernels: list[str]
    ctas: list[int]
    main_ctas: int  # of the longest launch
    cycles: float
    microseconds: float  # at the boost clock
    limiter: str  # of the longest launch
    doubts: list[str]
    refusals: list[str]
    instructions: int | None = None  # PTX, executed by warps; None: nobody kept the count
    busiest_sm: int | None = None  # of them

    @property
    def is_predicted(self) -> bool:
        return not self.refusals


def from_answer(side: str, answer: dict[str, Any]) -> Predicted:
    """Of `cudadent predict --json`."""
    launches = answer["launches"]
    longest = max(launches, key=lambda launch: launch["cycles"])
    return Predicted(
        side=side,
        kernels=[launch["kernel"] for launch in launches],
        ctas=[math.prod(launch["grid"]) for launch in launches],
        main_ctas=math.prod(longest["grid"]),
        cycles=answer["cycles"],
        microseconds=answer["boost"]["us"],
        limiter=longest["limiter"],
        doubts=[doubt for launch in launches for doubt in launch["doubts"]],
        refusals=[refusal for launch in launches for refusal in launch["refusals"]],
    )


# The axis of the grid along which heads lie: of ours head after head, of the peers where keys are not split.
HEAD_AXIS = {OURS: 1, FLASHINFER: 2, FLASH_ATTENTION: 2}
SM = {"l4": 89, "rtx4090": 89, "a100": 80}


@dataclass(frozen=True)
class Recorded:
    """A run on the virtual GPU, to be predicted as it was or larger."""

    side: str
    gpu: str
    report: Path
    cubins: list[Path]
    head_axis: int
    is_in_turns: bool = False  # of ours, of which more heads begin in an order of their own: see all_in_turns()

    def grids(self, times: int) -> list[str]:
        """With so many times the heads."""
        return [",".join(map(str, grown(launch["grid"], self.head_axis, times))) for launch in self._launches()]

    def ctas(self, times: int) -> list[int]:
        return [math.prod(launch["grid"]) * times for launch in self._launches()]

    def has_whole_keys(self, least_ctas: int) -> bool:
        """One launch of so many CTAs: no plan splits the keys then, nor with more heads."""
        ctas = self.ctas(times=1)
        return len(ctas) == 1 and ctas[0] >= least_ctas

    def ordered_as(self, whole: list[int], times: int) -> Recorded:
        """Heads of ours, in the order in which the grid of so many times as many begins: tiles within heads, or heads
        within tiles.

        One head may have run in the other order: its keys fit into L2, those of all do not. It then knew its turn, and
        counts some instructions a warp too many.
        """
        (launch,) = self._launches()
        for axis in (0, 1):
            if grown(launch["grid"], axis, times) == whole:
                return replace(self, head_axis=axis, is_in_turns=axis == 0)
        if grown(tiles_in_heads(launch)["grid"], 1, times) != whole:
            raise CannotRunError(f"one head of grid {launch['grid']} does not stand for a grid of {whole}")
        reordered = self.report.with_suffix(".tiles_in_heads.jsonl")
        reordered.write_text(json.dumps(tiles_in_heads(launch)) + "\n")
        return replace(self, report=reordered, head_axis=1)

    def fewest_in_turns(self, whole: list[int], heads: int) -> int:
        """So many of the heads of a grid, begun by the length of their tiles, stand for all: where its CTAs compute
        their turn, those that run must do so too."""
        launch, ctas = self._launches()[0], math.prod(whole)
        most = launch["sms"], launch["ctas_per_sm"]
        if turns(ctas, *most) == 1:
            return 1
        return next(few for few in range(1, heads + 1) if heads % few == 0 and turns(ctas * few // heads, *most) > 1)

    def all_in_turns(self, times: int) -> Recorded:
        """With so many times the heads of what is_in_turns."""
        (launch,) = self._launches()
        report = self.report.with_suffix(f".{times}_in_turns.jsonl")
        report.write_text(json.dumps(heads_in_turns(launch, times)) + "\n")
        return replace(self, report=report, is_in_turns=False)

    def counts(self, times: int) -> tuple[int, int]:
        """Instructions with so many times the heads: in all, and on the busiest SM, one launch after the other."""
        if self.is_in_turns:
            return self.all_in_turns(times).counts(1)
        total, busiest = 0, 0
        for launch in self._launches():
            ctas = with_more_heads(instructions_by_cta(launch), launch["grid"], self.head_axis, times)
            total += sum(ctas)
            busiest += busiest_sm(ctas, launch["sms"])
        return total, busiest

    def _launches(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.report.read_text().splitlines()]


def busiest_sm(ctas: Sequence[Any], sms: int) -> Any:
    """Its share, CTAs dealt to the SMs in the order of the grid."""
    return max(sum(ctas[sm::sms]) for sm in range(sms))


def instructions_by_cta(launch: dict[str, Any]) -> list[int]:
    """In the order of the grid, of a report with paths: its rows stand for neighbours that did the same."""
    return [row[1] for row in launch["paths"]["totals_by_cta"] for _ in range(row[0])]


def grown(grid: list[int], axis: int, times: int) -> list[int]:
    return [extent * times if at == axis else extent for at, extent in enumerate(grid)]


def turns(ctas: int, sms: int, held: int) -> int:
    """As the library's forward_params() has it: rounds that go there and back."""
    rounds = (ctas - 1) // sms + 1
    return min(rounds, held) if rounds <= held + 1 else 1


def there_and_back(ctas: int, sms: int, held: int) -> list[int]:
    """Whose turn it is at each place of a grid of ours that begins with the longest tiles, and where each has its turn.

    SMs take CTAs in turn, as many as they hold; these rounds go there and back, the last of them there
    (attention/work_list.cuh).
    """
    last = turns(ctas, sms, held) - 1
    is_back = [(last - turn) % 2 == 1 for turn in range(last)] + [False] * (ctas // sms + 1)
    return [place + (sms - 1 - 2 * (place % sms)) * is_back[place // sms] for place in range(ctas)]


def turns_of(launch: dict[str, Any], times: int = 1) -> list[int]:
    """Of so many times the heads."""
    return there_and_back(math.prod(launch["grid"]) * times, launch["sms"], launch["ctas_per_sm"])


def totals_by_turn(launch: dict[str, Any]) -> list[list[int]]:
    """What every CTA did, the longest tiles first."""
    totals = [row[1:] for row in launch["paths"]["totals_by_cta"] for _ in range(row[0])]
    return [totals[place] for place in turns_of(launch)]


def heads_in_turns(launch: dict[str, Any], times: int) -> dict[str, Any]:
    """The report of a grid (heads, splits, tiles) as if it had been that of so many times the heads."""
    one = totals_by_turn(launch)
    its_turns, turns = turns_of(launch), turns_of(launch, times)
    totals = [[1, *one[turn // times]] for turn in turns]
    ctas = [{**cta, "cta": turns[its_turns[cta["cta"]] * times]} for cta in launch["paths"]["ctas"]]
    paths = {**launch["paths"], "totals_by_cta": totals, "ctas": ctas}
    return {**launch, "grid": grown(launch["grid"], 0, times), "paths": paths}


def tiles_in_heads(launch: dict[str, Any]) -> dict[str, Any]:
    """The report of a head with grid (1, splits, tiles) as if it had been (tiles, 1, splits)."""
    _, splits, tiles = launch["grid"]
    one = totals_by_turn(launch)
    turns = turns_of(launch)
    totals = [[1, *one[tile * splits + split]] for split in range(splits) for tile in range(tiles)]
    ctas = [
        {**cta, "cta": turns[cta["cta"]] % splits * tiles + turns[cta["cta"]] // splits}
        for cta in launch["paths"]["ctas"]
    ]
    paths = {**launch["paths"], "totals_by_cta": totals, "ctas": ctas}
    return {**launch, "grid": [tiles, 1, splits], "paths": paths}


def with_more_heads(ctas: list[int], grid: list[int], axis: int, times: int) -> list[int]:
    """What each CTA of a grid does in which heads that do the same follow along the axis."""
    run = math.prod(grid[: axis + 1])  # CTAs side by side of one pass over the axis
    return [one for first in range(0, len(ctas), run) for one in ctas[first : first + run] * times]


class Predictor:
    def __init__(self, build_tree: Path, nvdisasm: str) -> None:
        self.host = build_tree / "tests" / "peers" / "peers_host"
        self.driver = build_tree / "vgpu" / "libcuda.so.1"
        self.cudadent = build_tree / "bin" / "cudadent"
        self.ours = build_tree / "bench" / "peers" / "flashmoe_peer.so"
        self.images = build_tree / "src" / "kernels" / "cuda" / "images"
        for needed in (self.host, self.driver, self.cudadent, self.ours):
            if not needed.exists():
                raise CannotRunError(f"{needed} is not there: build peers_host, vgpu, cudadent and flashmoe_peer")
        self.environment = {**os.environ, "NVDISASM": nvdisasm}
        self._assembled = tempfile.TemporaryDirectory()  # our cubins; an instance serves many problems

    def predict(self, side: str, problem: Problem, gpu: str = DEVICE) -> Predicted:
        with tempfile.TemporaryDirectory() as scratch:
            return self.predict_recorded(self.record(side, problem, gpu, Path(scratch), judged=True))

    def record(
        self, side: str, problem: Problem, gpu: str, scratch: Path, *, plan: str = "", split: bool = False,
        judged: bool = False,
    ) -> Recorded:  # fmt: skip
        """`plan`: of ours, as FLASHMOE_PEER_PLAN; `split`: FlashAttention-2's kernels for split keys."""
        instance = "" if side == OURS else self._instance(side, problem, SM[gpu], split)
        plugin = self.ours if side == OURS else build(instance) / "peer.so"
        report = scratch / "report.jsonl"
        settings = {"VGPU_DEVICE": gpu, "VGPU_PATHS": "1", "FLASHMOE_PEER_PLAN": plan}
        if not launches_of(self.host, self.driver, plugin, problem, report, judged, **settings):
            raise CannotRunError(f"{side} is wrong on {problem.name}")
        kernels = {json.loads(line)["kernel"] for line in report.read_text().splitlines()}
        if side == OURS:
            return Recorded(side, gpu, report, self._own_cubins(kernels, SM[gpu]), HEAD_AXIS[side])
        return Recorded(side, gpu, report, [build(instance) / "kernel.cubin"], HEAD_AXIS[side])

    def own_launch(self, problem: Problem, gpu: str, scratch: Path, plan: str = "") -> tuple[str, list[int]]:
        settings = {"VGPU_DEVICE": gpu, "FLASHMOE_PEER_PLAN": plan}
        return first_launch(self.host, self.driver, self.ours, problem, scratch, **settings)

    def predict_recorded(self, run: Recorded, times: int = 1) -> Predicted:
        if run.is_in_turns:
            return self.predict_recorded(run.all_in_turns(times))
        words = ["--report", str(run.report), "--device", f"virtual:{run.gpu}", "--cubin", *map(str, run.cubins)]
        if times > 1:
            words += ["--grid", *run.grids(times)]
        total, busiest = run.counts(times)
        return replace(from_answer(run.side, self._ask(words)), instructions=total, busiest_sm=busiest)

    def predict_project(self, project: Path, workload: str, gpu: str = DEVICE) -> Predicted:
        words = [str(project), "--workload", workload, "--device", f"virtual:{gpu}"]
        return from_answer(JOURNEY, self._ask(words))

    @staticmethod
    def _instance(side: str, problem: Problem, sm: int, split: bool) -> str:
        return flashinfer_instance(problem, sm) if side == FLASHINFER else flash_attention_instance(problem, sm, split)

    def _own_cubins(self, kernels: set[str], sm: int) -> list[Path]:
        # The library ships PTX without lines, and that is what ran: its own text gives the lines to the SASS.
        cubins = [Path(self._assembled.name) / f"{name}.sm_{sm}.cubin" for name in sorted(kernels)]
        for name, cubin in zip(sorted(kernels), cubins, strict=True):
            if not cubin.exists():
                ptxas, text = Path(find_nvcc()).with_name("ptxas"), self.images / f"{name}.ptx"
                command = [str(ptxas), "-O3", "-lineinfo", f"-arch=sm_{sm}", str(text), "-o", str(cubin)]
                subprocess.run(command, check=True)
        return cubins

    def _ask(self, words: list[str]) -> dict[str, Any]:
        command = [str(self.cudadent), "predict", *words, "--json", "--quiet"]
        done = subprocess.run(command, env=self.environment, capture_output=True, text=True, check=False)
        answer: dict[str, Any] = json.loads(done.stdout or "{}")
        if "launches" not in answer:
            raise CannotRunError(f"{' '.join(command)} ended with {done.returncode}: {done.stdout}{done.stderr}")
        return answer


def table(rows: list[tuple[Problem, Predicted]]) -> str:
    lines = ["| problem |  | CTAs | predicted cycles | us at boost | limited by |", "|" + " --- |" * 6]
    for problem, row in rows:
        cycles = f"{row.cycles:.0f} | {row.microseconds:.2f}" if row.is_predicted else f"{row.refusals[0]} |"
        ctas = " + ".join(map(str, row.ctas))
        lines.append(f"| {problem.name} | {row.side} | {ctas} | {cycles} | {row.limiter} |")
    return "\n".join(lines)


def is_at_most_the_peers(rows: list[Predicted]) -> bool:
    """Whether the journey's row takes no more than each peer's; a row that is not predicted decides nothing."""
    of_side = {row.side: row for row in rows if row.is_predicted}
    if JOURNEY not in of_side or not all(peer in of_side for peer in PEERS):
        return False
    return all(of_side[JOURNEY].cycles <= of_side[peer].cycles for peer in PEERS)


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=Path, default=ROOT / "build" / "release")
    parser.add_argument("--nvdisasm")
    parser.add_argument("--journey", type=Path)
    parser.add_argument("--check", action="store_true")
    parsed = parser.parse_args()
    if parsed.check and not parsed.journey:
        parser.error("--check judges the --journey")
    return parsed


def main() -> int:
    options = parse()
    try:
        predictor = Predictor(options.build.absolute(), find_nvdisasm(options.nvdisasm))
        rows = [(problem, predictor.predict(side, problem)) for problem in SMALL for side in SIDES]
        if options.journey:  # D=64
            rows.insert(len(SIDES), (SMALL[0], predictor.predict_project(options.journey, "small")))
    except (RuntimeError, OSError, subprocess.CalledProcessError, SystemExit) as error:
        print(f"predicted: {error}", file=sys.stderr)
        return 3
    print(table(rows))
    if options.check and not is_at_most_the_peers([row for problem, row in rows if problem == SMALL[0]]):
        print("predicted: the journey's end takes longer than a peer", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
