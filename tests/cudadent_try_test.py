"""`cudadent try`: an edit is kept, reverted or left open on evidence, and nothing of the user's repository changes.

    cudadent_try_test.py CUDADENT EXAMPLE cpu|virtual     exit 0 when all hold; on the CPU measured times decide
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

RIGHT = "c[i] = a[i] + b[i];"
# Many times the work, which no compiler removes.
SLOW = "for (volatile int k = 0; k < 8; k = k + 1) c[i] = a[i] + b[i];"


def fail(what: str) -> None:
    print(f"FAILED: {what}")
    raise SystemExit(1)


class Repository:
    """A project in a repository whose hooks leave traces."""

    def __init__(self, root: Path, cudadent: str, example: str) -> None:
        self.cudadent = cudadent
        self.project = root / "repository" / "project"
        self.trace = root / "a hook ran"
        shutil.copytree(example, self.project, ignore=shutil.ignore_patterns(".cudadent"))
        self.git("init", "-q", "..")
        for hook in ("post-checkout", "pre-commit", "reference-transaction", "post-index-change"):
            script = self.project.parent / ".git" / "hooks" / hook
            script.write_text(f"#!/bin/sh\ntouch '{self.trace}'\n")
            script.chmod(0o755)

    def git(self, *arguments: str) -> str:
        # Without its hooks: those that leave a trace must be cudadent's doing.
        command = ["git", "-c", "core.hooksPath=/dev/null", "-c", "user.name=t", "-c", "user.email=t@example.org"]
        command += arguments
        return subprocess.run(command, cwd=self.project, check=True, capture_output=True, text=True).stdout.strip()

    def commit(self) -> None:
        self.git("add", ".")
        self.git("commit", "-qm", "a start")
        for path in self.project.glob("*.*"):
            os.utime(path, (1e9, 1e9))  # not as the index remembers it: whoever refreshes the index is seen
        self.trace.unlink(missing_ok=True)

    def edit(self, file: str, before: str, after: str) -> None:
        path = self.project / file
        text = path.read_text()
        if before not in text:
            fail(f"{file} has no '{before}'")
        path.write_text(text.replace(before, after))

    def state(self) -> dict[str, str]:
        """Every file outside .cudadent, of git its index, branches and what it says of the tree."""
        files = {}
        for path in sorted(self.project.rglob("*")):
            if path.is_file() and ".cudadent" not in path.parts:
                files[str(path)] = hashlib.sha256(path.read_bytes()).hexdigest()
        index = self.project.parent / ".git" / "index"
        files["index"] = hashlib.sha256(index.read_bytes()).hexdigest()
        files["heads"] = self.git("for-each-ref", "refs/heads", "refs/tags") + self.git("rev-parse", "HEAD")
        files["status"] = self.git("--no-optional-locks", "status", "--porcelain")
        files["stash"] = self.git("stash", "list")
        return files

    def attempt(self, *options: str) -> tuple[int, dict]:
        before = self.state()
        ran = subprocess.run(
            [self.cudadent, "try", "--json", "--quiet", *options],
            cwd=self.project,
            capture_output=True,
            text=True,
            timeout=600,
        )
        if self.state() != before:
            fail(f"try changed the repository: {before} became {self.state()}")
        if self.trace.exists():
            fail("a hook of the repository ran")
        left = list((self.project / ".cudadent" / "worktrees").glob("*"))
        if left:
            fail(f"worktrees are left: {left}")
        try:
            return ran.returncode, json.loads(ran.stdout)
        except json.JSONDecodeError:
            fail(f"exit code {ran.returncode}, no JSON: {ran.stdout}\n{ran.stderr}")
            raise


def expect(answer: tuple[int, dict], code: int, verdict: str, what: str) -> dict:
    got, said = answer
    if got != code or said.get("verdict") != verdict or said.get("exit_code") != code:
        fail(f"{what}: expected {verdict} ({code}), got {said.get('verdict')} ({got}): {json.dumps(said)[:3000]}")
    print(f"{what}: {verdict}")
    return said


def check_cpu(repository: Repository) -> None:
    code, said = repository.attempt()
    if code == 0 or "nothing to try" not in json.dumps(said):
        fail(f"no edit was tried: {code} {said}")

    repository.edit("kernel.cpp", SLOW, RIGHT)
    (repository.project / "notes.txt").write_text("not known to git yet\n")
    kept = expect(repository.attempt("--because", "one pass, not eight"), 0, "KEEP", "eight times less work")
    if kept["hypothesis"] != "one pass, not eight" or sorted(kept["files"]) != [
        "project/kernel.cpp",
        "project/notes.txt",
    ]:
        fail(f"reason or files are wrong: {kept['hypothesis']} {kept['files']}")
    if kept["gain"]["lower"] <= 0 or "git" not in kept["next"] or "commit" not in kept["next"]:
        fail(f"no gain or no next command: {kept['gain']} {kept['next']}")
    show = repository.git("show", f"{kept['candidate']}:./kernel.cpp")
    if RIGHT not in show or kept["parent"] != repository.git("rev-parse", "HEAD"):
        fail("the edit is not the candidate's commit")
    again = repository.git("for-each-ref", "refs/cudadent", "--format=%(objectname)")
    if again != kept["candidate"]:
        fail(f"the candidate is not kept alive: {again}")
    # As it says, so it works.
    subprocess.run(kept["next"], shell=True, cwd=repository.project, check=True, capture_output=True, env=named())
    repository.trace.unlink(missing_ok=True)
    if repository.git("status", "--porcelain"):
        fail("the next command left something uncommitted")

    repository.edit("kernel.cpp", RIGHT, "c[i] = a[i] - b[i];")
    wrong = expect(repository.attempt(), 1, "REVERT", "a wrong kernel")
    if "not correct" not in wrong["summary"]:
        fail(f"it does not say why: {wrong['summary']}")
    repository.edit("kernel.cpp", "c[i] = a[i] - b[i];", "this is no C++")
    broken = expect(repository.attempt(), 1, "REVERT", "one that does not build")
    subprocess.run(broken["next"], shell=True, cwd=repository.project, check=True, capture_output=True, env=named())
    repository.trace.unlink(missing_ok=True)
    if repository.git("status", "--porcelain"):
        fail(f"'{broken['next']}' left something")


def named() -> dict[str, str]:
    return {**os.environ, "GIT_AUTHOR_NAME": "t", "GIT_AUTHOR_EMAIL": "t@example.org", "GIT_COMMITTER_NAME": "t",
            "GIT_COMMITTER_EMAIL": "t@example.org"}


@contextlib.contextmanager
def without_nvdisasm() -> Iterator[None]:
    """What a machine without the toolkit's disassembler says: counters, and no time."""
    before = os.environ.get("NVDISASM")
    os.environ["NVDISASM"] = "/nowhere/nvdisasm"
    try:
        yield
    finally:
        if before is None:
            del os.environ["NVDISASM"]
        else:
            os.environ["NVDISASM"] = before


def check_virtual(repository: Repository) -> None:
    on_l4 = ("--device", "virtual:l4")
    repository.edit("kernel.cu", "if (i + 4 <= n) {", "if (i + 4 <= n) {  // whole")
    code, mistyped = repository.attempt("--device", "virtual:l5")
    if code != 2 or mistyped["code"] != "usage.device" or (repository.project / ".cudadent" / "records.jsonl").exists():
        fail(f"a device that is none spent an iteration: {mistyped}")
    expect(repository.attempt(*on_l4), 3, "COUNTERS NOT MOVED", "a comment")
    repository.edit("kernel.cu", "if (i + 4 <= n) {  // whole", "if (false) {")
    repository.edit("kernel.cu", "j < n; ++j)", "j < n && j < i + 4; ++j)")
    predicted = expect(repository.attempt(*on_l4, "--workload", "tiny"), 3, "PREDICTED", "no vectors")
    if "% predicted" not in predicted["summary"] or predicted["evidence"]["kind"] != "predicted":
        fail(f"no prediction: {predicted['summary']} {predicted['evidence']}")
    with without_nvdisasm():
        moved = expect(repository.attempt(*on_l4), 0, "COUNTERS MOVED", "no vectors, no SASS")
    seen = {change["name"]: change for change in moved["seen"]}
    instructions = seen["vgpu__ptx_inst_executed.sum"]
    if instructions["to"] <= instructions["from"] or moved["evidence"]["kind"] != "virtual":
        fail(f"counters or evidence are wrong: {seen} {moved['evidence']}")
    repository.edit("kernel.cu", "c[j] = a[j] + b[j]", "c[j] = a[j] * b[j]")
    expect(repository.attempt(*on_l4), 1, "REVERT", "a wrong CUDA kernel")


def main() -> int:
    cudadent, example, device = sys.argv[1:]
    with tempfile.TemporaryDirectory() as directory:
        repository = Repository(Path(directory), cudadent, example)
        if device == "cpu":
            repository.edit("kernel.cpp", RIGHT, SLOW)
        repository.commit()
        {"cpu": check_cpu, "virtual": check_virtual}[device](repository)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
