"""The Python package is built with the torch operators or, on request, without them: never without a word.

    python_build_test.py SOURCE_DIR

Configures it as scikit-build-core does, with interpreters that have no torch, an old one, and a stand-in for a new one.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

import scikit_build_core

OPERATORS = "_torch_ops"
PYTHONS = {"none": None, "old": "2.9.1+cpu", "new": "2.10.0"}


def interpreter(folder: Path, torch_version: str | None) -> Path:
    """Of an empty environment; of torch only what the build asks for."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    if torch_version is not None:
        torch = next(folder.glob("lib/python3*/site-packages")) / "torch"
        torch.mkdir()
        (torch / "__init__.py").write_text("raise ImportError('only found, never imported')")
        (torch / "version.py").write_text(f"__version__ = '{torch_version}'\n")
    return folder / "bin" / "python"


def configure(source: Path, work: Path, python: Path, *definitions: str) -> tuple[int, str]:
    parts = [f"-DFLASHMOE_BUILD_{part}=OFF" for part in ("TESTS", "TOOLS", "VGPU", "BENCH")]
    as_pip_does = ["-DSKBUILD=2", "-DFLASHMOE_BUILD_PYTHON=ON", "-DFLASHMOE_CUDA_IMAGES=beside", *parts]
    find_python = Path(scikit_build_core.__file__).parent / "resources" / "find_python"  # newer than CMake's own
    as_pip_does += [f"-DPython_EXECUTABLE={python}", f"-DCMAKE_MODULE_PATH={find_python}"]
    command = ["cmake", "-S", str(source), "-B", str(work), "-G", "Ninja"]
    done = subprocess.run([*command, *as_pip_does, *definitions], capture_output=True, text=True)
    return done.returncode, done.stdout + done.stderr


def builds_operators(work: Path) -> bool:
    return OPERATORS in (work / "build.ninja").read_text()


def check(condition: bool, what: str, output: str) -> None:
    if not condition:
        sys.exit(f"python_build: {what}\n{output}")


def main() -> None:
    source = Path(sys.argv[1])
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        none, old, new = (interpreter(root / name, version) for name, version in PYTHONS.items())
        for python, told in ((none, "this build finds none"), (old, "this build finds torch 2.9.1")):
            status, output = configure(source, root / "refused", python)
            words = " ".join(output.split())
            check(status != 0 and told in words, f"it must fail and say: {told}", output)
            for command in (
                "pip install --no-build-isolation .",
                "pip install -C cmake.define.FLASHMOE_PYTHON_TORCH=OFF .",
            ):
                check(command in words, f"the message must offer: {command}", output)
        status, output = configure(source, root / "without", none, "-DFLASHMOE_PYTHON_TORCH=OFF")
        check(status == 0 and not builds_operators(root / "without"), "OFF must build without the operators", output)
        status, output = configure(source, root / "with", new)
        check(status == 0 and builds_operators(root / "with"), "with torch the operators must be built", output)
        status, output = configure(source, root / "unknown", none, "-DFLASHMOE_PYTHON_TORCH=AUTO")
        check(status != 0 and "allowed: ON, OFF" in output, "another value must be refused", output)


if __name__ == "__main__":
    main()
