"""What every command of cudadent promises: a manual page, exit codes, a fast first answer, completion.

cudadent_cli_test.py CUDADENT     exit 0 when all hold
"""

from __future__ import annotations

import json
import math
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

SECTIONS = ("NAME", "SYNOPSIS", "OPTIONS", "EXIT STATUS")
LATEST_FIRST_OUTPUT_SECONDS = 0.2
ATTEMPTS = 20
failures: list[str] = []


def expect(holds: bool, what: str) -> None:
    if not holds:
        failures.append(what)


def run(*arguments: str, cwd: str | None = None) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"NO_COLOR": "1"}
    return subprocess.run(arguments, capture_output=True, text=True, timeout=200, cwd=cwd, env=environment)


def commands_of(manual: str) -> list[str]:
    listed = manual.partition("\nCOMMANDS\n")[2].partition("\n\n")[0]
    return [line.split()[0] for line in listed.splitlines() if line.startswith("  ")]


def check_manual(cudadent: str) -> list[str]:
    top = run(cudadent, "--help")
    expect(top.returncode == 0 and not top.stderr, "--help goes to stdout with exit code 0")
    commands = commands_of(top.stdout)
    expect({"new", "schema", "completion"} <= set(commands), f"--help lists the commands, not {commands}")
    for arguments in ([], *([command] for command in commands)):
        page = run(cudadent, *arguments, "--help")
        name = " ".join(["cudadent", *arguments])
        expect(page.returncode == 0, f"{name} --help exits with {page.returncode}")
        for section in SECTIONS:
            expect(f"\n{section}\n" in "\n" + page.stdout, f"{name} --help has no section {section}")
        expect("\nEXAMPLES\n" in page.stdout, f"{name} --help has no examples")
        expect(page.stdout.startswith(f"NAME\n  {name} - "), f"{name} --help does not begin with its name")
        long_lines = [line for line in page.stdout.splitlines() if len(line) > 125]
        expect(not long_lines, f"{name} --help has lines over 125 characters: {long_lines[:1]}")
    return commands


def check_usage_errors(cudadent: str) -> None:
    for arguments, says in (
        (["gat"], "did you mean 'gate'?"),
        (["foo"], "no command 'foo'"),
        (["journal", "--kind", "nonesuch"], "nonesuch"),
        (["journal", "--last", "0"], "--last"),
        (["journal", "/no/such/directory"], "/no/such/directory"),
        (["journal", "--show", "a", "--keep", "b"], "--keep"),
        (["schmea"], "did you mean 'schema'?"),
        (["schema", "--markdwn"], "did you mean '--markdown'?"),
        (["completion", "tcsh"], "tcsh"),
        (["completion"], "SHELL"),
        (["journal", "merge"], "see: cudadent journal merge --help"),
    ):
        result = run(cudadent, *arguments)
        expect(result.returncode == 2, f"{arguments} exits with {result.returncode}, not 2")
        expect(says in result.stderr, f"{arguments} says {result.stderr!r}, not {says!r}")
        expect("--help" in result.stderr, f"{arguments} does not point at --help")
        expect(not result.stdout, f"{arguments} writes to stdout")
        for flag in ("--json", "--json=short"):
            asked = run(cudadent, *arguments, flag)
            answer = json.loads(asked.stdout)
            codes = (asked.returncode, answer["exit_code"])
            expect(codes == (2, 2), f"{arguments} {flag} exits with {codes}")
            expect(answer["error"]["code"].startswith("usage."), f"{arguments} {flag} says {answer['error']}")
            expect(says in answer["error"]["message"] + answer["error"]["fix"], f"{arguments} {flag} says {answer}")
            expect(answer["next"].startswith("cudadent "), f"{arguments} {flag} leads to {answer['next']}")


def check_bare(cudadent: str) -> None:
    with tempfile.TemporaryDirectory() as directory:
        bare = run(cudadent, cwd=directory)
        expect(bare.returncode == 0 and "cudadent new" in bare.stdout, f"bare cudadent says {bare.stdout}{bare.stderr}")
        expect(bare.stdout == run(cudadent, "status", cwd=directory).stdout, "bare cudadent is not cudadent status")
        expect("\033" not in bare.stdout, "bare cudadent paints where nobody looks")
        run(cudadent, "new", "mine", cwd=directory)
        begun = json.loads(run(cudadent, "status", "--json", cwd=directory).stdout)
        expect(begun["project"] == "mine" and begun["next"] == "cudadent gate", f"a new project: {begun}")


def check_lost_output(cudadent: str) -> None:
    for arguments in (["--help"], ["--version"], ["schema"], ["journal", "--json"]):
        with open("/dev/full", "w") as full:
            result = subprocess.run([cudadent, *arguments], stdout=full, stderr=subprocess.PIPE, text=True, timeout=200)
        expect(result.returncode == 4, f"{arguments} to a full disk exits with {result.returncode}, not 4")
        expect("could not be written" in result.stderr, f"{arguments} to a full disk says {result.stderr!r}")


def check_new(cudadent: str) -> None:
    with tempfile.TemporaryDirectory() as directory:
        made = run(cudadent, "new", "--json", "mine", cwd=directory)
        expect(made.returncode == 0, f"new fails: {made.stderr}")
        said = json.loads(made.stdout)
        expect(said["name"] == "mine" and said["next"] == "cudadent gate", f"new says {said}")
        expect(sorted(said["files"]) == sorted(os.listdir(directory)), f"new lists {said['files']}")
        kept = Path(directory, "kernel.cpp").read_text(encoding="utf-8")
        again = run(cudadent, "new", cwd=directory)
        expect(again.returncode == 2 and "already there" in again.stderr, f"new again: {again.stderr}")
        expect(Path(directory, "kernel.cpp").read_text(encoding="utf-8") == kept, "new overwrites")


def check_completion(cudadent: str, commands: list[str]) -> None:
    for shell in ("bash", "zsh", "fish"):
        script = run(cudadent, "completion", shell).stdout
        for command in commands:
            expect(command in script, f"{shell} completion does not know {command}")
        if shutil.which(shell):
            with tempfile.NamedTemporaryFile("w", suffix=f".{shell}") as file:
                file.write(script)
                file.flush()
                checked = run(shell, "-n", file.name)
                expect(checked.returncode == 0, f"{shell} does not accept its completion: {checked.stderr}")
    probe = (
        f'source <("{cudadent}" completion bash)\n'
        "COMP_WORDS=(cudadent sch) COMP_CWORD=1 && _cudadent && echo ${COMPREPLY[*]}\n"
        "COMP_WORDS=(cudadent schema --mark) COMP_CWORD=2 && _cudadent && echo ${COMPREPLY[*]}\n"
    )
    completed = run("bash", "-c", probe)
    expect(completed.stdout == "schema\n--markdown\n", f"bash completes {completed.stdout!r} {completed.stderr!r}")


def check_first_output(cudadent: str, commands: list[str]) -> None:
    for arguments in (["--version"], ["--help"], *([command, "--help"] for command in commands)):
        # The best of a few: what the program takes, not what the machine does at the moment.
        best = math.inf
        for _ in range(ATTEMPTS):
            best = min(best, seconds_of(cudadent, *arguments))
            if best <= LATEST_FIRST_OUTPUT_SECONDS:
                break
        expect(best <= LATEST_FIRST_OUTPUT_SECONDS, f"{arguments}: first output after {best:.3f} s")


def seconds_of(*arguments: str) -> float:
    begin = time.perf_counter()
    run(*arguments)
    return time.perf_counter() - begin


def main(arguments: list[str]) -> int:
    cudadent = str(Path(arguments[0]).resolve())
    commands = check_manual(cudadent)
    check_usage_errors(cudadent)
    check_bare(cudadent)
    check_lost_output(cudadent)
    check_new(cudadent)
    check_completion(cudadent, commands)
    check_first_output(cudadent, commands)
    for failure in failures:
        print(failure)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
