"""`cudadent optimize --device cpu`: the loop by a clock. It finds the fast point, never goes back to a version that a
better one replaced, and ends at once where nothing can be timed.

    cudadent_optimize_cpu_test.py CUDADENT EXAMPLE     exit 0 when all hold
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path

from cudadent_try_test import RIGHT, Repository, fail

TUNABLES = """
[tunables]
passes = { choices = [1, 4, 16], default = 16, phase = "compute" }
"""
SLOW = "for (volatile int k = 0; k < PASSES; k = k + 1) c[i] = a[i] + b[i];"


def optimize(repository: Repository, run: str) -> tuple[int, dict]:
    command = [repository.cudadent, "optimize", "--device", "cpu", "--iterations", "4", "--target", "100"]
    command += ["--run", run, "--json", "--quiet"]
    ran = subprocess.run(command, cwd=repository.project, capture_output=True, text=True, timeout=900)
    try:
        return ran.returncode, json.loads(ran.stdout)
    except json.JSONDecodeError:
        fail(f"no JSON, exit {ran.returncode}: {ran.stdout[:2000]} {ran.stderr[:2000]}")


def check_loop(repository: Repository) -> None:
    before = repository.state()
    code, said = optimize(repository, "measured")
    if repository.state() != before:
        fail("optimize changed the repository")
    print(f"exit {code}: {said['stopped']}; {said.get('ratio_at_start')} -> {said.get('ratio_at_end')}")
    for one in said["iterations"]:
        print(f"  {one['verdict']:12} {one['hypothesis']}: {one['ground']}")
    if code != 0 or said["iterations"][0]["verdict"] != "KEEP":
        fail("four times less work was not kept")
    if "passes = 1\n" not in repository.git("show", f"{said['end']}:./point.toml") + "\n":
        fail("the least work was not found")
    ratios = said.get("ratio_at_start"), said.get("ratio_at_end")  # none: the machine was too noisy to tell
    if None not in ratios and ratios[1] < 2 * ratios[0]:
        fail("the ratio to the baseline did not follow")
    came_from = set()
    for one in said["iterations"]:
        start, end = one["hypothesis"].split(":")[0].removeprefix("passes ").split(" -> ")
        if end in came_from:
            fail(f"back to what a better version replaced: {one['hypothesis']}")
        if one["advanced"]:
            came_from.add(start)


def check_nothing_to_time(repository: Repository) -> None:
    whole = 'kernel = { call = "kernel.cpp:vector_add", libraries = ["no_such_library"] }'
    repository.edit("cudadent.toml", 'kernel = "kernel.cpp:vector_add"', whole)
    repository.git("commit", "-qam", "a library that nobody has")
    code, said = optimize(repository, "without a library")
    if code in (0, 3) or "iterations" in said:
        fail(f"a loop that can time nothing went on: exit {code}, {said}")


def main() -> int:
    cudadent, example = sys.argv[1:]
    with tempfile.TemporaryDirectory() as directory:
        repository = Repository(Path(directory), cudadent, example)
        repository.edit("kernel.cpp", RIGHT, SLOW)
        configuration = repository.project / "cudadent.toml"
        configuration.write_text(configuration.read_text() + TUNABLES)
        repository.commit()
        check_loop(repository)
        check_nothing_to_time(repository)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
