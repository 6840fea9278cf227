"""What was learned makes a loop shorter that tries one candidate at a time, as it does on a card: patterns of 20
recorded runs, of other cards and from other starts, against the same loop without them. On a virtual GPU batches are
counted before one is tried, and nearly all that is tried is kept: there a prior has little to save (docs/agents.md).

    cudadent_patterns_test.py CUDADENT EXAMPLE [--runs N]     exit 0 when all hold
"""

from __future__ import annotations

import argparse
import itertools
import os
import tempfile
from pathlib import Path

from cudadent_optimize_test import KERNEL
from cudadent_shards_test import answer, clone_of
from cudadent_try_test import Repository, fail

JUDGED = "virtual:l4"
TEACHERS = [f"virtual:{name}" for name in ("l40s", "rtx4090", "a10", "a100", "h100")]
STARTS = [(1, 32, 16), (1, 64, 8), (2, 32, 16), (1, 128, 4)]
MOST_OF_BEFORE = 2 / 3  # of the iterations
AS_GOOD = 1.1  # times the cycles: predictions that are nearer to each other decide nothing
TUNABLES = """
[tunables]
width = { choices = [1, 2, 4], phase = "memory" }
lanes = { choices = [32, 64, 128], default = 32, phase = "tuning" }
rounds = { choices = [1, 2, 4, 8, 16], default = 16, phase = "tuning" }
"""
INDEX = "const std::int64_t i = "
# Work that no compiler takes away, and that the search can: it adds a zero.
WORK = """float zero = 0;
  for (int r = 0; r < 16 * ROUNDS; ++r) asm volatile("fma.rn.f32 %0, %0, %0, %0;" : "+f"(zero));
  """


def make_project(repository: Repository) -> None:
    kernel = KERNEL.replace(INDEX, WORK + INDEX)
    for plain in ("x.of[j] + y.of[j]", "a[j] + b[j]"):
        kernel = kernel.replace(plain, f"{plain} + zero")
    (repository.project / "kernel.cu").write_text(kernel)
    file = repository.project / "cudadent.toml"
    text = file.read_text()
    for before, after in (
        ("ceil_div(n, 4 * 256)", "ceil_div(n, width * lanes)"),
        ("block = 256", 'block = "lanes"'),
        ("target = { n = 100000 }", "target = { n = 16384 }"),
    ):
        if before not in text:
            fail(f"the example has no {before}")
        text = text.replace(before, after)
    file.write_text(text + TUNABLES)
    repository.commit()


def optimized(cudadent: str, project: Path, device: str, *more: str) -> dict:
    words = ["optimize", "--device", device, "--iterations", "20", "--seed", "1", "--quiet", *more]
    said = answer(cudadent, project, *words, may_wait=True)  # 3: nothing was kept
    way = "; ".join(one["hypothesis"].split(":")[0] for one in said["iterations"])
    figures = f"{len(said['iterations'])} iterations, {said['predicted_at_end']} cycles"
    print(f"{device} {' '.join(more)}: {figures}: {way}", flush=True)
    return said


def teach(cudadent: str, repository: Repository, runs: int, file: Path) -> None:
    for start, device in itertools.islice(itertools.product(STARTS, TEACHERS), runs):
        point = "width = {}\nlanes = {}\nrounds = {}\n".format(*start)
        (repository.project / "point.toml").write_text(point)
        if repository.git("status", "--porcelain"):
            repository.commit()
        optimized(cudadent, repository.project, device)
    answer(cudadent, repository.project, "patterns", "--learn")
    answer(cudadent, repository.project, "patterns", "--export", str(file))


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("cudadent")
    parser.add_argument("example")
    parser.add_argument("--runs", type=int, default=len(STARTS) * len(TEACHERS))
    arguments = parser.parse_args()
    cudadent = str(Path(arguments.cudadent).resolve())
    with tempfile.TemporaryDirectory(prefix="cudadent_patterns_") as name:
        os.environ["XDG_STATE_HOME"] = str(Path(name) / "state")
        repository = Repository(Path(name), cudadent, arguments.example)
        make_project(repository)
        judged = clone_of(repository, "judged")  # has nothing of what the teachers do but the file
        without = optimized(cudadent, judged, JUDGED, "--batch", "1")
        file = Path(name) / "patterns.json"
        teach(cudadent, repository, arguments.runs, file)
        answer(cudadent, judged, "patterns", "--import", str(file))
        taught = optimized(cudadent, judged, JUDGED, "--batch", "1")
    before, after = len(without["iterations"]), len(taught["iterations"])
    print(f"{before} iterations without what {arguments.runs} runs taught, {after} with it")
    if after > MOST_OF_BEFORE * before:
        fail(f"{after} of {before} iterations: not a third fewer")
    if taught["predicted_at_end"] > AS_GOOD * without["predicted_at_end"]:
        fail(f"shorter and worse: {taught['predicted_at_end']} cycles, {without['predicted_at_end']} without")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
