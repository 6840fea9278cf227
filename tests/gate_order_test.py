"""The order in which .ci/run takes its steps, on steps that only say when they begin and end.

    gate_order_test.py ROOT     exit 0 when all hold

Lanes run side by side, what is alone runs alone, a step waits for the one it names, a step that failed stops nobody,
and the names after --only are in the table's order.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from pathlib import Path

STEPS = """steps=(
  "first          60 alone"
  "back-one       60 back"
  "front-one      60 front"
  "back-two       60 back"
  "front-two      60 front back-two"
  "last           60 alone"
)
nightly_steps=(
  "never          60 alone"
)
"""
# Each of the first two in their lanes waits until the other has begun: only side by side do they end.
FUNCTIONS = """
says() { echo "begin $1" >>"$root/told"; "${@:2}"; echo "end $1" >>"$root/told"; }
until_begun() { until grep -qx "begin $1" "$root/told"; do sleep 0.05; done; }
step_first() { says first true; }
step_back-one() { says back-one until_begun front-one; }
step_front-one() { says front-one until_begun back-one; }
step_back-two() { says back-two sleep 0.3; return 1; }
step_front-two() { says front-two true; }
step_last() { says last true; }
step_never() { says never true; }

# ---- running them"""
TABLES = re.compile(r"^steps=\(\n.*?^\)\nnightly_steps=\(\n.*?^\)\n", re.MULTILINE | re.DOTALL)
LANES = {"first": "alone", "last": "alone"}
ORDER = (("first", "back-one"), ("back-one", "back-two"), ("back-two", "front-two"), ("front-two", "last"))


def gate_in(directory: Path, root: Path) -> Path:
    text = (root / ".ci" / "run").read_text(encoding="utf-8")
    text, tables = TABLES.subn(STEPS, text)
    text, places = re.subn(r"\n# ---- running them", lambda _: FUNCTIONS, text)
    assert (tables, places) == (1, 1), "the table or the steps of .ci/run look otherwise"
    gate = directory / ".ci" / "run"
    gate.parent.mkdir(exist_ok=True)
    gate.write_text(text, encoding="utf-8")
    (directory / "told").write_text("")
    return gate


def told_by(directory: Path, root: Path, *arguments: str) -> tuple[int, list[str], str]:
    gate = gate_in(directory, root)
    ran = subprocess.run(["bash", gate, *arguments], capture_output=True, text=True, timeout=240, check=False)
    return ran.returncode, (directory / "told").read_text().splitlines(), ran.stdout + ran.stderr


def wrong_with(told: list[str], names: list[str]) -> list[str]:
    """What the table forbids in this order of events."""
    wrong = [f"{name} did not run once" for name in names if told.count(f"end {name}") != 1]
    running: set[str] = set()
    for event in told:
        kind, name = event.split()
        if kind == "begin":
            if running and "alone" in (LANES.get(name), *map(LANES.get, running)):
                wrong.append(f"{name} began beside {running}")
            running.add(name)
        else:
            running.discard(name)
    for before, after in ORDER:
        if {before, after} <= set(names) and not wrong and told.index(f"end {before}") > told.index(f"begin {after}"):
            wrong.append(f"{after} did not wait for {before}")
    return wrong


def main(root: Path) -> int:
    everything = ["first", "back-one", "front-one", "back-two", "front-two", "last"]
    with tempfile.TemporaryDirectory() as scratch:
        directory = Path(scratch)
        code, told, output = told_by(directory, root)
        wrong = wrong_with(told, everything)
        if code != 1 or "failed: back-two" not in output or "5 passed, 1 failed" not in output:
            wrong.append(f"exit code {code} of a gate with one failure")
        code, told, output = told_by(directory, root, "--only", "last", "--only", "first")
        wrong += wrong_with(told, ["first", "last"])
        if code != 0 or told[0] != "begin first":
            wrong.append(f"--only: exit code {code}, {told}")
        for unknown in (["nobody"], ["first", "--only", "first"]):
            if told_by(directory, root, "--only", *unknown)[0] != 2:
                wrong.append(f"--only {' '.join(unknown)} was not refused")
    if not wrong_with(["begin first", "begin last", "end first", "end last"], ["first", "last"]):
        wrong.append("two alone, side by side, were not seen")
    for line in wrong:
        print(line)
    if wrong:
        print(output)
    print(f"gate_order: {len(wrong)} violations")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]).resolve()))
