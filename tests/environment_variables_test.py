"""Holds docs/environment-variables.md against every place in the tree that reads the environment, both ways.

    environment_variables_test.py [ROOT]      exit 0 when it holds, 1 with one line per violation
    environment_variables_test.py --selftest  check that planted violations are found
    environment_variables_test.py --list      variable, and the files that read it

What counts as reading: getenv, os.environ and os.getenv; ENV{} and `HINTS ENV` in CMake, $env{} in presets; variables
of shell scripts that the script does not set itself. A name that is not written where it is read (getenv(name)) is
looked for among the literals of the same line, then of the file; helpers that others call with a name are listed below.
Setting a variable for a child is not reading it.
"""

from __future__ import annotations

import re
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

from tree import Plants, selftest, tracked_files

PAGE = "docs/environment-variables.md"
NAME = r"[A-Z][A-Z0-9_]*"
# Functions of headers and modules that read the variable whose name they are given.
HELPERS = ("from_environment",)
# Tests of readers of text have such text in them.
NOT_READ = ("tests/environment_variables_test.py", "fuzz/corpus/")
CODE_SUFFIXES = {".c", ".cpp", ".h", ".hpp", ".cu", ".cuh", ".py", ".pyi", ".in"}
CMAKE = re.compile(r"(?:^|/)CMakeLists\.txt$|\.cmake(?:\.in)?$|(?:^|/)CMakePresets\.json$")
# The shell's own.
SHELL_OWN = frozenset({"BASH", "BASH_SOURCE", "COMPREPLY", "EUID", "IFS", "LINENO", "PWD", "RANDOM", "SECONDS", "UID"})

LITERAL_READ = re.compile(
    rf"""getenv\(\s*["']({NAME})["']|os\.environ\.(?:get|setdefault|pop)\(\s*["']({NAME})["']"""
    rf"""|os\.environ\[["']({NAME})["']\](?!\s*=[^=])|["']({NAME})["'] (?:not )?in os\.environ"""
    rf"""|\b(?:{"|".join(HELPERS)})\(\s*["']({NAME})["']"""
)
INDIRECT_READ = re.compile(
    r"getenv\(\s*([A-Za-z_][\w.]*)\s*\)|os\.environ\.(?:get|setdefault|pop)\(\s*([A-Za-z_][\w.]*)"
    r"|os\.environ\[([A-Za-z_][\w.]*)\](?!\s*=[^=])"
)
LITERAL = re.compile(rf"""["'](?!.["'])({NAME})["']""")  # a single letter is a character of C++
CMAKE_READ = re.compile(rf"ENV\{{({NAME})\}}|\bENV ({NAME})\b|\$p?env\{{({NAME})\}}")
SHELL_USE = re.compile(rf"(?<!\\)\$(?:({NAME})|\{{[#!]?({NAME})(:?[-=?+])?)")
SHELL_SET = re.compile(
    rf"(?:^|[;&|({{]|\b(?:local|export|readonly|declare|for|read)\b[^\n;]*?|\s)\s*({NAME})(?:\[[^]]*\])?\+?=",
    re.MULTILINE,
)
SHELL_LOOP = re.compile(rf"\bfor ({NAME}) in\b")
COMMENT_CPP = re.compile(r"//[^\n]*")
COMMENT_HASH = re.compile(r"(?:^|(?<=\s))#[^\n]*", re.MULTILINE)


def is_shell(name: str, text: str) -> bool:
    return name.endswith(".sh") or re.match(r"#!\S*(?:/|env )(?:ba|da|z)?sh\b", text) is not None


def first_group(match: re.Match[str]) -> str:
    return next(group for group in match.groups() if group)


def read_in_shell(text: str) -> set[str]:
    text = COMMENT_HASH.sub("", text)
    own = {match.group(1) for match in SHELL_SET.finditer(text)} | {m.group(1) for m in SHELL_LOOP.finditer(text)}
    read: set[str] = set()
    for match in SHELL_USE.finditer(text):
        name = match.group(1) or match.group(2)
        # ${X:-default} asks whoever started the script, also when the script sets X from it.
        if name not in SHELL_OWN and (match.group(3) or name not in own):
            read.add(name)
    return read


def literals_behind(code: str, read: re.Match[str]) -> set[str]:
    """The names that getenv(name) may stand for: in its line, else assigned to `name`, else all that the file has."""
    line = code[code.rfind("\n", 0, read.start()) + 1 :].partition("\n")[0]
    assigned = re.findall(rf"""\b{re.escape(first_group(read))}\b[^\n=]*=\s*["']({NAME})["']""", code)
    return set(LITERAL.findall(line)) or set(assigned) or set(LITERAL.findall(code.replace('extern "C"', "")))


def reads_of(name: str, text: str) -> tuple[set[str], str]:
    """The variables that a file reads; why it cannot be told, or nothing."""
    if CMAKE.search(name):
        return {first_group(match) for match in CMAKE_READ.finditer(COMMENT_HASH.sub("", text))}, ""
    is_python = name.endswith((".py", ".pyi")) or re.match(r"#!\S*(?:/|env )python", text) is not None
    if not is_python and is_shell(name, text):
        return read_in_shell(text), ""
    if not is_python and Path(name).suffix not in CODE_SUFFIXES:
        return set(), ""
    code = (COMMENT_HASH if is_python else COMMENT_CPP).sub("", text)
    read = {first_group(match) for match in LITERAL_READ.finditer(code)}
    for match in INDIRECT_READ.finditer(code):
        literals = literals_behind(code, match)
        if not literals and not any(re.search(rf"\b{helper}\(\s*(?:const|name)", code) for helper in HELPERS):
            return read, "reads a variable whose name is not in the file; add the function to HELPERS"
        read |= literals
    return read, ""


def all_reads(root: Path) -> tuple[dict[str, set[str]], list[str]]:
    readers: dict[str, set[str]] = defaultdict(set)
    wrong = []
    for name in tracked_files(root):
        if name.startswith(NOT_READ):
            continue
        try:
            text = (root / name).read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue
        read, problem = reads_of(name, text)
        if problem:
            wrong.append(f"{name}: {problem}")
        for variable in read:
            readers[variable].add(name)
    return readers, wrong


def rows_of(page: str) -> Iterator[tuple[int, list[str], set[str]]]:
    """Line, variables and files of each row of the tables whose second column is `read in`."""
    reading = False
    for number, line in enumerate(page.splitlines(), 1):
        if not line.startswith("|"):
            reading = False
            continue
        cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
        if len(cells) > 1 and cells[1] == "read in":
            reading = True
        elif reading and not cells[0].startswith("---"):
            yield number, re.findall(rf"`({NAME})`", cells[0]), set(re.findall(r"`([^`]+)`", cells[1]))


def check(root: Path) -> tuple[list[str], int]:
    readers, wrong = all_reads(root)
    told: set[str] = set()
    for number, variables, files in rows_of((root / PAGE).read_text(encoding="utf-8")):
        if not variables or not files:
            wrong.append(f"{PAGE}:{number}: a row names a variable and the files that read it")
        for variable in variables:
            if variable in told:
                wrong.append(f"{PAGE}:{number}: {variable} has two rows")
            told.add(variable)
            for file in sorted(files - readers.get(variable, set())):
                wrong.append(f"{PAGE}:{number}: {file} does not read {variable}")
            for file in sorted(readers.get(variable, set()) - files):
                wrong.append(f"{PAGE}:{number}: {file} reads {variable}, too")
    for variable in sorted(set(readers) - told):
        wrong.append(f"{PAGE}: {variable} has no row; read in {', '.join(sorted(readers[variable]))}")
    return wrong, len(told)


CLEAN = {
    PAGE: (
        "| variable | read in | default |\n| --- | --- | --- |\n| `GOOD` | `src/good.cpp` | 1 |\n"
        "| `ONE`, `TWO` | `src/many.cpp` | none |\n| `ASKED` | `run.sh` | 3 |\n\n"
        "| other | table |\n| `NOT_OURS` | x |\n"
    ),
    "src/good.cpp": 'auto a = std::getenv("GOOD");  // getenv("COMMENT")\nauto text = "IN_TEXT";\n',
    "src/many.cpp": 'auto v(const char* name) { return getenv(name); }\nauto a = v("ONE"), b = v("TWO");\n',
    "run.sh": 'ASKED=${ASKED:-3}\nOWN=1\necho "$ASKED $OWN $PWD"  # $COMMENT\n',
    "tests/child.py": 'env = {**os.environ, "CHILD": "1"}\nos.environ["SET"] = "1"\n',
}


def planted(row: str) -> str:
    return CLEAN[PAGE].replace("| `GOOD`", row + "\n| `GOOD`")


PLANTS: Plants = {
    "getenv": ("src/bad.cpp", 'getenv("HIDDEN");\n', "HIDDEN has no row; read in src/bad.cpp"),
    "getenv of a known one": ("src/bad.cpp", 'std::getenv("GOOD");\n', "src/bad.cpp reads GOOD, too"),
    "getenv by a name": ("src/bad.cpp", 'const char* k = "HIDDEN";\ngetenv(k);\n', "HIDDEN has no row"),
    "getenv by somebody else's name": ("src/bad.cpp", "f(char* k) { getenv(k); }\n", "src/bad.cpp: reads a variable"),
    "helper": ("src/bad.cpp", 'from_environment("HIDDEN", 1);\n', "HIDDEN has no row"),
    "os.environ.get": ("bad.py", 'os.environ.get("HIDDEN", "")\n', "HIDDEN has no row; read in bad.py"),
    "os.environ[]": ("bad.py", 'x = os.environ["HIDDEN"]\n', "HIDDEN has no row"),
    "os.environ[] compared": ("bad.py", 'if os.environ["HIDDEN"] == "1": pass\n', "HIDDEN has no row"),
    "in os.environ": ("bad.py", 'if "HIDDEN" in os.environ: pass\n', "HIDDEN has no row"),
    "os.getenv": ("bad.py", 'os.getenv("HIDDEN")\n', "HIDDEN has no row"),
    "os.environ by a constant": ("bad.py", 'V = "HIDDEN"\nos.environ.get(V)\n', "HIDDEN has no row"),
    "Python in C++": ("src/bad.cpp", 'R"(os.environ.get("HIDDEN"))"\n', "HIDDEN has no row"),
    "ENV{}": ("src/CMakeLists.txt", "set(a $ENV{HIDDEN})\n", "HIDDEN has no row; read in src/CMakeLists.txt"),
    "DEFINED ENV{}": ("cmake/bad.cmake", "if(DEFINED ENV{HIDDEN})\n", "HIDDEN has no row"),
    "HINTS ENV": ("cmake/bad.cmake", "find_program(a b HINTS ENV HIDDEN)\n", "HIDDEN has no row"),
    "preset": ("CMakePresets.json", '{"a": "$penv{HIDDEN}"}\n', "HIDDEN has no row"),
    "${:-}": ("bad.sh", "x=${HIDDEN:-1}\n", "HIDDEN has no row; read in bad.sh"),
    "${:-} of one's own name": ("bad.sh", "HIDDEN=${HIDDEN:-1}\n", "HIDDEN has no row"),
    "plain in a script": ("tool", '#!/usr/bin/env bash\necho "$HIDDEN"\n', "HIDDEN has no row; read in tool"),
    "row that nobody reads": (PAGE, planted("| `GONE` | `src/good.cpp` | |"), "src/good.cpp does not read GONE"),
    "row with a wrong file": (PAGE, CLEAN[PAGE].replace("src/good.cpp", "run.sh"), "run.sh does not read GOOD"),
    "row without a file": (PAGE, planted("| `GONE` | somebody | |"), "a row names a variable and the files"),
    "two rows": (PAGE, planted("| `ASKED` | `run.sh` | |"), "ASKED has two rows"),
}


def main(arguments: list[str]) -> int:
    if arguments == ["--selftest"]:
        return selftest(CLEAN, PLANTS, lambda root: check(root)[0])
    is_list = arguments == ["--list"]
    root = Path(arguments[0] if arguments and not is_list else Path(__file__).parent.parent).resolve()
    if is_list:
        for variable, files in sorted(all_reads(root)[0].items()):
            print(variable, *sorted(files))
        return 0
    wrong, variables = check(root)
    for line in wrong:
        print(line)
    print(f"environment: {variables} variables, {len(wrong)} violations")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
