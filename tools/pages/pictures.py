"""The pictures of the pages, docs/pictures: terminals with what our commands print, a chart of a page's figures, and
the picture of a report.

    pictures.py CUDADENT            make them
    pictures.py CUDADENT --check    are they what the commands print today? exit 0, or 1 with the difference

The commands run in a copy of the examples, in a repository of its own, so that nothing of this tree changes and no path
of the machine is shown. What differs from run to run is not compared: times, names of records and commits.
"""

from __future__ import annotations

import difflib
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import chart
import terminal

ROOT = Path(__file__).resolve().parents[2]
PICTURES = ROOT / "docs" / "pictures"
FIGURES = ROOT / "docs" / "benchmarks.md"
JOURNEY = PICTURES / "journey.jsonl"  # records of a loop over examples/attention_journey
CLIENTS = ROOT / "build" / "venv-clients" / "bin"
# What the commands read, and git's own to make a commit that has no clock in it.
STAGE = ("examples", "src/kernels/cuda")


@dataclass(frozen=True)
class Screen:
    name: str
    title: str
    commands: tuple[str, ...]  # as they are typed
    exit_codes: tuple[int, ...]


SCREENS = (
    Screen(
        "first",
        "cudadent advise: two CTAs on 58 SMs",
        ("cudadent advise examples/attention_naive --device virtual:l4",),
        (0,),
    ),
    Screen(
        "check",
        "cudadent run: a race in a program, found without a GPU",
        ("cudadent run --device virtual:l4 --check racecheck -- python examples/virtual_gpu/racy_reverse.py",),
        (1,),
    ),
    Screen(
        "improve",
        "cudadent try: one change, its counters and the predicted gain",
        (
            "sed -i 's/load_bytes = 2/load_bytes = 16/' examples/attention_journey/point.toml",
            "cudadent try examples/attention_journey --device virtual:l4 --because 'eight elements a load'",
        ),
        (0, 3),
    ),
)
# What is different every time; in a picture it stands as it was when it was made.
CHANGING = (
    (re.compile(r"\d+(\.\d+)?( min \d+)? s\b"), "N s"),
    (re.compile(r"\b(0x)?[0-9a-f]{8,64}\b"), "ID"),
    (re.compile(r"\d+ CPU cores?"), "N CPU cores"),
    (re.compile(r"\d+ cases right"), "N cases right"),  # random shapes may be declared ones
)


def masked(picture: str) -> str:
    # The length of a line in pixels follows from its text, and times may be longer or shorter.
    picture = re.sub(r' textLength="[^"]*"', "", picture)
    for pattern, mask in CHANGING:
        picture = pattern.sub(mask, picture)
    return picture


def make_stage(stage: Path) -> None:
    for part in STAGE:
        shutil.copytree(ROOT / part, stage / part, ignore=shutil.ignore_patterns(".cudadent", "__pycache__"))
    (stage / ".gitignore").write_text(".cudadent/\n")
    for words in (["init", "-q"], ["add", "."], ["commit", "-qm", "the examples"]):
        identity = ["-c", "user.name=nobody", "-c", "user.email=nobody@example.org", "-c", "commit.gpgsign=false"]
        subprocess.run(["git", *identity, *words], cwd=stage, check=True)


def environment(cudadent: Path) -> dict[str, str]:
    settings = ("VGPU_", "CUDADENT_", "FLASHMOE_", "NO_COLOR")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(settings)}
    paths = [str(cudadent.parent), str(CLIENTS), kept.get("PATH", "/usr/bin:/bin")]
    # Whether the machine's ptxas knows the PTX of cuda-python's compiler is no matter here: registers are not shown.
    fixed = {"TERM": "xterm-256color", "LC_ALL": "C.UTF-8", "VGPU_PTXAS": "off"}
    return kept | {"PATH": ":".join(paths)} | fixed


def screen_picture(screen: Screen, cudadent: Path) -> str:
    lines: list[terminal.Line] = []
    seconds = 0.0
    with tempfile.TemporaryDirectory() as directory:
        stage = Path(directory).resolve()
        make_stage(stage)
        for command, expected in zip(screen.commands, screen.exit_codes, strict=True):
            began = time.monotonic()
            written, code = terminal.run_on_terminal(command, stage, environment(cudadent))
            seconds += time.monotonic() - began
            if code != expected:
                raise SystemExit(f"pictures: {command}: exit code {code}, not {expected}:\n{written}")
            if str(stage) in written or str(ROOT) in written:
                raise SystemExit(f"pictures: {command}: a path of this machine is shown:\n{written}")
            lines += [terminal.prompt(command), *terminal.screen_of(written)]
    cores = len(os.sched_getaffinity(0))
    lines.append(terminal.remark(f"# {seconds:.0f} s on {cores} CPU core{'s' * (cores != 1)}, no GPU"))
    return terminal.svg(lines, screen.title)


def chart_picture() -> str:
    return chart.svg(
        chart.table_below(FIGURES.read_text(encoding="utf-8"), "## How fast"),
        "Attention on a CPU: torch's time divided by ours (longer is better)",
        "against scaled_dot_product_attention of torch 2.15; measured, shared 2-core VM: docs/benchmarks.md",
        "torch",
    )


def report_picture(cudadent: Path) -> str:
    with tempfile.TemporaryDirectory() as directory:
        stage = Path(directory).resolve()
        project = stage / "attention_journey"
        shutil.copytree(ROOT / "examples" / project.name, project, ignore=shutil.ignore_patterns(".cudadent"))
        (project / ".cudadent").mkdir()
        shutil.copy(JOURNEY, project / ".cudadent" / "records.jsonl")
        command = [cudadent, "report", "--no-predict", "--quiet", "--out", stage]
        subprocess.run(command, cwd=project, env=environment(cudadent), check=True, stdout=subprocess.DEVNULL)
        return (stage / "report.svg").read_text(encoding="utf-8")


def main(arguments: list[str]) -> int:
    check = "--check" in arguments
    cudadent = Path(next(word for word in arguments if word != "--check")).resolve()
    made = {screen.name: screen_picture(screen, cudadent) for screen in SCREENS}
    made |= {"use": chart_picture(), "report": report_picture(cudadent)}
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    commands = [command for screen in SCREENS for command in screen.commands]
    unknown = [command for command in commands if f"    {command}\n" not in readme]
    for command in unknown:
        print(f"pictures: README.md does not have the command of a picture: {command}")
    stale = 0
    for name, picture in made.items():
        file = PICTURES / f"{name}.svg"
        before = file.read_text(encoding="utf-8") if file.exists() else ""
        if masked(before) == masked(picture):
            continue
        if not check:
            file.write_text(picture, encoding="utf-8")
            print(f"pictures: wrote docs/pictures/{name}.svg")
            continue
        stale += 1
        print(f"pictures: docs/pictures/{name}.svg is not what is printed today:")
        before_lines, today = masked(before).splitlines(), masked(picture).splitlines()
        print("\n".join(difflib.unified_diff(before_lines, today, "picture", "today", lineterm="", n=0)))
    if stale:
        print("pictures: is it meant? then: cmake --build build/release --target pictures")
    print(f"pictures: {len(made)} pictures, {stale} stale")
    return 1 if stale or unknown else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
