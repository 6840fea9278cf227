"""Holds docs/cudadent.schema.json and the reference in docs/cudadent.md against what the program prints.

    cudadent_schema_test.py CUDADENT ROOT            check; exit 0 when all hold
    cudadent_schema_test.py --rebase CUDADENT ROOT   write both files anew

Every shipped cudadent.toml must be valid under the schema, and files with planted mistakes must not be.
"""

from __future__ import annotations

import copy
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import jsonschema

try:
    import tomllib
except ImportError:  # Python 3.10 and older
    import tomli as tomllib  # type: ignore[no-redef]

BEGIN = "<!-- begin: cudadent schema --markdown -->\n"
END = "<!-- end: cudadent schema --markdown -->\n"

# What is planted into vector_add -> where the validator must find it.
PLANTS: dict[str, Any] = {
    "unknown key": {"treshold": {}},
    "wrong type": {"cost": {"machine_per_hour": "0.71"}},
    "out of range": {"thresholds": {"max_iterations": 21}},
    "not allowed": {"inputs": {"a": {"type": "f32[n]", "init": "unifrm"}}},
    "no function": {"kernel": "kernel.cpp"},
    "no such type": {"outputs": {"c": "f15[n]"}},
    "bad name": {"outputs": {"my-c": "f32[n]"}},
    "instance without grid": {"cuda": {"sources": ["kernel.cu"], "instances": [{"name": "k", "block": 1}]}},
    "no workload": {"workloads": {}},
    "tunable of no phase": {"tunables": {"stages": {"choices": [1, 2], "phase": "fast"}}},
    "rule without a reason": {"tunable_rules": [{"then": "stages < 2"}]},
}


def printed(cudadent: str, *arguments: str) -> str:
    command = [cudadent, "schema", *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True, timeout=60).stdout


def reference_of(manual: str) -> str:
    return manual.partition(BEGIN)[2].partition(END)[0]


def rebase(cudadent: str, root: Path) -> None:
    (root / "docs/cudadent.schema.json").write_text(printed(cudadent), encoding="utf-8")
    path = root / "docs/cudadent.md"
    manual = path.read_text(encoding="utf-8")
    old = BEGIN + reference_of(manual) + END
    path.write_text(manual.replace(old, BEGIN + printed(cudadent, "--markdown") + END), encoding="utf-8")


def check(cudadent: str, root: Path) -> list[str]:
    failures: list[str] = []
    fix = f"run {Path(__file__).name} --rebase {cudadent} {root}"
    text = printed(cudadent)
    if (root / "docs/cudadent.schema.json").read_text(encoding="utf-8") != text:
        failures.append(f"docs/cudadent.schema.json is not what cudadent schema prints: {fix}")
    if reference_of((root / "docs/cudadent.md").read_text(encoding="utf-8")) != printed(cudadent, "--markdown"):
        failures.append(f"the reference in docs/cudadent.md is not what cudadent schema --markdown prints: {fix}")
    schema = json.loads(text)
    jsonschema.Draft202012Validator.check_schema(schema)
    validator = jsonschema.Draft202012Validator(schema)
    projects = sorted([*root.glob("examples/*/cudadent.toml"), *root.glob("examples/cudadent/*/cudadent.toml")])
    if len(projects) < 6:
        failures.append(f"only {len(projects)} shipped projects found")
    for path in projects:
        for error in validator.iter_errors(tomllib.loads(path.read_text(encoding="utf-8"))):
            failures.append(f"{path}: {error.json_path}: {error.message}")
    good = tomllib.loads((root / "examples/cudadent/vector_add/cudadent.toml").read_text(encoding="utf-8"))
    for name, plant in PLANTS.items():
        if validator.is_valid(copy.deepcopy(good) | plant):
            failures.append(f"a file with a planted mistake is valid: {name}")
    if validator.is_valid({key: value for key, value in good.items() if key != "reference"}):
        failures.append("a file without a reference is valid")
    return failures


def main(arguments: list[str]) -> int:
    if arguments[:1] == ["--rebase"]:
        rebase(arguments[1], Path(arguments[2]))
        return 0
    failures = check(arguments[0], Path(arguments[1]))
    for failure in failures:
        print(failure)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
