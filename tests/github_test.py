"""Holds .github against the tree: the gate for outside contributors, publishing, and the forms of issues.

    github_test.py [ROOT]      exit 0 when it holds, 1 with one line per violation
    github_test.py --selftest  check that planted violations are found

The workflow runs steps that .ci/run has, in its order and with setup first, and each step is run or left out with a
reason. Both workflows install from Debian and PyPI alone (hashes compared), use nobody's action and know no secret.
Publishing is started by hand, is a dry run unless told, and rehearses first. Each form of an issue asks for the output
of the doctor and of the planner.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

from tree import Plants, selftest

GATE = ".ci/run"
WORKFLOW = ".github/workflows/gate.yml"
PUBLISH = ".github/workflows/publish.yml"
FORMS = ".github/ISSUE_TEMPLATE"
STEPS = re.compile(r"^(\w+)=\(\n(.*?)^\)", re.MULTILINE | re.DOTALL)
STEP = re.compile(r'^  "([\w-]+) +\d+ \w+[^"]*"$', re.MULTILINE)
ONLY = re.compile(r"--only (\S+)")
LEFT_OUT = re.compile(r"^#   ([\w-]+) +(\S.*)$", re.MULTILINE)
INSTALL = re.compile(r"(?:\b(?:curl|wget|npm|docker|gem|cargo|go install)\b|\buses:)[^\n]*")
PIP = re.compile(r"pip install\b[^\n]*")
ASKED_FOR = {"doctor": "cudadent doctor", "plan": "plan("}


def steps_of(gate: str) -> dict[str, list[str]]:
    return {name: STEP.findall(lines) for name, lines in STEPS.findall(gate)}


def check_workflow(root: Path) -> list[str]:
    gate = steps_of((root / GATE).read_text(encoding="utf-8"))
    usual, nightly = gate.get("steps", []), gate.get("nightly_steps", [])
    text = (root / WORKFLOW).read_text(encoding="utf-8")
    wrong = [] if usual else [f"{GATE}: no steps were found"]
    left_out = dict(LEFT_OUT.findall(text))
    body = re.sub(r"^ *#[^\n]*", "", text, flags=re.MULTILINE)
    run: set[str] = set()
    for number, line in enumerate(body.splitlines(), 1):
        names = ONLY.findall(line)
        run |= set(names)
        wrong += [f"{WORKFLOW}:{number}: .ci/run has no step {name}" for name in names if name not in usual + nightly]
        known = [usual.index(name) for name in names if name in usual]
        if known != sorted(known):
            wrong.append(f"{WORKFLOW}:{number}: the steps are not in the order of .ci/run")
        if names and names[0] != "setup":
            wrong.append(f"{WORKFLOW}:{number}: setup is not the first step")
    for name in usual:
        if name not in run and name not in left_out:
            wrong.append(f"{WORKFLOW}: the step {name} is neither run nor left out with a reason")
    for name in left_out:
        if name not in usual + nightly:
            wrong.append(f"{WORKFLOW}: {name} is left out, but .ci/run has no such step")
        elif name in run:
            wrong.append(f"{WORKFLOW}: {name} is left out and run")
    return wrong


def check_origins(root: Path, workflow: str) -> list[str]:
    wrong = []
    text = (root / workflow).read_text(encoding="utf-8")
    for number, line in enumerate(re.sub(r"^ *#[^\n]*", "", text, flags=re.MULTILINE).splitlines(), 1):
        if found := INSTALL.search(line):
            wrong.append(f"{workflow}:{number}: neither Debian nor PyPI: {found.group().strip()}")
        if (found := PIP.search(line)) and "--require-hashes" not in found.group():
            wrong.append(f"{workflow}:{number}: pip does not compare hashes")
        if "secrets." in line:
            wrong.append(f"{workflow}:{number}: a secret")
        for path in re.findall(r" -r (\S+)|((?:packaging|\.ci)/[\w./-]+)", line):
            if not (root / "".join(path)).is_file():
                wrong.append(f"{workflow}:{number}: {''.join(path)} is not in the tree")
    return wrong


def check_publishing(root: Path) -> list[str]:
    text = (root / PUBLISH).read_text(encoding="utf-8")
    wrong = []
    if re.findall(r"^  (\w+):$", text.partition("\non:\n")[2].partition("\npermissions:")[0], re.MULTILINE) != [
        "workflow_dispatch"
    ]:
        wrong.append(f"{PUBLISH}: it may be started by something else than a hand")
    if "default: false" not in text or "${{ inputs.upload && ' ' || '--dry-run' }}" not in text:
        wrong.append(f"{PUBLISH}: it is no dry run unless told")
    if not 0 <= text.find("packaging/rehearse.py") < text.find("uv publish --trusted-publishing always"):
        wrong.append(f"{PUBLISH}: it does not rehearse before it uploads by trusted publishing")
    return wrong


def check_forms(root: Path) -> list[str]:
    forms = [path for path in sorted((root / FORMS).glob("*.yml")) if path.name != "config.yml"]
    wrong = [] if forms else [f"{FORMS}: no form was found"]
    for path in forms:
        text = path.read_text(encoding="utf-8")
        for field, words in ASKED_FOR.items():
            if f"id: {field}\n" not in text or words not in text:
                wrong.append(f"{FORMS}/{path.name}: does not ask for {field}'s output ({words})")
    return wrong


def check(root: Path) -> list[str]:
    origins = [fault for workflow in (WORKFLOW, PUBLISH) for fault in check_origins(root, workflow)]
    return check_workflow(root) + origins + check_publishing(root) + check_forms(root)


CLEAN = {
    GATE: 'steps=(\n  "setup          1200 alone"\n  "build          10 front setup"\n  "bench          9 alone"\n)\n'
    'nightly_steps=(\n  "selftest       1800 alone"\n)\n',
    ".ci/requirements.txt": "",
    WORKFLOW: "# Left out:\n#   bench   no clock\nname: gate\nsteps: --only setup --only build\n"
    "run: pip install --require-hashes -r .ci/requirements.txt\n",
    "packaging/rehearse.py": "",
    PUBLISH: "name: publish\non:\n  workflow_dispatch:\n    default: false\npermissions:\n"
    "run: packaging/rehearse.py dist\n"
    "run: uv publish --trusted-publishing always ${{ inputs.upload && ' ' || '--dry-run' }}\n",
    f"{FORMS}/bug.yml": "- id: doctor\n  label: cudadent doctor --json\n- id: plan\n  label: plan(q, k, v)\n",
    f"{FORMS}/config.yml": "blank_issues_enabled: true\n",
}


def workflow(old: str, new: str, file: str = WORKFLOW) -> tuple[str, str]:
    assert old in CLEAN[file]
    return file, CLEAN[file].replace(old, new)


PLANTS: Plants = {
    "a step that is none": (*workflow("--only build", "--only build --only biuld"), "has no step biuld"),
    "a step left out": (*workflow(" --only build", ""), "the step build is neither run nor left out"),
    "a step without its reason": (*workflow("#   bench   no clock\n", ""), "the step bench is neither run nor left"),
    "a new step of the gate": (
        GATE,
        CLEAN[GATE].replace("steps=(", 'steps=(\n  "new            1 back"', 1),
        "the step new",
    ),
    "left out and run": (*workflow("--only build", "--only build --only bench"), "bench is left out and run"),
    "left out but none": (*workflow("#   bench", "#   gone   why\n#   bench"), "gone is left out, but .ci/run has no"),
    "another order": (*workflow("--only setup --only build", "--only build --only setup"), "not in the order"),
    "without setup": (*workflow("--only setup ", ""), "setup is not the first step"),
    "an action of others": (*workflow("name: gate", "uses: a/b@v1"), "neither Debian nor PyPI: uses: a/b@v1"),
    "a download": (*workflow("name: gate", "run: curl -O x"), "neither Debian nor PyPI: curl"),
    "pip without hashes": (*workflow("--require-hashes ", ""), "pip does not compare hashes"),
    "requirements that are gone": (*workflow("-r .ci/req", "-r .ci/rec"), ".ci/recuirements.txt is not in the tree"),
    "publishing at each push": (*workflow("\npermissions", "\n  push:\npermissions", PUBLISH), "else than a hand"),
    "an upload unless told": (*workflow("default: false", "default: true", PUBLISH), "no dry run unless told"),
    "no rehearsal": (*workflow("run: packaging/rehearse.py dist\n", "", PUBLISH), "does not rehearse"),
    "a token": (*workflow("uv publish", "T=${{ secrets.T }} uv publish", PUBLISH), "a secret"),
    "a script that is gone": (*workflow("rehearse.py", "rehears.py", PUBLISH), "rehears.py is not in the tree"),
    "an uploader of others": (*workflow("name: publish", "uses: a/b@v1", PUBLISH), "neither Debian nor PyPI: uses"),
    "a form without the doctor": (f"{FORMS}/bug.yml", "- id: plan\n  x: plan(q)\n", "does not ask for doctor's output"),
    "a form without the plan": (f"{FORMS}/bug.yml", "- id: doctor\n  x: cudadent doctor\n", "does not ask for plan's"),
    "a gate without steps": (GATE, "echo\n", "no steps were found"),
}


def main(arguments: list[str]) -> int:
    if arguments == ["--selftest"]:
        return selftest(CLEAN, PLANTS, check)
    root = Path(arguments[0] if arguments else Path(__file__).parent.parent).resolve()
    wrong = check(root)
    for line in wrong:
        print(line)
    print(f"github: {len(wrong)} violations")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
