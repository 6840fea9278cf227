"""Figures for the planner, made offline: what every plan that it could choose would take, predicted.

tuning_data.py --gpu l4 --shape HEADS,S_Q,S_KV,D[,causal] ... [--build DIR] [--nvdisasm PATH] [--out FILE]

For each shape every query tile that the library has a kernel for, with the keys split in 1, 2, 3, 4 and the numbers
that fill the machine once to four times. One head runs on the virtual GPU with the plan forced on it; the grid of all
heads is predicted. A line of JSON for each: the plan, whether the planner chooses it today, cycles, doubts, and the run
it cites (SHA-256 of PTX and of the cubin whose SASS was read, the commit of this tree, the version of the model).
Nothing is measured, and nothing here changes the planner.

Exit code 0: every shape has a plan that is predicted; 3: it could not run.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from comparison import OURS
from executed import CannotRunError
from nvdisasm import find_nvdisasm
from peer_builds import ROOT
from predict_map import SM_COUNT, of_heads
from predicted import Predicted, Predictor, Recorded
from problems import Problem

Q_TILES = (16, 32, 64, 128)
MOST_SPLITS = 1024
LEAST_KEYS = 16  # of a split: fewer than a kernel's smallest block are none


def candidate_splits(problem: Problem, heads: int, q_tile: int, sms: int) -> list[int]:
    tiles = heads * -(-problem.len_q // q_tile)
    wanted = {1, 2, 3, 4, *(waves * sms // tiles for waves in range(1, 5))}
    most = min(MOST_SPLITS, max(1, problem.len_kv // LEAST_KEYS))
    return sorted(splits for splits in wanted if 1 <= splits <= most)


def digest(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()


def commit() -> str:
    """Of this tree; with a mark where it has changed since."""

    def git(*words: str) -> str:
        return subprocess.run(["git", "-C", str(ROOT), *words], capture_output=True, text=True, check=True).stdout

    return git("rev-parse", "HEAD").strip() + ("+" if git("status", "--porcelain", "--untracked-files=no") else "")


def model_version() -> int:
    return int(json.loads((ROOT / "tests" / "predict" / "frozen.json").read_text())["version"])


class Tuner:
    def __init__(self, predictor: Predictor, gpu: str) -> None:
        self.predictor = predictor
        self.gpu = gpu
        self.cited = {"commit": commit(), "model": model_version()}

    def entries(self, problem: Problem, heads: int) -> Iterator[dict[str, Any]]:
        """`problem`: of one head."""
        chosen = self._grid(f"heads={heads}", problem)
        for q_tile in Q_TILES:
            for splits in candidate_splits(problem, heads, q_tile, SM_COUNT[self.gpu]):
                with tempfile.TemporaryDirectory() as scratch:
                    try:
                        plan = f"q_tile={q_tile},kv_splits={splits}"
                        run = self.predictor.record(OURS, problem, self.gpu, Path(scratch), plan=plan)
                    except CannotRunError as error:
                        if "no kernel of this library" not in str(error):
                            raise
                        break  # no such tile for this head size
                    ordered = run
                    if problem.causal and heads > 1:
                        whole = of_heads(problem, heads)
                        _, grid = self.predictor.own_launch(whole, self.gpu, Path(scratch), plan)
                        ordered = run.ordered_as(grid, heads)  # some of its CTAs may not have computed their turn
                    found = self.predictor.predict_recorded(ordered, heads)
                    is_chosen = (found.kernels, self._ran(run)) == chosen
                    yield self._entry(problem, heads, {"q_tile": q_tile, "kv_splits": splits}, is_chosen, found, run)

    def _grid(self, plan: str, problem: Problem) -> tuple[list[str], list[list[int]]]:
        with tempfile.TemporaryDirectory() as scratch:
            run = self.predictor.record(OURS, problem, self.gpu, Path(scratch), plan=plan)
            return [json.loads(line)["kernel"] for line in run.report.read_text().splitlines()], self._ran(run)

    @staticmethod
    def _ran(run: Recorded) -> list[list[int]]:
        return [json.loads(line)["grid"] for line in run.report.read_text().splitlines()]

    def _entry(
        self, problem: Problem, heads: int, plan: dict[str, int], is_chosen: bool, found: Predicted, run: Recorded
    ) -> dict[str, Any]:
        texts = [self.predictor.images / f"{kernel}.ptx" for kernel in sorted(set(found.kernels))]
        return {
            "gpu": self.gpu,
            "problem": {
                "heads": heads, "q_len": problem.len_q, "kv_len": problem.len_kv, "head_dim": problem.head_dim,
                "causal": problem.causal,
            },
            "plan": {**plan, "kernels": found.kernels, "ctas": found.ctas},
            "chosen_today": is_chosen,
            "predicted": found.is_predicted,
            "cycles": found.cycles,
            "us_at_boost": found.microseconds,
            "limiter": found.limiter,
            "doubts": found.doubts,
            "refusals": found.refusals,
            "run": {
                **self.cited,
                "ptx_sha256": [digest(file) for file in texts],
                "cubin_sha256": [digest(file) for file in run.cubins],
            },
        }  # fmt: skip


def shape(text: str) -> tuple[Problem, int]:
    words = text.split(",")
    if len(words) not in (4, 5) or (len(words) == 5 and words[4] != "causal"):
        raise argparse.ArgumentTypeError(f"{text} is not HEADS,S_Q,S_KV,D[,causal]")
    heads, len_q, len_kv, head_dim = (int(word) for word in words[:4])
    return Problem(1, 1, len_q, len_kv, head_dim, len(words) == 5), heads


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gpu", choices=sorted(SM_COUNT), required=True)
    parser.add_argument("--shape", type=shape, action="append", required=True)
    parser.add_argument("--build", type=Path, default=ROOT / "build" / "release")
    parser.add_argument("--nvdisasm")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    out = options.out.open("w") if options.out else sys.stdout
    try:
        tuner = Tuner(Predictor(options.build.absolute(), find_nvdisasm(options.nvdisasm)), options.gpu)
        for problem, heads in options.shape:
            entries = 0
            for entry in tuner.entries(problem, heads):
                print(json.dumps(entry), file=out, flush=True)
                entries += entry["predicted"]
            if entries == 0:
                raise CannotRunError(f"no plan for {heads} heads, {problem.name} is predicted")
    except (RuntimeError, OSError, subprocess.CalledProcessError, SystemExit) as error:
        print(f"tuning_data: {error}", file=sys.stderr)
        return 3
    finally:
        if options.out:
            out.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
