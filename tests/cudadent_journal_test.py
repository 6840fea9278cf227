"""A long journal, from outside: how long a reader takes, that an index is never believed over the lines, and that
merged journals are one journal.

    cudadent_journal_test.py CUDADENT TEMPLATES [RECORDS]     exit 0 when all hold

TEMPLATES is a file of real records; RECORDS, by default 100,000, are made from them: the shares of their kinds are
those of a search that counts many candidates and tries few.
"""

from __future__ import annotations

import hashlib
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

STATUS_SECONDS, LIST_SECONDS, MERGE_SECONDS = 1.0, 2.0, 60.0
FULL = 100_000  # records, and ten journals of a tenth of it
SHARES = {"gate": 0.15, "compare": 0.15, "iteration": 0.7}
LARGEST_TEMPLATE = 9000  # bytes: beyond it is what a self-test or a debugging run writes


def fail(why: str) -> None:
    sys.exit(f"FAILED: {why}")


def line_of(record: dict, writer: str, sequence: int, previous: str) -> tuple[str, str]:
    """The line of a record in a chain, and the hash of its content."""
    content = {key: value for key, value in record.items() if key not in ("version", "id", "chain")}
    chain = {"writer": writer, "sequence": sequence, "previous": previous}
    body = json.dumps({"chain": chain, **content}, separators=(",", ":"), ensure_ascii=False)[1:]
    sha256 = hashlib.sha256(f'{{"version":1,{body}'.encode()).hexdigest()
    return f'{{"version":1,"id":"{sha256[:12]}",{body}', sha256


def kinds_of(templates: Path) -> dict[str, list[dict]]:
    kinds: dict[str, list[dict]] = {}
    for line in templates.read_text().splitlines():
        record = json.loads(line)
        if len(line) <= LARGEST_TEMPLATE:
            kinds.setdefault(record["kind"], []).append(record)
    gate = kinds["gate"][0]
    head = {key: gate[key] for key in gate if key not in ("gates", "recipe", "baselines", "seed", "threads", "summary")}
    kinds["iteration"] = [
        {
            **head,
            "kind": "iteration",
            "verdict": "REVERT",
            "proposer": "search",
            "hypothesis": "threads 64 -> 128: a neighbour",
            "seen": [{"name": "busiest_sm_instructions", "from": 41984.0, "to": 40960.0}],
            "parent": "0123456789abcdef0123456789abcdef01234567",
            "candidate": "",
            "patch_sha256": "5c" * 32,
            "files": ["point.toml"],
            "lines_added": 1,
            "lines_removed": 1,
            "workload": "target",
            "decision": "leave",
            "ground": "the busiest SM has 2 % less to do, 1 % is foretold",
            "summary": "the counter did not move as far as foretold",
        }
    ]
    return kinds


def records(kinds: dict[str, list[dict]], writer: str, count: int, seed: int) -> Iterator[str]:
    draw = random.Random(seed)
    names, weights = list(SHARES), list(SHARES.values())
    previous = ""
    for sequence in range(1, count + 1):
        record = dict(draw.choice(kinds[draw.choices(names, weights)[0]]))
        second, minute, hour = sequence % 60, sequence // 60 % 60, sequence // 3600
        day = f"2026-{1 + hour // 600:02}-{1 + hour // 24 % 25:02}"
        record |= {
            "time": f"{day}T{hour % 24:02}:{minute:02}:{second:02}.{seed:06}Z",
            "run": f"run-{sequence // 500}",
            "project": "vector_add",
            "seconds": round(draw.uniform(1, 90), 3),
        }
        if record["kind"] == "iteration":
            record["candidate"] = f"{draw.getrandbits(160):040x}"
        line, previous = line_of(record, writer, sequence, previous)
        yield line


class Project:
    def __init__(self, cudadent: str, root: Path, name: str) -> None:
        self.cudadent = cudadent
        self.directory = root / name
        self.environment = {**os.environ, "XDG_STATE_HOME": str(root / "state")}
        self.file = self.directory / ".cudadent" / "records.jsonl"
        self.directory.mkdir()
        self.run("new", "vector_add", "--example", "vector_add")
        self.file.parent.mkdir(exist_ok=True)

    def run(self, *words: str, check: bool = True) -> subprocess.CompletedProcess:
        done = subprocess.run(
            [self.cudadent, *words], cwd=self.directory, env=self.environment, capture_output=True, text=True
        )
        if check and done.returncode != 0:
            fail(f"{' '.join(words)} exits with {done.returncode}: {done.stdout[-2000:]}{done.stderr[-2000:]}")
        return done

    def timed(self, *words: str) -> tuple[float, subprocess.CompletedProcess]:
        began = time.monotonic()
        done = self.run(*words)
        return time.monotonic() - began, done

    def best_of_three(self, *words: str) -> tuple[float, subprocess.CompletedProcess]:
        """The machine may be busy; what the command takes is the least of them."""
        return min((self.timed(*words) for _ in range(3)), key=lambda one: one[0])

    def write(self, lines: list[str]) -> None:
        self.file.write_text("".join(line + "\n" for line in lines))

    def index(self) -> Path:
        found = list((Path(self.environment["XDG_STATE_HOME"]) / "cudadent" / "journals").glob("*.index"))
        if len(found) != 1:
            fail(f"{len(found)} indices instead of one")
        return found[0]


def check_readers(project: Project, lines: list[str]) -> None:
    count = len(lines)
    first, _ = project.timed("status")
    status, said = project.best_of_three("status")
    if f"{count} records" not in said.stdout:
        fail(f"status: {said.stdout}")
    listing, listed = project.best_of_three("journal")
    if listed.stdout.count("\n") < count + 1 or listed.stderr:
        fail(f"list: {listed.stdout[-500:]} {listed.stderr[:500]}")
    check, _ = project.timed("journal", "--check")
    megabytes = project.file.stat().st_size / 1e6
    print(
        f"{count} records, {megabytes:.0f} MB: status {status:.2f} s (without an index {first:.2f} s), "
        f"list {listing:.2f} s, check of every line {check:.2f} s"
    )
    if status > STATUS_SECONDS or listing > LIST_SECONDS:
        fail("too slow")


def check_index(project: Project, lines: list[str]) -> None:
    """Whatever is done to the index or behind its back, what is said comes from the lines."""
    right = project.run("journal", "--last", "3").stdout
    index = project.index()
    whole = index.read_bytes()
    forged = whole.replace(b"REVERT", b"KEEPIT")
    if forged == whole:
        fail("nothing to forge in the index")
    for name, content in {
        "truncated": whole[: len(whole) // 2],
        "forged": forged,
        "foreign": b"cudadent index 1\n" + os.urandom(4000),
        "gone": None,
    }.items():
        index.unlink()
        if content is not None:
            index.write_bytes(content)
        if project.run("journal", "--last", "3").stdout != right:
            fail(f"an index that is {name} is believed")
        if index.read_bytes() != whole:
            fail(f"an index that is {name} is not made anew")
    # An edit of equal length, with the file's time as it was.
    times = project.file.stat()
    middle = len(lines) // 2
    while '"verdict":"REVERT"' not in lines[middle]:
        middle += 1
    project.write([*lines[:middle], lines[middle].replace('"REVERT"', '"ADVISE"'), *lines[middle + 1 :]])
    os.utime(project.file, ns=(times.st_atime_ns, times.st_mtime_ns))
    said = project.run("journal", "--last", "1")
    if f"record {json.loads(lines[middle])['id']} (ADVISE) is changed" not in said.stderr:
        fail(f"an edited line behind the index goes unseen: {said.stderr[:500]}")
    project.write([*lines[:middle], *lines[middle + 1 :]])
    if f"record number {middle + 1} of writer" not in project.run("journal", "--last", "1").stderr:
        fail("a line that was taken out behind the index goes unseen")
    project.write(lines)
    if project.run("journal", "--check").returncode != 0:
        fail("what was put right does not hold")


def check_merge(cudadent: str, root: Path, kinds: dict[str, list[dict]], count: int) -> None:
    journals = []
    for i in range(10):
        directory = root / f"shard-{i}"
        (directory / ".cudadent").mkdir(parents=True)
        with (directory / ".cudadent" / "records.jsonl").open("w") as file:
            for line in records(kinds, f"{i:012x}", count // 10, i):
                file.write(line + "\n")
        journals.append(directory)
    merged = {}
    for order in ("forwards", "backwards"):
        project = Project(cudadent, root, order)
        names = [str(one) for one in (journals if order == "forwards" else journals[::-1])]
        seconds, done = project.timed("journal", "merge", *names, "--json")
        said = json.loads(done.stdout)
        if (said["records"], said["added"], said["holds"]) != (count // 10 * 10, count // 10 * 10, True):
            fail(f"merge: {done.stdout[:1000]}")
        merged[order] = project.file.read_bytes()
        again = json.loads(project.run("journal", "merge", *names, "--json").stdout)
        if again["added"] != 0 or project.file.read_bytes() != merged[order]:
            fail("merging twice is not merging once")
        if order == "forwards":
            print(f"ten journals of {count // 10} records merged and checked in {seconds:.1f} s")
            if seconds > MERGE_SECONDS:
                fail("too slow")
    if merged["forwards"] != merged["backwards"]:
        fail("the order of the journals matters")
    for journal in journals:
        shutil.rmtree(journal)


def main() -> int:
    cudadent, templates = str(Path(sys.argv[1]).resolve()), Path(sys.argv[2])
    count = int(sys.argv[3]) if len(sys.argv) > 3 else FULL
    kinds = kinds_of(templates)
    with tempfile.TemporaryDirectory(prefix="cudadent_journal_") as name:
        root = Path(name)
        project = Project(cudadent, root, "long")
        lines = list(records(kinds, "a" * 12, count, 0))
        project.write(lines)
        check_readers(project, lines)
        check_index(project, lines)
        shutil.rmtree(project.directory)
        check_merge(cudadent, root, kinds, count)
    print("1 passed, 0 failed")
    return 0


if __name__ == "__main__":
    sys.exit(main())
