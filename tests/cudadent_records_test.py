"""What somebody wrote into a journal is named, and nothing of it is run.

cudadent_records_test.py CUDADENT     exit 0 when all hold
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

problems: list[str] = []


def check(holds: bool, what: str) -> None:
    if not holds:
        problems.append(what)


def line_of(content: dict) -> str:
    """A record as a forger who knows the format writes it: its id is the hash of its content."""
    body = json.dumps({"version": 1} | content, separators=(",", ":"))
    digest = hashlib.sha256(body.encode()).hexdigest()[:12]
    return body.replace('{"version":1,', f'{{"version":1,"id":"{digest}",', 1) + "\n"


def id_in(line: str) -> str:
    return json.loads(line)["id"]


class Bench:
    def __init__(self, cudadent: str, root: Path) -> None:
        self.cudadent = cudadent
        self.project = root / "project"
        self.project.mkdir()
        self.records = self.project / ".cudadent" / "records.jsonl"
        self.environment = os.environ | {"XDG_STATE_HOME": str(root / "state")}
        (self.project / "file").write_text("")
        for arguments in (
            ["init", "-q"],
            ["add", "."],
            ["-c", "user.name=t", "-c", "user.email=t@example.org", "commit", "-qm", "first"],
        ):
            subprocess.run(["git", *arguments], cwd=self.project, check=True)
        head = subprocess.run(
            ["git", "rev-parse", "HEAD"], cwd=self.project, check=True, capture_output=True, text=True
        )
        self.commit = head.stdout.strip()

    def ask(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [self.cudadent, *arguments],
            cwd=self.project,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=120,
        )

    def holding(self, verdict: str, **more: object) -> dict:
        return {"kind": "compare", "verdict": verdict, "commit": self.commit, "dirty": False} | more


def a_record_runs_no_command(bench: Bench) -> None:
    recipe = {"exact": True, "argv": ["run", "sh", "-c", "echo > stolen"]}
    line = line_of(bench.holding("KEEP", recipe=recipe))
    bench.records.parent.mkdir()
    bench.records.write_text(line)
    answer = bench.ask("reproduce", id_in(line), "--quiet")
    check(answer.returncode != 0, f"a forged recipe was reproduced: {answer.stdout}")
    check(not (bench.project / "stolen").exists(), "reproduce ran the command of a record")
    check("'run'" in answer.stderr, f"it is not said what was refused: {answer.stderr}")


def a_forged_record_is_named(bench: Bench) -> None:
    old = line_of(bench.holding("KEEP", note="from before"))
    bench.records.write_text(old)
    kept = bench.ask("journal", "--keep", id_in(old), "--json")
    check(kept.returncode == 0, f"an old record is not read: {kept.stderr}")
    forged = line_of(bench.holding("KEEP", note="10x faster"))
    with bench.records.open("a") as file:
        file.write(forged)
    answer = bench.ask("journal", "--check", "--json")
    state = json.loads(answer.stdout)
    check(answer.returncode == 1, f"a forged record holds: {answer.stdout}")
    check(state["standing"] == {"chained": 1, "unchained": 1, "foreign": 1, "changed": 0}, f"{state}")
    check(any(id_in(forged) in problem for problem in state["problems"]), f"{state['problems']}")
    check(bench.ask("journal", "--keep", id_in(forged)).returncode == 1, "a forged record became known good")
    listed = json.loads(bench.ask("journal", "--json").stdout)["records"]
    check([record["standing"] for record in listed] == ["unchained", "chained", "foreign"], f"{listed}")
    check(listed[1]["evidence"]["kind"] == "measured", f"no evidence in {listed[1]}")


def a_journal_that_begins_anew_is_seen(bench: Bench) -> None:
    bench.records.unlink()
    answer = bench.ask("journal", "--check")
    check(answer.returncode == 1 and "missing" in answer.stdout, f"{answer.stdout}{answer.stderr}")


def main() -> int:
    with tempfile.TemporaryDirectory() as directory:
        bench = Bench(sys.argv[1], Path(directory))
        a_record_runs_no_command(bench)
        a_forged_record_is_named(bench)
        a_journal_that_begins_anew_is_seen(bench)
    for problem in problems:
        print(f"FAILED: {problem}")
    if not problems:
        print("a record runs no command, and a forged, a changed or a missing one is named")
    return 1 if problems else 0


if __name__ == "__main__":
    raise SystemExit(main())
