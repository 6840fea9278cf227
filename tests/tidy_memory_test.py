"""What .ci/tidy remembers, on a tree of one file and one header, and what it finds in files that it reads as one.

    tidy_memory_test.py ROOT     exit 0 when all hold

A clean file is not looked at again, in another clone either; a changed file, header, flag or list of checks is, and a
file that is not clean always. Files read as one are told apart, paths are followed through each of them, and one that
is clean only beside others is judged alone; what was clean together is not taken for clean alone.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

HEADER = "#pragma once\ninline int* nothing() { return nullptr; }\n"
FAULTY_HEADER = "#pragma once\ninline int* nothing() { return 0; }\n"
SOURCE = '#include "src/it.hpp"\nint* it() { return nothing(); }\n'
CHECKS = "Checks: '-*,modernize-use-nullptr'\nWarningsAsErrors: '*'\nHeaderFilterRegex: '.*'\n"
FAULTS = {  # one for each way in which checks look at code: its words, its flow, its paths
    "modernize-use-nullptr": "int* NAME() { return 0; }\n",
    "bugprone-use-after-move": "#include <utility>\nstruct NAME { NAME(); NAME(NAME&&); int of(); };\n"
    "int of_moved(NAME a) { NAME b = std::move(a); return a.of(); }\n",
    "clang-analyzer-core.NullDereference": "int NAME(int n) { int* p = nullptr; return n > 3 ? *p : n; }\n",
}
LOOKED, KNOWN, FAULTY = "src/it.cpp: clean", "src/it.cpp: clean, as before", "src/it.cpp: not clean"


class Clone:
    def __init__(self, directory: Path, root: Path) -> None:
        self.directory = directory
        self.tidy = root / ".ci" / "tidy"
        (directory / "src").mkdir(parents=True)
        self.write("src/it.hpp", HEADER)
        self.write("src/it.cpp", SOURCE)
        self.write(".clang-tidy", CHECKS)
        self.flags("")

    def write(self, name: str, text: str) -> None:
        (self.directory / name).write_text(text, encoding="utf-8")

    def flags(self, more: str, *names: str) -> None:
        build = self.directory / "build"
        build.mkdir(exist_ok=True)
        entries = []
        for name in names or ("it",):
            file = self.directory / "src" / f"{name}.cpp"
            command = f"/usr/bin/env A=b /usr/bin/c++ -I{self.directory} {more} -o {name}.o -c {file}"
            entries.append({"directory": str(build), "command": command, "file": str(file)})
        self.write("build/compile_commands.json", json.dumps(entries))

    def told(self, *arguments: str) -> tuple[int, list[str]]:
        done = subprocess.run(
            [sys.executable, str(self.tidy), *arguments],
            cwd=self.directory,
            env={**os.environ, "FLASHMOE_CACHE": str(self.directory.parent / "cache")},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        return done.returncode, done.stdout.splitlines()

    def says(self, what: str, why: str) -> None:
        status, told = self.told("build", "src/it.cpp")
        assert told and told[0] == what, f"{why}: wanted '{what}', got\n{told}"
        assert (status == 0) == (what != FAULTY), f"{why}: exit {status}"


def check(directory: Path, root: Path) -> None:
    clone = Clone(directory / "one", root)
    clone.says(LOOKED, "the first time")
    clone.says(KNOWN, "the second time")
    other = Clone(directory / "two", root)
    other.says(KNOWN, "another clone")

    clone.write("src/it.hpp", FAULTY_HEADER)
    clone.says(FAULTY, "a fault in the header")
    clone.says(FAULTY, "a fault that was seen before")
    clone.write("src/it.hpp", HEADER + "// more\n")
    clone.says(LOOKED, "another header")
    clone.says(KNOWN, "another header, the second time")
    other.says(KNOWN, "the first header, after another one was seen")

    clone.write("src/it.cpp", SOURCE + "// more\n")
    clone.says(LOOKED, "another source")
    clone.flags("-DMORE")
    clone.says(LOOKED, "another flag")
    clone.write(".clang-tidy", CHECKS.replace("nullptr'", "nullptr,modernize-use-override'"))
    clone.says(LOOKED, "another check")
    clone.says(KNOWN, "another check, the second time")


def check_together(directory: Path, root: Path) -> None:
    clone = Clone(directory / "many", root)
    headers = next(x for x in (root / ".clang-tidy").read_text(encoding="utf-8").splitlines() if "HeaderFilter" in x)
    checks = CHECKS.replace("modernize-use-nullptr", ",".join(FAULTS)).splitlines()[:2]
    clone.write(".clang-tidy", "\n".join([*checks, headers]) + "\n")
    names = ["one", "two", "three", "four"]
    files = [f"src/{name}.cpp" for name in names]
    clone.flags("", *names)

    def verdicts(*options: str) -> list[str]:
        _, told = clone.told(*options, "build", *files)
        return [line.removeprefix(file + ": ") for file in files for line in told if line.startswith(file + ": ")]

    for name in names:
        clone.write(f"src/{name}.cpp", f"int {name}() {{ return 0; }}\n")
    assert verdicts("--together", "4") == ["clean"] * 4, "four clean files"
    assert verdicts("--together", "4") == ["clean, as before"] * 4, "four clean files, the second time"
    assert verdicts() == ["clean"] * 4, "alone, what was clean together"
    for check, fault in FAULTS.items():
        clone.write("src/three.cpp", fault.replace("NAME", "three"))
        status, told = clone.told("--together", "4", "build", *files)
        assert status != 0 and any("three.cpp:" in line and f"[{check}," in line for line in told), (check, told)
        for name in ("one", "two", "four"):
            clone.write(f"src/{name}.cpp", f"// beside {check}\nint {name}() {{ return 0; }}\n")
        assert verdicts("--together", "4") == ["clean", "clean", "not clean", "clean"], f"beside {check}"
    clone.write("src/one.cpp", "#include <utility>\nint one() { return 1; }\n")
    clone.write("src/three.cpp", "int three(int n) { return std::exchange(n, 3); }\n")
    assert verdicts("--together", "4")[::2] == ["clean"] * 2, "one that lacks an include, behind one that has it"
    assert verdicts()[2] == "not clean", "alone, one that lacks an include"
    clone.write("src/one.cpp", "static int same() { return 1; }\nint one() { return same(); }\n")
    clone.write("src/three.cpp", "static int same() { return 3; }\nint three() { return same(); }\n")
    assert verdicts("--together", "4")[::2] == ["clean"] * 2, "two that go together with no other"


if __name__ == "__main__":
    if not shutil.which("clang-tidy"):
        sys.exit("clang-tidy is missing: .ci/setup brings it")
    with tempfile.TemporaryDirectory() as temporary:
        check(Path(temporary), Path(sys.argv[1]).resolve())
        check_together(Path(temporary), Path(sys.argv[1]).resolve())
    print("tidy memory: all hold")
