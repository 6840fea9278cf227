"""`cudadent optimize`: from a slow point to a better one, a change at a time, with the user's tree as it was; killed at
random moments it goes on with what was decided.

    cudadent_optimize_test.py CUDADENT EXAMPLE [KILLS]     exit 0 when all hold
"""

from __future__ import annotations

import json
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from cudadent_kill_test import GONE_WITHIN_SECONDS
from cudadent_try_test import Repository, fail

TUNABLES = """
[tunables]
width = { choices = [1, 2, 4], phase = "memory" }        # elements that a thread loads at once
threads = { choices = [64, 128, 256], default = 64, phase = "tuning" }
"""
KERNEL = """
#include <cstdint>

struct alignas(4 * WIDTH) Pack {
  float of[WIDTH];
};

extern "C" __global__ void vector_add_kernel(const float* __restrict__ a, const float* __restrict__ b,
                                             float* __restrict__ c, std::int64_t n) {
  const std::int64_t i = WIDTH * (static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x);
  if (i + WIDTH <= n) {
    const Pack x = *reinterpret_cast<const Pack*>(a + i);
    const Pack y = *reinterpret_cast<const Pack*>(b + i);
    Pack z;
    for (int j = 0; j < WIDTH; ++j) z.of[j] = x.of[j] + y.of[j];
    *reinterpret_cast<Pack*>(c + i) = z;
  } else {
    for (std::int64_t j = i; j < n; ++j) c[j] = a[j] + b[j];
  }
}
"""


def make_tunable(repository: Repository) -> None:
    project = repository.project
    (project / "kernel.cu").write_text(KERNEL)
    configuration = (project / "cudadent.toml").read_text()
    configuration = configuration.replace("ceil_div(n, 4 * 256)", "ceil_div(n, width * threads)")
    configuration = configuration.replace("block = 256", 'block = "threads"')
    (project / "cudadent.toml").write_text(configuration + TUNABLES)
    repository.commit()


def command(repository: Repository, run: str) -> list[str]:
    words = [repository.cudadent, "optimize", "--device", "virtual:l4", "--iterations", "4", "--run", run]
    return [*words, "--json", "--quiet"]


def finished(repository: Repository, run: str) -> dict:
    ran = subprocess.run(command(repository, run), cwd=repository.project, capture_output=True, text=True, timeout=900)
    if ran.returncode not in (0, 3):
        fail(f"optimize ended with {ran.returncode}: {ran.stdout}\n{ran.stderr}")
    return json.loads(ran.stdout)


def check_loop(repository: Repository) -> dict:
    before = repository.state()
    said = finished(repository, "whole")
    if repository.state() != before:
        fail("optimize changed the repository")
    kept = [one for one in said["iterations"] if one["advanced"]]
    if not kept or said["verdict"] != "IMPROVED" or said["cycles_at_end"] >= said["cycles_at_start"]:
        fail(f"nothing was kept: {json.dumps(said)[:3000]}")
    for one in said["iterations"]:
        if not one["hypothesis"] or not one["ground"] or one["verdict"] == "KEEP":
            fail(f"an iteration without hypothesis or ground, or a KEEP without a clock: {one}")
    point = repository.git("show", f"{said['end']}:./point.toml")
    if "width = 4" not in point:
        fail(f"the widest loads were not found: {point}")
    tried = len(said["iterations"])
    print(f"{tried} iterations, {len(kept)} kept, {said['seconds']:.0f} s; stopped: {said['stopped']}")
    return said


def left_behind(repository: Repository) -> list[str]:
    """Processes that still work in the project."""
    found = []
    for process in Path("/proc").iterdir():
        if not process.name.isdigit():
            continue
        try:
            words = (process / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        if str(repository.project) in words:
            found.append(words)
    return found


def records_of(repository: Repository, run: str, kind: str) -> list[dict]:
    listed = subprocess.run(
        [repository.cudadent, "journal", "--json", "--kind", kind],
        cwd=repository.project, capture_output=True, text=True, check=True,
    )
    answer = json.loads(listed.stdout)
    records = answer["records"] if isinstance(answer, dict) else answer
    return [record for record in records if record["run"] == run]


def check_kills(repository: Repository, whole: dict, kills: int) -> None:
    generator = random.Random(11)
    run = "killed"
    before = repository.state()
    decided = 0
    for number in range(kills):
        process = subprocess.Popen(
            command(repository, run), cwd=repository.project, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        time.sleep(generator.uniform(0.05, max(2.0, 0.5 * whole["seconds"])))
        process.send_signal(signal.SIGKILL)
        process.wait()
        until = time.monotonic() + GONE_WITHIN_SECONDS
        while left := left_behind(repository):  # the supervisors end what is below them
            if time.monotonic() > until:
                fail(f"kill {number} left processes: {left}")
            time.sleep(0.02)
        if repository.state() != before:
            fail(f"kill {number} changed the repository")
        now = len(records_of(repository, run, "iteration"))
        if now < decided:
            fail(f"kill {number} lost a decided iteration: {decided} became {now}")
        decided = now
    said = finished(repository, run)
    if len(said["iterations"]) < decided:
        fail(f"{decided} iterations were decided, and the loop went on with {len(said['iterations'])}")
    if [one["hypothesis"] for one in said["iterations"]] != [one["hypothesis"] for one in whole["iterations"]]:
        fail(f"a loop that was killed took another way: {said['iterations']} {whole['iterations']}")
    ended = records_of(repository, run, "run")
    if [one["iterations"] for one in ended] != [len(said["iterations"])]:
        fail(f"the end of the loop has no record of its own: {ended}")
    print(f"{kills} kills: {decided} iterations decided before the last, the same way to the end")


def main() -> int:
    cudadent, example, *rest = sys.argv[1:]
    kills = int(rest[0]) if rest else 3
    with tempfile.TemporaryDirectory() as directory:
        repository = Repository(Path(directory), cudadent, example)
        make_tunable(repository)
        check_kills(repository, check_loop(repository), kills)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
