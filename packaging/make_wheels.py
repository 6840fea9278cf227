"""Makes the wheels as they are published, into a folder that pip and uv take for an index.

    make_wheels.py INDEX [--cudadent-from BUILD] [--take WHEEL ...] [DISTRIBUTION ...]

DISTRIBUTION: cudadent, flashmoe-science, flashmoe-science-cuda; all unless told. With --cudadent-from a release build
of the tree is taken as it is, with --take a wheel that was built before; what is left is compiled. The Python that runs
this has pip and scikit-build-core, and torch for flashmoe-science; flashmoe-science-cuda takes a CUDA toolkit.
auditwheel, on the PATH or in build/venv-packaging (.ci/setup), grants the tag: the oldest systems that a wheel runs on;
abi3audit, likewise, looks whether a wheel for many versions of CPython uses nothing but the limited API of the first. A
wheel without machine code for a host (flashmoe-science-cuda) is for any system.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
# What a wheel finds elsewhere: in its own folder; in torch, which brings an OpenMP runtime, or on the system.
FOUND_ELSEWHERE = {
    "cudadent": ["libcuda.so.1"],
    "flashmoe-science": ["libtorch*.so", "libc10*.so", "libgomp.so.1"],
}
# The oldest systems that each promises. auditwheel refuses what asks them for more.
PLATFORMS = {"cudadent": "manylinux_2_34_x86_64", "flashmoe-science": "manylinux_2_28_x86_64"}
SOURCES = {
    "cudadent": ROOT / "packaging/cudadent",
    "flashmoe-science": ROOT,
    "flashmoe-science-cuda": ROOT / "packaging/flashmoe-science-cuda",
}


def dated() -> dict[str, str]:
    """The environment in which entries are dated by the commit, so that the same bytes come out again."""
    commit = ["git", "log", "-1", "--format=%ct"]
    seconds = subprocess.run(commit, cwd=ROOT, check=True, capture_output=True, text=True).stdout.strip()
    return {"SOURCE_DATE_EPOCH": seconds} | os.environ


def build(name: str, folder: Path, settings: list[str]) -> Path:
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--disable-pip-version-check", "--no-deps"]
    command += ["--no-build-isolation", "--wheel-dir", str(folder)]
    subprocess.run([*command, *settings, str(SOURCES[name])], cwd=ROOT, env=dated(), check=True)
    return next(folder.glob("*.whl"))


def with_tools() -> dict[str, str]:
    return dated() | {"PATH": os.pathsep.join([str(ROOT / "build/venv-packaging/bin"), *os.get_exec_path()])}


def audit_limited_api(wheel: Path) -> None:
    if "-abi3-" not in wheel.name:
        return
    command = ["env", "abi3audit", "--strict", "--report", str(wheel)]
    done = subprocess.run(command, env=with_tools(), capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"make_wheels: {wheel.name} is not of the limited API alone\n{done.stdout}{done.stderr}")


def has_machine_code(wheel: Path) -> bool:
    with zipfile.ZipFile(wheel) as file:
        return any(file.open(entry).read(4) == b"\x7fELF" for entry in file.infolist())


def put(name: str, wheel: Path, index: Path) -> Path:
    """The wheel in the index, under the tag that it may have."""
    for old in index.glob(f"{file_name(name)}-*.whl"):
        old.unlink()
    if has_machine_code(wheel):
        return grant_tag(name, wheel, index)
    if not wheel.name.endswith("-none-any.whl"):
        sys.exit(f"make_wheels: {wheel.name} is for one system, but nothing in it is")
    return Path(shutil.copy(wheel, index))


def file_name(distribution: str) -> str:
    return distribution.replace("-", "_")


def grant_tag(name: str, wheel: Path, index: Path) -> Path:
    excluded = [word for library in FOUND_ELSEWHERE[name] for word in ("--exclude", library)]
    command = ["auditwheel", "repair", *excluded, "--plat", PLATFORMS[name], "--wheel-dir", str(index), str(wheel)]
    done = subprocess.run(["env", *command], env=with_tools(), capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"make_wheels: auditwheel grants {wheel.name} no tag\n{done.stdout}{done.stderr}")
    return next(index.glob(f"{file_name(name)}-*.whl"))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("index", type=Path)
    parser.add_argument("distributions", nargs="*", metavar="DISTRIBUTION")
    parser.add_argument("--cudadent-from", type=Path, metavar="BUILD")
    parser.add_argument("--take", type=Path, metavar="WHEEL", action="append", default=[])
    options = parser.parse_args()
    index = options.index.resolve()
    index.mkdir(parents=True, exist_ok=True)
    taken = {wheel.name.partition("-")[0]: wheel for wheel in options.take}
    for name in options.distributions or SOURCES:
        if name not in SOURCES:
            parser.error(f"there is no distribution {name}")
        with tempfile.TemporaryDirectory() as folder:
            settings = []
            if name == "cudadent" and options.cudadent_from:
                settings = [f"--config-settings=cmake.define.CUDADENT_BUILD={options.cudadent_from.resolve()}"]
                settings += [f"--config-settings=build-dir={folder}/build"]  # two of these may run at the same time
            granted = put(name, taken.get(file_name(name)) or build(name, Path(folder), settings), index)
        audit_limited_api(granted)
        print(f"make_wheels: {granted.name}, {granted.stat().st_size / 1e6:.2f} MB")


if __name__ == "__main__":
    main()
