"""Our kernels against the better of FlashInfer's and FlashAttention-2's, predicted, as a map over sizes.

predict_map.py [--build DIR] [--nvdisasm PATH] [--gpus l4,a100,rtx4090] [--lengths 32,...] [--heads 1,...]
               [--head-dims 64,128] [--mask none|causal|both] [--decode] [--side NAME]... [--missing]
               [--count-only] [--affine-from LENGTH] [--write-docs] [--draw]

Whole kernels with all their launches, fp16, S queries and keys, B x H heads, at the boost clock. Every length runs on
the virtual GPU, with one head (ours, with the plan of all heads forced on it), or with as few as a peer's own plan, or
the turns of our CTAs, need to be those of all heads; the grid of all heads is counted and predicted from it. The order
in which tiles of ours with a mask begin is a matter of all heads: a launch of all of them, stopped at once, tells it.
Nothing is measured.

--build DIR       a build tree with peers_host, vgpu, flashmoe_peer and cudadent    (default: build/release)
--side NAME       ours, FlashInfer or FlashAttention-2, may be given again: only these anew, as after a change of ours
--decode          one query of 4 heads a key head, D=128; lengths and heads are those of the keys
--missing         leave out what the table has, with its instructions
--count-only      instructions without a prediction, in half the time; a peer's prediction that the table has stays
--affine-from N   with --count-only: a peer from this length on where it is a matter of arithmetic (affine.py)
--write-docs      docs/predict-map.md, .svg and .csv and the lead of docs/kernel-comparison.md, from all that is in that
                  .csv and what was predicted now
--draw            only the pages and the picture again, from docs/predict-map.csv

Exit code 0: every cell has its figures; 3: it could not run.
"""

from __future__ import annotations

import argparse
import csv
import itertools
import math
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path

import affine
from comparison import FLASH_ATTENTION, OURS, SIDES
from executed import CannotRunError
from map_page import page
from map_picture import picture
from nvdisasm import find_nvdisasm
from peer_builds import ROOT
from predicted import SM, Predicted, Predictor, Recorded, busiest_sm
from problems import Problem
from whole_calls import lead, with_lead

DOCS = ROOT / "docs"
SM_COUNT = {"l4": 58, "a100": 108, "rtx4090": 128}
LENGTHS = [32 * 2**i for i in range(9)]
HEADS = [2**i for i in range(7)]
PREFILL, DECODE = "prefill", "decode"
DECODE_LENGTHS, DECODE_HEADS, DECODE_GROUP = [1024, 4096, 16384], [8, 32, 128], 4
# What docs/kernel-comparison.md wants to tell of, on the GPU on which instructions are counted.
PAGE_HEADS = [1, 8, 16, 64]
PAGE = [
    *itertools.product([PREFILL], [64, 128, 256], [False, True], LENGTHS, PAGE_HEADS),
    *itertools.product([DECODE], [128], [False], DECODE_LENGTHS, DECODE_HEADS),
]
Key = tuple[str, str, int, int, int, bool, str]  # of a row
RUN, AFFINE = "run", "affine"
ONLY_COUNTED = "only its instructions were counted"
NEVER_VALIDATED_US = 10  # below it no published time is the kernel's alone


@dataclass(frozen=True)
class Row:
    """One kernel on one problem."""

    gpu: str
    length: int
    heads: int
    head_dim: int
    causal: bool
    side: str
    cycles: float
    microseconds: float
    ctas: int  # of the longest launch
    launches: int
    refusal: str  # empty: predicted
    doubts: int
    kind: str = PREFILL  # DECODE: one query, `length` keys, `heads` of keys
    heads_run: int | None = None  # the others do the same; None: nobody wrote it down, like what follows
    instructions: int | None = None  # PTX, executed by warps in all launches
    busiest_sm: int | None = None  # of them, CTAs in the order of the grid, one launch after the other
    how: str = RUN  # AFFINE: no head of this length ran, shorter ones did

    @property
    def is_validated(self) -> bool:
        """Like the points that the model was held against: a kernel alone, every SM at work, no doubt."""
        full = self.ctas >= SM_COUNT[self.gpu]
        return not self.refusal and self.doubts == 0 and self.microseconds >= NEVER_VALIDATED_US and full

    @property
    def key(self) -> Key:
        return (self.kind, self.gpu, self.length, self.heads, self.head_dim, self.causal, self.side)


def row_of(gpu: str, problem: Problem, heads: int, heads_run: int, found: Predicted) -> Row:
    return Row(
        gpu, problem.len_kv, heads, problem.head_dim, problem.causal, found.side, round(found.cycles, 1),
        round(found.microseconds, 3), found.main_ctas, len(found.ctas), found.refusals[0] if found.refusals else "",
        len(found.doubts), DECODE if problem.is_decode else PREFILL, heads_run, found.instructions, found.busiest_sm,
    )  # fmt: skip


def of_heads(problem: Problem, heads: int) -> Problem:
    """Of one key head, and so many queries' as share it."""
    return problem._replace(heads_q=heads * problem.heads_q, heads_kv=heads)


def only_counted(side: str, ctas: list[int], instructions: int, busiest: int) -> Predicted:
    return Predicted(side, [], ctas, max(ctas), 0.0, 0.0, "", [], [ONLY_COUNTED], instructions, busiest)


class Counter(Predictor):
    """Runs like a predictor, and asks for no prediction."""

    def predict_recorded(self, run: Recorded, times: int = 1) -> Predicted:
        return only_counted(run.side, run.ctas(times), *run.counts(times))

    def _own_cubins(self, kernels: set[str], sm: int) -> list[Path]:
        return []


def with_known_prediction(row: Row, known: Row | None) -> Row:
    """A peer's does not change; ours may."""
    if row.refusal != ONLY_COUNTED or row.side == OURS or known is None:
        return row
    return replace(
        known, heads_run=row.heads_run, instructions=row.instructions, busiest_sm=row.busiest_sm, how=row.how
    )


class Mapper:
    def __init__(self, predictor: Predictor, gpu: str, shorter: Sequence[Row] = ()) -> None:
        """`shorter`: rows of the peers from which longer ones follow."""
        self.predictor = predictor
        self.gpu = gpu
        self.shorter = shorter

    def ours(self, problem: Problem, heads: Iterable[int], scratch: Path) -> Iterator[Row]:
        runs: dict[str, Recorded] = {}  # many numbers of heads have the same plan
        beyond_l2: dict[str, Recorded] = {}  # ordered head after head, and so with more heads
        for count in heads:
            whole = of_heads(problem, count)
            plan = f"heads={whole.heads_q}"
            launch = str(self.predictor.own_launch(problem, self.gpu, self._folder(scratch), plan))
            if launch not in runs:
                runs[launch] = self._run(OURS, problem, scratch, plan=plan)
            run, ran = runs[launch], 1
            if problem.causal and count > 1:
                if launch not in beyond_l2:
                    _, grid = self.predictor.own_launch(whole, self.gpu, self._folder(scratch))
                    run = run.ordered_as(grid, count)
                    if run.is_in_turns:
                        ran = run.fewest_in_turns(grid, count)
                    if ran > 1:
                        some = self._run(OURS, of_heads(problem, ran), scratch, plan=plan)
                        run = some.ordered_as(grid, count // ran)
                run = beyond_l2.get(launch, run)
                if run.head_axis == 1:
                    beyond_l2[launch] = run
            yield row_of(self.gpu, problem, count, ran, self.predictor.predict_recorded(run, count // ran))

    def peer(self, side: str, problem: Problem, heads: Iterable[int], scratch: Path) -> Iterator[Row]:
        """The run of fewest heads whose keys no plan would split with more heads either stands for those."""
        # FlashAttention-2's plan has 2 CTAs for an SM in mind; FlashInfer's splits less where there are more. A tile of
        # theirs has 64 rows or more, or all there are.
        least_ctas, most_tiles = 2 * SM_COUNT[self.gpu], -(-problem.len_q * problem.heads_q // 64)
        least = 2 ** math.ceil(math.log2(max(least_ctas / most_tiles, 1)))
        ran, stands_for_more = 0, False
        for count in heads:
            if longer := self.longer(side, problem, count, least_ctas):
                yield longer
                continue
            while ran < count and not stands_for_more:
                ran = min(max(2 * ran, least), count)
                run = self._peer_run(side, of_heads(problem, ran), scratch)
                stands_for_more = run.has_whole_keys(least_ctas)
            yield row_of(self.gpu, problem, count, ran, self.predictor.predict_recorded(run, count // ran))

    def longer(self, side: str, problem: Problem, heads: int, least_ctas: int) -> Row | None:
        alike = [row for row in self.shorter if (row.gpu, row.side, row.head_dim, row.causal, row.heads) ==
                 (self.gpu, side, problem.head_dim, problem.causal, PAGE_HEADS[-1])]  # fmt: skip
        rows = sorted((row for row in alike if row.length in affine.LENGTHS), key=lambda row: row.length)
        ctas = affine.lengthened(rows, problem.len_kv, heads, SM_COUNT[self.gpu])
        if ctas is None or len(ctas) < least_ctas:  # fewer: keys may be split
            return None
        found = only_counted(side, [len(ctas)], sum(ctas), busiest_sm(ctas, SM_COUNT[self.gpu]))
        return replace(row_of(self.gpu, problem, heads, 0, found), how=AFFINE)

    def has_counted(self, side: str, problem: Problem, heads: Iterable[int], rows: Iterable[Row]) -> bool:
        kind = DECODE if problem.is_decode else PREFILL
        there = {row.key for row in rows if row.instructions is not None and self.is_enough(row)}
        key = (problem.len_kv, problem.head_dim, problem.causal)
        return all((kind, self.gpu, key[0], count, *key[1:], side) in there for count in heads)

    def is_enough(self, row: Row) -> bool:
        return row.refusal != ONLY_COUNTED or isinstance(self.predictor, Counter)

    def _peer_run(self, side: str, problem: Problem, scratch: Path) -> Recorded:
        try:
            return self._run(side, problem, scratch)
        except CannotRunError as error:
            if side != FLASH_ATTENTION or "Split fixed" not in str(error):
                raise
        return self._run(side, problem, scratch, split=True)

    def _run(self, side: str, problem: Problem, scratch: Path, plan: str = "", split: bool = False) -> Recorded:
        return self.predictor.record(side, problem, self.gpu, self._folder(scratch), plan=plan, split=split)

    @staticmethod
    def _folder(scratch: Path) -> Path:
        return Path(tempfile.mkdtemp(dir=scratch))

    def rows(self, problem: Problem, heads: Iterable[int], sides: Iterable[str] = SIDES) -> Iterator[Row]:
        """`problem` is of one key head."""
        for side in sides:
            with tempfile.TemporaryDirectory() as scratch:
                if side == OURS:
                    yield from self.ours(problem, heads, Path(scratch))
                else:
                    yield from self.peer(side, problem, heads, Path(scratch))


def count_or_none(text: str) -> int | None:
    return int(text) if text else None


def read(file: Path) -> list[Row]:
    if not file.exists():
        return []
    with file.open(newline="") as text:
        return [
            Row(
                line["gpu"], int(line["length"]), int(line["heads"]), int(line["head_dim"]), line["causal"] == "True",
                line["side"], float(line["cycles"]), float(line["microseconds"]), int(line["ctas"]),
                int(line["launches"]), line["refusal"], int(line["doubts"]), line["kind"],
                count_or_none(line["heads_run"]), count_or_none(line["instructions"]),
                count_or_none(line["busiest_sm"]), line.get("how", RUN),
            )
            for line in csv.DictReader(text)
        ]  # fmt: skip


def write(file: Path, rows: Iterable[Row]) -> None:
    names = [one.name for one in fields(Row)]
    whole = file.with_name(f"{file.name}.{os.getpid()}")  # nobody reads half of it
    with whole.open("w", newline="") as text:
        out = csv.writer(text, lineterminator="\n")
        out.writerow(names)
        out.writerows([[getattr(row, name) for name in names] for row in sorted(rows, key=lambda row: row.key)])
    whole.replace(file)


def numbers(text: str) -> list[int]:
    return [int(word) for word in text.split(",")]


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=Path, default=ROOT / "build" / "release")
    parser.add_argument("--nvdisasm")
    parser.add_argument("--gpus", default=",".join(SM_COUNT))
    parser.add_argument("--lengths", type=numbers, default=LENGTHS)
    parser.add_argument("--heads", type=numbers, default=HEADS)
    parser.add_argument("--head-dims", type=numbers, default=[64, 128])
    parser.add_argument("--mask", choices=("none", "causal", "both"), default="both")
    parser.add_argument("--side", action="append", choices=SIDES)
    parser.add_argument("--decode", action="store_true")
    parser.add_argument("--missing", action="store_true")
    parser.add_argument("--count-only", action="store_true")
    parser.add_argument("--affine-from", type=int)
    parser.add_argument("--write-docs", action="store_true")
    parser.add_argument("--draw", action="store_true")
    parsed = parser.parse_args()
    if unknown := set(parsed.gpus.split(",")) - SM.keys():
        parser.error(f"no peers are built for {', '.join(unknown)}")
    if parsed.affine_from and not parsed.count_only:
        parser.error("--affine-from counts, and predicts nothing: it goes with --count-only")
    return parsed


def problems(options: argparse.Namespace) -> Iterator[Problem]:
    """Each of one key head, the short ones first."""
    if options.decode:
        for length in options.lengths:
            yield Problem(DECODE_GROUP, 1, 1, length, 128)
        return
    for length in options.lengths:
        for head_dim in options.head_dims:
            for causal in {"none": [False], "causal": [True], "both": [False, True]}[options.mask]:
                yield Problem(1, 1, length, length, head_dim, causal)


def publish(rows: list[Row]) -> None:
    write(DOCS / "predict-map.csv", rows)
    prefill = [row for row in rows if row.kind == PREFILL]
    (DOCS / "predict-map.svg").write_text(picture(prefill))
    (DOCS / "predict-map.md").write_text(page(prefill))
    comparison = DOCS / "kernel-comparison.md"
    comparison.write_text(with_lead(comparison.read_text(), lead(rows, PAGE)))


def main() -> int:
    options = parse()
    known = {row.key: row for row in read(DOCS / "predict-map.csv")}
    if options.draw:
        publish(list(known.values()))
        return 0
    made: dict[Key, Row] = {}
    try:
        kind = Counter if options.count_only else Predictor
        predictor = kind(options.build.absolute(), find_nvdisasm(options.nvdisasm))
        for gpu, problem in itertools.product(options.gpus.split(","), problems(options)):
            is_affine = options.affine_from and problem.len_q >= options.affine_from
            mapper = Mapper(predictor, gpu, list(known.values()) if is_affine else [])
            for side in options.side or SIDES:
                if options.missing and mapper.has_counted(side, problem, options.heads, known.values()):
                    continue
                for found in mapper.rows(problem, options.heads, [side]):
                    row = with_known_prediction(found, known.get(found.key))
                    known[row.key] = made[row.key] = row
                    print(*(getattr(row, one.name) for one in fields(row)), flush=True)
            if options.write_docs:  # others may write other rows meanwhile
                known = {row.key: row for row in read(DOCS / "predict-map.csv")} | made
                publish(list(known.values()))
    except (RuntimeError, OSError, subprocess.CalledProcessError, SystemExit) as error:
        print(f"predict_map: {error}", file=sys.stderr)
        return 3
    return 0


if __name__ == "__main__":
    sys.exit(main())
