"""A release, up to the upload: both wheels from a folder as the index into fresh environments, and a run without any.

    rehearse.py INDEX WORK

The version is one and the same in VERSION, CHANGELOG.md, both wheels and what is installed. `cudadent` is also run by
`uv tool run` (uvx), which installs it for this one time, and finds the race in examples/virtual_gpu/first_finding.py.
The Python that runs this has pip, uv and NumPy, which flashmoe-science wants.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
VERSION = (ROOT / "VERSION").read_text().split()[0]
ATTENTION = """
import numpy, flashmoe_science
q = numpy.random.default_rng(0).standard_normal((1, 2, 5, 64), dtype=numpy.float32)
o = flashmoe_science.attention(q, q[:, :, :1], q[:, :, :1])
assert numpy.allclose(o, q[:, :, :1]), "one key has all the weight"
print(flashmoe_science.__version__)
"""


def check(holds: object, what: str) -> None:
    if not holds:
        sys.exit(f"rehearse: {what}")


def output(*command: str | Path, codes: tuple[int, ...] = (0,), **variables: str) -> str:
    done = subprocess.run(
        [str(word) for word in command], env=os.environ | variables, text=True, timeout=600, check=False,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL,
    )  # fmt: skip
    check(done.returncode in codes, f"{' '.join(map(str, command))}: exit code {done.returncode}\n{done.stdout}")
    return done.stdout


def installed(index: Path, folder: Path, distribution: str, packages: str = "") -> Path:
    """The Python of a fresh environment with the distribution; `packages`: what pip would download besides."""
    output(sys.executable, "-m", "venv", "--without-pip", folder)
    if packages:
        (next(folder.glob("lib/python3*/site-packages")) / "others.pth").write_text(packages + "\n")
    pip = (sys.executable, "-m", "pip", "--python", folder / "bin/python", "install", "--quiet")
    output(*pip, "--disable-pip-version-check", "--no-index", "--find-links", index, distribution)
    return folder / "bin/python"


def main(index: Path, work: Path) -> None:
    shutil.rmtree(work, ignore_errors=True)
    changelog = (ROOT / "CHANGELOG.md").read_text()
    check(re.search(rf"^## \[{re.escape(VERSION)}\]", changelog, re.MULTILINE), f"CHANGELOG.md does not know {VERSION}")
    wheels = sorted(path.name for path in index.glob("*.whl"))
    names = [f"{name}-{VERSION}-" for name in ("cudadent", "flashmoe_science")]
    fits = len(wheels) == 2 and all(wheel.startswith(name) for wheel, name in zip(wheels, names, strict=True))
    check(fits, f"not both distributions in version {VERSION}: {wheels}")
    check(all("manylinux" in wheel for wheel in wheels), f"PyPI would refuse one of {wheels}")

    python = installed(index, work / "cudadent", "cudadent")
    told = output(python.parent / "cudadent", "--version").strip()
    check(told == f"cudadent {VERSION}", f"the installed program is {told}")
    import numpy  # where it is, so that the wheel's only requirement is met

    python = installed(index, work / "flashmoe-science", "flashmoe-science", str(Path(numpy.__file__).parents[1]))
    told = output(python, "-c", ATTENTION).strip()
    check(told == VERSION, f"the installed library is {told}")

    once = (sys.executable, "-m", "uv", "tool", "run", "--offline", "--no-index", "--find-links", index)
    apart = {"UV_CACHE_DIR": str(work / "uv"), "UV_TOOL_DIR": str(work / "tools"), "UV_PYTHON": sys.executable}
    example = ROOT / "examples/virtual_gpu/first_finding.py"
    command = (*once, "cudadent", "run", "--device", "virtual:l4", "--", sys.executable, example)
    check("racecheck: " in output(*command, codes=(1,), **apart), "the one-shot run found no race")
    print(f"rehearse: {', '.join(wheels)}: installed, and run without installing; version {VERSION}")


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    main(*(Path(word).resolve() for word in sys.argv[1:]))
