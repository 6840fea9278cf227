"""Runs the commands of a page as they are written there.

    readme_test.py [PAGE]       from the root of the checkout, README.md unless told; exit 0 when every block and every
                                command holds

Every fenced `sh`, `python`, `c` or `cpp` block must be preceded by one of these comments, so that none is forgotten:

    <!-- run -->                the block is run (C and C++: compiled against the release build and run)
    <!-- not run: reason -->    it is not, and the reader of the source learns why

Commands in backticks in tables are not run again (the gate runs them); but a `ctest` pattern must match a test, and a
file that is named must exist.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

LANGUAGES = ("sh", "python", "c", "cpp")
MARK = re.compile(r"^<!--\s*(run|not run: .+?)\s*-->$")
BLOCK_TIMEOUT_SECONDS = 900
BUILD = "build/release"


@dataclass(frozen=True)
class Block:
    line: int
    language: str
    text: str
    mark: str | None


def blocks_of(lines: list[str]) -> list[Block]:
    blocks: list[Block] = []
    mark: str | None = None
    index = 0
    while index < len(lines):
        stripped = lines[index].strip()
        if match := MARK.match(stripped):
            mark = match.group(1)
        elif stripped.startswith("```"):
            language = stripped[3:].strip()
            begin = index + 1
            index = begin
            while index < len(lines) and lines[index].strip() != "```":
                index += 1
            blocks.append(Block(begin, language, "\n".join(lines[begin:index]) + "\n", mark))
            mark = None
        elif stripped:
            mark = None
        index += 1
    return blocks


def command_for(block: Block, directory: Path) -> str:
    """A shell script that runs the block."""
    if block.language == "sh":
        return block.text
    source = directory / f"block.{'py' if block.language == 'python' else block.language}"
    source.write_text(block.text, encoding="utf-8")
    if block.language == "python":
        return f"python {source}"
    compiler = "cc -std=c11" if block.language == "c" else "c++ -std=c++20"
    library = next(Path(BUILD).rglob("libflashmoe.so")).parent.resolve()
    return (
        f"{compiler} -Wall -Wextra -Werror -Iinclude {source} -L{library} -lflashmoe -lm -Wl,-rpath,{library}"
        f" -o {directory}/block && {directory}/block"
    )


def run_block(block: Block) -> bool:
    with tempfile.TemporaryDirectory() as directory:
        script = command_for(block, Path(directory))
        print(f"readme: line {block.line}, {block.language} block:\n{block.text}", flush=True)
        started = time.monotonic()
        try:
            shell = ["bash", "-euo", "pipefail", "-c", script]
            done = subprocess.run(shell, stdin=subprocess.DEVNULL, timeout=BLOCK_TIMEOUT_SECONDS, check=False)
        except subprocess.TimeoutExpired:
            print(f"readme: line {block.line}: not done after {BLOCK_TIMEOUT_SECONDS} s")
            return False
    print(f"readme: line {block.line}: exit code {done.returncode}, {time.monotonic() - started:.1f} s", flush=True)
    # 3 is "inconclusive" in every command of ours: the machine was too busy for a verdict, and the command said so.
    return done.returncode in (0, 3)


def wrong_with_command(command: str) -> str | None:
    """What is wrong with a command in a table, or None."""
    words = shlex.split(command)
    if words[0] == "ctest":
        listing = subprocess.run([*words, "-N"], capture_output=True, text=True, check=False)
        if not re.search(r"Total Tests: [1-9]", listing.stdout):
            return "matches no test"
    for word in words:
        if ("/" in word and not word.startswith(("-", "build/", "<"))) and not Path(word).exists():
            return f"names {word}, which does not exist"
    return None


def table_commands(lines: list[str]) -> list[tuple[int, str]]:
    commands = []
    for number, line in enumerate(lines, start=1):
        if line.startswith("|"):
            for code in re.findall(r"`([^`]+)`", line.rsplit("|", 2)[-2]):
                if re.match(r"(ctest|python|\.ci/run|cmake|build/\S+|PYTHONPATH=\S+) ", code):
                    commands.append((number, code))
    return commands


def main(readme: Path) -> int:
    lines = readme.read_text(encoding="utf-8").splitlines()
    blocks = [block for block in blocks_of(lines) if block.language in LANGUAGES]
    failures = [f"line {b.line}: the {b.language} block has no <!-- run --> mark" for b in blocks if b.mark is None]
    # Commands first: they build what the programs use.
    to_run = sorted((block for block in blocks if block.mark == "run"), key=lambda block: block.language != "sh")
    os.environ["PATH"] = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    failures += [f"line {block.line}: failed" for block in to_run if not run_block(block)]
    commands = table_commands(lines)
    for number, command in commands:
        if wrong := wrong_with_command(command):
            failures.append(f"line {number}: `{command}` {wrong}")
    if not to_run and not commands:
        failures.append("no block was run and no command was checked")
    for failure in failures:
        print(f"readme: {failure}")
    counts = f"{len(to_run)} of {len(blocks)} blocks run, {len(commands)} commands checked, {len(failures)} failures"
    print(f"readme: {counts}")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1] if len(sys.argv) > 1 else "README.md")))
