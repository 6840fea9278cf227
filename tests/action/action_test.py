"""The steps of the GitHub Action, as .github/actions/virtual-gpu/action.yml has them, in a shell of this machine.

    action_test.py INDEX NVCC [--whole]

A stranger's repository with GoogleTest files (project/) has a race and an overrun in its change and neither in its
base: both are annotated on their own lines and are in the SARIF file, all other tests are green. Two files; --whole:
all ten, and the base branch, too. INDEX is a folder with the wheel of cudadent. The Python that runs this has PyYAML.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

import yaml

HERE = Path(__file__).resolve().parent
ACTION = HERE.parents[1] / ".github/actions/virtual-gpu"
PLANTED = {  # what is wrong in the change: the check, and the line as the base has it
    "histogram_test.cu": ("racecheck", "counts[bin] += 1;", "atomicAdd(&counts[bin], 1);"),
    "stencil_test.cu": ("memcheck", "from[i + 1];", "from[min(i + 1, count - 1)];"),
}
PADDED = ("transpose_test.cu", "tile[32][33]", "tile[32][32]")  # right in both, but the base has bank conflicts
BUILD = """
mkdir -p build
printf '%s\\n' *_test.cu | xargs -P 2 -I {} nvcc -std=c++17 -arch=sm_80 -o build/{}.test {} -lgtest -lgtest_main
"""
TEST = """
status=0
for program in build/*.test; do "$program" || status=1; done
exit $status
"""


def git(repository: Path, *words: str) -> None:
    identity = ["-c", "user.name=somebody", "-c", "user.email=somebody@example.org"]
    subprocess.run(["git", *identity, *words], cwd=repository, check=True, capture_output=True)


def plant(repository: Path, name: str, old: str, new: str) -> None:
    file = repository / name
    if file.exists():
        text = file.read_text()
        assert text.count(old) == 1, f"{name} has not once {old}"
        file.write_text(text.replace(old, new))


def make_repository(folder: Path, whole: bool) -> Path:
    repository = folder / "repository"
    shutil.copytree(HERE / "project", repository)
    for file in repository.glob("*_test.cu"):
        if not whole and file.name not in PLANTED:
            file.unlink()
    changes = [(name, bad, good) for name, (_, bad, good) in PLANTED.items()] + [PADDED]
    git(repository, "init", "--quiet", "--initial-branch", "base")
    git(repository, "remote", "add", "origin", str(repository))
    for branch in ("base", "change"):
        for name, change, base in changes:
            plant(repository, name, *((change, base) if branch == "base" else (base, change)))
        if branch == "change":
            git(repository, "checkout", "--quiet", "-b", branch)
        git(repository, "add", "--all")
        git(repository, "commit", "--quiet", "--message", branch)
    return repository


@dataclass
class Run:
    """The steps of the Action up to the first that fails, as a runner does them."""

    repository: Path
    inputs: dict[str, str]
    variables: dict[str, str]
    code: int = 0
    outputs: dict[str, str] = field(default_factory=dict)  # of the steps that ran

    @property
    def output(self) -> str:
        return "".join(self.outputs.values())

    def value(self, text: str) -> str:
        return re.sub(r"\$\{\{ inputs\.(\w+) \}\}", lambda match: self.inputs[match[1]], text)

    def steps(self) -> None:
        action = yaml.safe_load((ACTION / "action.yml").read_text())
        for name, described in action["inputs"].items():
            self.inputs.setdefault(name, str(described["default"]))
        for step in action["runs"]["steps"]:
            condition = step.get("if", "true")
            assert condition in ("true", "inputs.base != ''"), condition
            if self.code != 0 or (condition != "true" and not self.inputs["base"]):
                continue
            environment = {name: self.value(text) for name, text in step.get("env", {}).items()}
            done = subprocess.run(
                ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]], cwd=self.repository, text=True,
                env=self.variables | environment, check=False, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            )  # fmt: skip
            self.code, self.outputs[step["name"]] = done.returncode, done.stdout


def check(holds: object, what: str, run: Run) -> None:
    if not holds:
        sys.exit(f"action: {what}\nsteps: {list(run.outputs)}, exit code {run.code}\n{run.output}")


def expected_places(repository: Path) -> set[tuple[str, str, int]]:
    found = set()
    for name, (kind, line, _) in PLANTED.items():
        lines = (repository / name).read_text().splitlines()
        found.add((kind, name, 1 + next(i for i, text in enumerate(lines) if line in text)))
    return found


def main(index: Path, nvcc: Path, whole: bool) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name).resolve()
        repository = make_repository(folder, whole)
        variables = os.environ | {
            "PATH": os.pathsep.join([str(nvcc.parent), *os.get_exec_path()]),
            "GITHUB_ACTION_PATH": str(ACTION),
            "GITHUB_OUTPUT": str(folder / "output"),
            "GITHUB_STEP_SUMMARY": str(folder / "summary.md"),
            "RUNNER_TEMP": str(folder / "temp"),
            "PIP_NO_INDEX": "1",
            "PIP_FIND_LINKS": str(index),
        }
        inputs = {"build": BUILD, "test": TEST, "base": "base" if whole else ""}
        run = Run(repository, inputs, variables)
        run.steps()
        steps = 4 if whole else 3
        check(run.code == 1 and len(run.outputs) == steps, "the last step, and it alone, has to fail", run)

        pattern = r"^::error file=([^,]+),line=(\d+),title=(\w+) on the virtual GPU::"
        annotated = re.findall(pattern, run.output, re.MULTILINE)
        places = [(kind, file, int(line)) for file, line, kind in annotated]
        check(len(places) == 2 and set(places) == expected_places(repository), f"annotated: {places}", run)
        check(run.output.count("::error") == 2, "something else is annotated", run)

        outputs = dict(line.split("=", 1) for line in (folder / "output").read_text().splitlines())
        results = json.loads(Path(outputs["sarif"]).read_text())["runs"][0]["results"]
        locations = [result["locations"][0]["physicalLocation"] for result in results]
        in_sarif = {(place["artifactLocation"]["uri"], place["region"]["startLine"]) for place in locations}
        check(in_sarif == {place[1:] for place in expected_places(repository)}, f"in the SARIF file: {in_sarif}", run)

        summary = (folder / "summary.md").read_text()
        check("2 findings in " in summary and "| `histogram" in summary, f"the summary is\n{summary}", run)
        # The overrun ends its context, so that its own test fails; the race leaves a result that its test takes.
        tests = len(list(repository.glob("*_test.cu")))
        passed = re.findall(r"^\[       OK \] (\w+)\.", run.outputs["The suite"], re.MULTILINE)
        told = f"{len(passed)} of {tests} tests passed"
        check(len(passed) == tests - 1 and "Stencil" not in passed, told, run)
        if whole:
            row = re.search(r"\| `transpose[^\n]*", summary)
            check(row and re.search(r"\*\*0\*\* \(base [1-9]", row[0]), f"no base beside it\n{summary}", run)
        print(f"action: {len(run.outputs)} steps, {told}; annotated: {sorted(places)}")


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    main(Path(sys.argv[1]).resolve(), Path(sys.argv[2]), "--whole" in sys.argv[3:])
