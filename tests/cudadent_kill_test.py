"""kill -9 at random moments of gate and compare: no record that was there is lost, the file still reads, and no process
is left behind.

    cudadent_kill_test.py CUDADENT EXAMPLE [ROUNDS]     exit 0 when all hold

The moments are drawn over the time a whole run takes, so that some rounds end before the kill; their records count too.
What is timed takes longer than a round may: it is let run to its end once, after the kills.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import uuid
from pathlib import Path

MARK = "CUDADENT_KILL_TEST"
LONGEST_ROUND_SECONDS = 4.0
GONE_WITHIN_SECONDS = 60.0  # far longer than it takes: only what stays reaches it


def fail(what: str) -> None:
    print(f"FAILED: {what}")
    raise SystemExit(1)


class Bench:
    def __init__(self, cudadent: str, example: str, directory: Path) -> None:
        self.cudadent = cudadent
        self.project = directory / "project"
        shutil.copytree(example, self.project, ignore=shutil.ignore_patterns(".cudadent", "__pycache__"))
        without_cuda(self.project / "cudadent.toml")
        self.mark = uuid.uuid4().hex
        self.environment = os.environ | {MARK: self.mark, "CUDADENT_RUN": "kill"}
        for arguments in (
            ["init", "-q"],
            ["add", "."],
            ["-c", "user.name=t", "-c", "user.email=t@example.org", "commit", "-qm", "first"],
        ):
            subprocess.run(["git", *arguments], cwd=self.project, check=True)
        # A least gain of 90 % is decided (REVERT) as soon as six pairs are there, on any machine.
        self.compare = ["compare", "--min-gain", "0.9", "--workload", "small", "--block-ms", "2", "--json"]
        # The short one comes twice: its kills fall near the moment when the record is written.
        self.short = ["gate", "--until", "correctness", "--json"]
        self.gate = ["gate", "--limit", "0.5", "--json"]
        self.commands = [self.short, self.gate, self.short, [*self.compare, "--resume"]]

    def start(self, arguments: list[str]) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [self.cudadent, *arguments],
            cwd=self.project,
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )

    def records(self) -> dict[str, dict]:
        listed = subprocess.run(
            [self.cudadent, "journal", "--json"], cwd=self.project, capture_output=True, text=True, timeout=300
        )
        if listed.returncode != 0:
            fail(f"the journal does not read: {listed.stderr}")
        return {record["id"]: record for record in json.loads(listed.stdout)["records"]}

    def left_behind(self) -> list[str]:
        found = []
        for entry in Path("/proc").iterdir():
            if not entry.name.isdigit():
                continue
            try:
                if f"{MARK}={self.mark}".encode() in (entry / "environ").read_bytes().split(b"\0"):
                    state = (entry / "stat").read_text().rpartition(")")[2].split()[0]
                    if state != "Z":
                        found.append(f"{entry.name} {(entry / 'cmdline').read_bytes()!r}")
            except OSError:
                continue
        return found

    def wait_until_gone(self, after: str) -> None:
        until = time.monotonic() + GONE_WITHIN_SECONDS
        while left := self.left_behind():
            if time.monotonic() > until:
                fail(f"left behind after {after}: {left}")
            time.sleep(0.02)


def without_cuda(configuration: Path) -> None:
    text = configuration.read_text()
    configuration.write_text(text.partition("\n[cuda]")[0] + "\n")


def record_id(output: str) -> str | None:
    try:
        answer = json.loads(output)
    except ValueError:
        return None
    return answer.get("id") or answer.get("record", {}).get("id")


def run_whole(bench: Bench, *commands: list[str]) -> float:
    """Each to its end, and its record is there; the seconds of the last."""
    seconds = 0.0
    for arguments in commands:
        began = time.monotonic()
        process = bench.start(arguments)
        output, _ = process.communicate(timeout=500)
        seconds = time.monotonic() - began
        identity = record_id(output)
        if identity is None or identity not in bench.records():
            fail(f"a whole run of {arguments} left no record it told about: {output[-2000:]}")
        bench.wait_until_gone("a whole run")
    return seconds


def main() -> None:
    cudadent, example = (os.path.abspath(path) for path in sys.argv[1:3])
    rounds = int(sys.argv[3]) if len(sys.argv) > 3 else 15
    seed = int(os.environ.get("CUDADENT_KILL_SEED", "0")) or random.SystemRandom().randrange(1, 2**31)
    print(f"seed {seed}: repeat with CUDADENT_KILL_SEED={seed}")
    chance = random.Random(seed)
    with tempfile.TemporaryDirectory() as directory:
        bench = Bench(cudadent, example, Path(directory))
        short_seconds = run_whole(bench, bench.short, bench.short)  # the second finds what the first built
        print(f"a short run takes {short_seconds:.1f} s")
        seen = bench.records()
        killed = completed = 0
        for index in range(rounds):
            which = index % len(bench.commands)
            longest = 3 * short_seconds if bench.commands[which] is bench.short else LONGEST_ROUND_SECONDS
            wait = chance.uniform(0, min(LONGEST_ROUND_SECONDS, longest))
            process = bench.start(bench.commands[which])
            try:
                output, _ = process.communicate(timeout=wait)
                completed += 1
            except subprocess.TimeoutExpired:
                process.send_signal(signal.SIGKILL)
                output, _ = process.communicate()
                killed += 1
            told = record_id(output)
            bench.wait_until_gone(f"round {index} ({bench.commands[which][0]}, killed after {wait:.3f} s)")
            now = bench.records()
            if told is not None and told not in now:
                fail(f"round {index}: record {told} was told about and is lost")
            for identity, record in seen.items():
                if now.get(identity) != record:
                    fail(f"round {index}: record {identity} is lost or changed")
            seen = now
        if killed == 0:
            fail("no run was killed: the test saw nothing")
        # Everything still works afterwards, and what killed runs left of worktrees is gone.
        run_whole(bench, bench.gate, bench.compare)
        worktrees = subprocess.run(
            ["git", "worktree", "list"], cwd=bench.project, capture_output=True, text=True, check=True
        ).stdout.splitlines()
        if len(worktrees) != 1:
            fail(f"worktrees left behind: {worktrees}")
        status = subprocess.run(
            ["git", "status", "--porcelain"], cwd=bench.project, capture_output=True, text=True, check=True
        ).stdout
        if status:
            fail(f"the user's tree was touched: {status}")
        print(f"{killed} killed, {completed} ended before; {len(bench.records())} records, none lost")


if __name__ == "__main__":
    main()
