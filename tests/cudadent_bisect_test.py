"""`git bisect run cudadent gate --bisect` finds the commit that broke a kernel, past one that does not build; a
recorded run can be reproduced from its recipe, and a wrong result by its seed; a wrong candidate is not timed.

    cudadent_bisect_test.py CUDADENT EXAMPLE     exit 0 when all hold
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

COMMITS = 9
DOES_NOT_BUILD = 5  # the middle: the first one that bisect tries
FIRST_BAD = 7
RIGHT = "a[i] + b[i]"


def fail(what: str) -> None:
    print(f"FAILED: {what}")
    raise SystemExit(1)


def git(project: Path, *arguments: str) -> str:
    command = ["git", "-c", "user.name=t", "-c", "user.email=t@example.org", *arguments]
    return subprocess.run(command, cwd=project, check=True, capture_output=True, text=True).stdout.strip()


def make_history(project: Path) -> list[str]:
    configuration = project / "cudadent.toml"
    configuration.write_text(configuration.read_text().partition("\n[cuda]")[0] + "\n")
    kernel = project / "kernel.cpp"
    good = kernel.read_text()
    if RIGHT not in good:
        fail(f"the example's kernel has no '{RIGHT}' to break")
    git(project, "init", "-q")
    hashes = []
    for number in range(1, COMMITS + 1):
        text = good if number < FIRST_BAD else good.replace(RIGHT, "a[i] - b[i]")
        if number == DOES_NOT_BUILD:
            text += "\nthis is no C++\n"
        kernel.write_text(text + f"\n// {number}\n")
        git(project, "add", ".")
        git(project, "commit", "-qm", f"commit {number}")
        hashes.append(git(project, "rev-parse", "HEAD"))
    return hashes


def check_bisect(cudadent: str, project: Path, hashes: list[str]) -> None:
    git(project, "bisect", "start", hashes[-1], hashes[0])
    command = [cudadent, "gate", "--bisect", "--until", "correctness", "--quiet"]
    found = subprocess.run(
        ["git", "bisect", "run", *command], cwd=project, capture_output=True, text=True, timeout=400
    )
    first_bad = git(project, "rev-parse", "refs/bisect/bad")
    skipped = git(project, "for-each-ref", "--format=%(objectname)", "refs/bisect/skip-*").splitlines()
    if found.returncode != 0 or first_bad != hashes[FIRST_BAD - 1]:
        fail(f"bisect did not find commit {FIRST_BAD}:\n{found.stdout}\n{found.stderr}")
    if skipped != [hashes[DOES_NOT_BUILD - 1]]:
        fail(f"the commit that does not build was not skipped: {skipped}")
    git(project, "bisect", "reset")


def check_reproduce(cudadent: str, project: Path, hashes: list[str]) -> None:
    records = json.loads(
        subprocess.run(
            [cudadent, "journal", "--json", "--kind", "gate"], cwd=project, check=True, capture_output=True, text=True
        ).stdout
    )["records"]
    bad = [record for record in records if record["commit"] == hashes[FIRST_BAD - 1]]
    if not bad:
        fail("bisect left no record of the first bad commit")
    head = git(project, "rev-parse", "HEAD")
    again = subprocess.run(
        [cudadent, "reproduce", bad[-1]["id"], "--json", "--quiet"],
        cwd=project,
        capture_output=True,
        text=True,
        timeout=400,
    )
    if again.returncode != 0:
        fail(f"reproduce: exit code {again.returncode}\n{again.stdout}\n{again.stderr}")
    answer = json.loads(again.stdout)
    if answer["verdict"] != "reproduced" or answer["verdict_now"] != bad[-1]["verdict"]:
        fail(f"reproduce says {answer}")
    if "--until" not in answer["argv"]:
        fail(f"the recorded run ended at a gate, the reproduced one did not: {answer['argv']}")
    if git(project, "rev-parse", "HEAD") != head or git(project, "status", "--porcelain"):
        fail("reproduce touched the tree")
    if len(git(project, "worktree", "list").splitlines()) != 1:
        fail("reproduce left its worktree behind")


def ask(cudadent: str, project: Path, *arguments: str) -> tuple[int, dict]:
    done = subprocess.run([cudadent, *arguments], cwd=project, capture_output=True, text=True, timeout=400)
    try:
        return done.returncode, json.loads(done.stdout)
    except ValueError:
        fail(f"{arguments} did not answer in JSON: {done.stdout}\n{done.stderr}")
        raise


def check_seed(cudadent: str, project: Path) -> None:
    """What a wrong result says about its inputs is what --seed takes."""

    def where(*more: str) -> str:
        flags = ["--until", "correctness", "--no-record", "--json", "--quiet", *more]
        code, record = ask(cudadent, project, "gate", *flags)
        if code != 1:
            fail(f"the bad commit passes the gate: exit code {code}")
        correctness = next(gate for gate in record["gates"] if gate["gate"] == "correctness")
        return correctness["findings"][-1]["where"] + ", expected " + str(correctness["data"]["wrong"]["expected"])

    first = where()
    seed = re.search(r"--seed (\d+)", first)
    if seed is None:
        fail(f"a wrong result does not say how to get its inputs again: {first}")
    elif (again := where("--seed", seed.group(1))) != first:
        fail(f"--seed gives other inputs: {first}, then {again}")


def check_compare(cudadent: str, project: Path, hashes: list[str]) -> None:
    versions = ["--base", hashes[0], "--candidate", hashes[-1]]
    code, record = ask(cudadent, project, "compare", *versions, "--json", "--quiet")
    if code != 1 or record["verdict"] != "CANDIDATE FAILED" or "not correct" not in record["problem"]:
        fail(f"a wrong candidate: exit code {code}, {record['verdict']}, {record.get('problem')}")
    if record["calibration_samples"] or record["samples"]:
        fail("a wrong candidate was timed")


def main() -> None:
    cudadent, example = (os.path.abspath(path) for path in sys.argv[1:3])
    with tempfile.TemporaryDirectory() as directory:
        project = Path(directory) / "project"
        shutil.copytree(example, project, ignore=shutil.ignore_patterns(".cudadent", "__pycache__"))
        hashes = make_history(project)
        check_bisect(cudadent, project, hashes)
        check_reproduce(cudadent, project, hashes)
        check_seed(cudadent, project)
        check_compare(cudadent, project, hashes)
    print("bisect finds the first bad commit, its record can be reproduced, and as a candidate it is not timed")


if __name__ == "__main__":
    main()
