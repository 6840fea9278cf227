"""Each test of a program that holds several sources is run by the ctest test of exactly one of them.

    tests_together_test.py LIST     exit 0 when all hold

LIST is what CMake wrote: a program and a source a line, one line for each ctest test.
"""

from __future__ import annotations

import subprocess
import sys
from collections import Counter, defaultdict
from pathlib import Path


def listed(program: str, *arguments: str) -> list[str]:
    """The full names of the tests that a call would run."""
    done = subprocess.run(
        [program, "--gtest_list_tests", *arguments], capture_output=True, text=True, check=True, timeout=60
    )
    names = []
    suite = ""
    for line in done.stdout.splitlines():
        name = line.split("#")[0].rstrip()
        if name.startswith("  "):
            names.append(suite + name.strip())
        elif name.endswith("."):
            suite = name
    return names


def check(program: str, sources: list[str]) -> int:
    every = listed(program)
    of_source = [(source, listed(program, f"--source={source}")) for source in sources]
    assert all(names for _, names in of_source), f"{program}: a source without a test"
    runs = Counter(name for _, names in of_source for name in names)
    assert max(runs.values()) == 1, f"{program}: run more than once: {[n for n, times in runs.items() if times > 1]}"
    assert set(runs) == set(every), f"{program}: run by no ctest test: {sorted(set(every) - set(runs))}"

    # A filter chooses among the tests of the source, in both of its halves.
    source, names = of_source[0]
    first = names[0]
    assert listed(program, f"--source={source}", f"--gtest_filter={first}") == [first]
    assert listed(program, f"--source={source}", f"--gtest_filter=-{first}") == names[1:]
    unknown = subprocess.run([program, "--source=no_such_test.cpp"], capture_output=True, text=True, check=False)
    assert unknown.returncode != 0 and "no_such_test.cpp" in unknown.stderr, f"{program}: an unknown source passes"
    return len(every)


def main(file: Path) -> int:
    sources = defaultdict(list)
    for line in file.read_text(encoding="utf-8").splitlines():
        program, source = line.rsplit(" ", 1)
        sources[program].append(source)
    assert sources, f"{file} names no program"
    tests = sum(check(program, names) for program, names in sources.items())
    print(f"{len(sources)} programs, {sum(map(len, sources.values()))} sources, {tests} tests: each runs once")
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
