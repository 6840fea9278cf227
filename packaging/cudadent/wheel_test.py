"""The wheel `cudadent` as somebody meets it: from an index into a fresh environment without nvcc and CMake.

    wheel_test.py INDEX WORK README PACKAGES ...

INDEX holds the wheel. PACKAGES are folders with what a user would install besides (torch, Triton, cuda-python, pytest),
so that nothing is downloaded. The commands are README's, word for word; its block is marked with this file's name.
Prints the wheel's size, and the time from `pip install` to the first finding.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import time
import zipfile
from pathlib import Path

FIRST_FINDING_SECONDS = 60
GOAL_MEGABYTES = 15
PROMISED_GLIBC = 34
# What is left on the PATH: a shell, and the compiler that Triton wants.
TOOLS = ("sh", "bash", "env", "cat", "uname", "dirname", "gcc", "cc", "g++", "c++", "as", "ld", "ldconfig", "objdump")
NAME = re.compile(r"cudadent-[\w.]+-py3-none-manylinux_2_(\d+)_x86_64\.whl")
LOADABLE = {
    f"lib{name}"
    for name in (
        "cuda.so cuda.so.1 cudart.so.13 cublas.so.13 cublasLt.so.13 nvJitLink.so.13 nvidia-ml.so.1".split()
    )
}
SUITE = "def test_race():\n    import cudadent.examples.first_finding\n\ndef test_fine():\n    pass\n"


def check(holds: bool, what: str) -> None:
    if not holds:
        sys.exit(f"wheel: {what}")


def readme_commands(readme: Path) -> list[tuple[str, list[int]]]:
    """The commands of the block, and the exit codes that they may have."""
    block = re.search(r"<!-- not run: [^\n]*wheel_test\.py[^\n]*-->\n```sh\n(.*?)```", readme.read_text(), re.DOTALL)
    check(block is not None, f"{readme} has no block for this test")
    assert block is not None
    found = []
    for line in block[1].splitlines():
        command, _, comment = line.partition("#")
        if command.startswith("cudadent "):
            said = re.search(r"exit code (\d)", comment)
            # 3: this machine could be better.
            found.append((command.strip(), [int(said[1])] if said else [0, 3] if "doctor" in command else [0]))
    return found


def only_what_belongs(wheel: Path) -> None:
    name = NAME.fullmatch(wheel.name)
    check(name is not None, f"{wheel.name} is not for every Python, or no manylinux")
    assert name is not None
    check(int(name[1]) <= PROMISED_GLIBC, f"{wheel.name} wants a newer glibc than the 2.{PROMISED_GLIBC} of README")
    with zipfile.ZipFile(wheel) as file:
        names = file.namelist()
        metadata = file.read(next(name for name in names if name.endswith("/METADATA"))).decode()
    libraries = {Path(name).name for name in names if "/lib/" in name and not name.endswith("/")}
    check(libraries == LOADABLE, f"its libraries are {sorted(libraries)}")
    check(not [name for name in names if "flashmoe_science" in name], "the attention library is in it")
    outside = [name for name in names if not re.match(r"cudadent(-[\w.]+\.dist-info)?/", name)]
    check(not outside, f"it puts files outside of its own folder: {outside}")
    check("\nSummary: Virtual CUDA GPU and kernel workflow\n" in metadata, "its summary is another one")
    check("\nRequires-Dist:" not in metadata, "it wants other packages")
    size = wheel.stat().st_size / 1e6
    print(f"wheel: {wheel.name}: {size:.1f} MB (goal {GOAL_MEGABYTES})")
    check(size <= GOAL_MEGABYTES, "it is larger than the goal")


class Environment:
    def __init__(self, folder: Path) -> None:
        shutil.rmtree(folder, ignore_errors=True)
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
        self.folder, self.tools = folder, folder / "tools"
        self.tools.mkdir()
        for tool in TOOLS:
            if found := shutil.which(tool, path=":".join([*os.get_exec_path(), "/sbin", "/usr/sbin"])):
                (self.tools / tool).symlink_to(found)
        self.variables = {"PATH": f"{folder / 'bin'}:{self.tools}", "HOME": str(folder), "NO_COLOR": "1"}
        self.variables |= {"TRITON_CACHE_DIR": str(folder / "triton"), "TRITON_DEFAULT_FP_FUSION": "1"}
        for name in ("nvcc", "cmake"):
            check(shutil.which(name, path=self.variables["PATH"]) is None, f"{name} is on the PATH")

    def install(self, index: Path) -> None:
        pip = [sys.executable, "-m", "pip", "--python", str(self.folder / "bin/python"), "--disable-pip-version-check"]
        subprocess.run([*pip, "install", "--quiet", "--no-index", "--find-links", str(index), "cudadent"], check=True)

    def show(self, packages: list[str]) -> None:
        """What a second `pip install` would bring."""
        site = next(self.folder.glob("lib/python3*/site-packages"))
        (site / "others.pth").write_text("\n".join(packages) + "\n")

    def run(self, command: str) -> tuple[int, str]:
        done = subprocess.run(
            ["bash", "-c", command], cwd=self.folder, env=self.variables, text=True, timeout=600, check=False,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL,
        )  # fmt: skip
        return done.returncode, done.stdout


def main(index: Path, work: Path, readme: Path, packages: list[str]) -> None:
    only_what_belongs(next(index.glob("cudadent-*.whl")))
    environment = Environment(work)
    begin = time.monotonic()
    environment.install(index)
    first_finding = 0.0
    for command, allowed in readme_commands(readme):
        started = time.monotonic()
        code, output = environment.run(command)
        check(code in allowed, f"{command}: exit code {code}, not {allowed}\n{output}")
        print(f"wheel: {command}: exit code {code}, {time.monotonic() - started:.1f} s")
        if code == 1 and not first_finding:
            check("racecheck: " in output, f"{command} found no race\n{output}")
            first_finding = time.monotonic() - begin
            environment.show(packages)
    check(0 < first_finding <= FIRST_FINDING_SECONDS, f"{first_finding:.1f} s to the first finding")
    print(f"wheel: {first_finding:.1f} s from pip install to the first finding (must: {FIRST_FINDING_SECONDS})")

    (work / "test_suite.py").write_text(SUITE)
    pytest = "python -m pytest -q -p no:cacheprovider --virtual-gpu l4 test_suite.py"
    for command in (pytest, pytest.replace("-q", "-q -p cudadent.pytest_plugin")):  # where somebody still names it
        code, output = environment.run(command)
        check(code == 1 and "1 failed, 1 passed" in output and "racecheck: " in output, f"{command}: {code}\n{output}")
    print("wheel: pytest --virtual-gpu l4 fails a test that races")


if __name__ == "__main__":
    if len(sys.argv) < 5:
        sys.exit(__doc__)
    main(*(Path(word).resolve() for word in sys.argv[1:4]), sys.argv[4:])
