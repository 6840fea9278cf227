"""What .ci/tidy remembers, on a tree of one file and one header.

    tidy_memory_test.py ROOT     exit 0 when all hold

A clean file is not looked at again, in another clone either; a changed file, header, flag or list of checks is, and a
file that is not clean always.
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

    def flags(self, more: str) -> None:
        build = self.directory / "build"
        build.mkdir(exist_ok=True)
        file = self.directory / "src" / "it.cpp"
        command = f"/usr/bin/env A=b /usr/bin/c++ -I{self.directory} {more} -o it.o -c {file}"
        entry = {"directory": str(build), "command": command, "file": str(file)}
        self.write("build/compile_commands.json", json.dumps([entry]))

    def says(self, what: str, why: str) -> None:
        done = subprocess.run(
            [sys.executable, str(self.tidy), "build", "src/it.cpp"],
            cwd=self.directory,
            env={**os.environ, "FLASHMOE_CACHE": str(self.directory.parent / "cache")},
            capture_output=True,
            text=True,
            check=False,
        )
        told = done.stdout.splitlines()
        assert told and told[0] == what, f"{why}: wanted '{what}', got\n{done.stdout}{done.stderr}"
        assert (done.returncode == 0) == (what != FAULTY), f"{why}: exit {done.returncode}"


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


if __name__ == "__main__":
    if not shutil.which("clang-tidy"):
        sys.exit("clang-tidy is missing: .ci/setup brings it")
    with tempfile.TemporaryDirectory() as temporary:
        check(Path(temporary), Path(sys.argv[1]).resolve())
    print("tidy memory: all hold")
