"""Holds the schemas of docs/ and the tables in docs/cudadent.md against what the program prints.

    cudadent_schema_test.py CUDADENT ROOT            check; exit 0 when all hold
    cudadent_schema_test.py --rebase CUDADENT ROOT   write the files anew

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

SCHEMAS: dict[str, list[str]] = {"docs/cudadent.schema.json": [], "docs/cudadent.answers.schema.json": ["--answers"]}
TABLES = ("--markdown", "--codes")  # of docs/cudadent.md

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


def fences(table: str) -> tuple[str, str]:
    return f"<!-- begin: cudadent schema {table} -->\n", f"<!-- end: cudadent schema {table} -->\n"


def table_in(manual: str, table: str) -> str:
    begin, end = fences(table)
    return manual.partition(begin)[2].partition(end)[0]


def rebase(cudadent: str, root: Path) -> None:
    for name, arguments in SCHEMAS.items():
        (root / name).write_text(printed(cudadent, *arguments), encoding="utf-8")
    path = root / "docs/cudadent.md"
    manual = path.read_text(encoding="utf-8")
    for table in TABLES:
        begin, end = fences(table)
        manual = manual.replace(begin + table_in(manual, table) + end, begin + printed(cudadent, table) + end)
    path.write_text(manual, encoding="utf-8")


def check(cudadent: str, root: Path) -> list[str]:
    failures: list[str] = []
    fix = f"run {Path(__file__).name} --rebase {cudadent} {root}"
    for name, arguments in SCHEMAS.items():
        if (root / name).read_text(encoding="utf-8") != printed(cudadent, *arguments):
            failures.append(f"{name} is not what cudadent schema {' '.join(arguments)} prints: {fix}")
    manual = (root / "docs/cudadent.md").read_text(encoding="utf-8")
    for table in TABLES:
        if table_in(manual, table) != printed(cudadent, table):
            failures.append(f"the table in docs/cudadent.md is not what cudadent schema {table} prints: {fix}")
    schema = json.loads(printed(cudadent))
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
