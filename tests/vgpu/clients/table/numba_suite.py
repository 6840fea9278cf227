"""numba-cuda's own tests, as its wheel carries them.

numba_suite.py CASES PACKAGES PART PARTS     PACKAGES: where pytest is, which its tests import
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from cases import Suite, run_unittest

sys.path.append(sys.argv[2])
os.environ["PYTHONPATH"] = sys.argv[2]  # of the processes that its tests start

import numba_cuda

# Measures times, stands for a simulator of its own, or wants no device at all.
LEFT_OUT = {"benchmarks", "cudasim", "nocuda", "core"}


def modules() -> list[str]:
    root = Path(numba_cuda.__file__).parent / "numba" / "cuda" / "tests"
    files = sorted(path.relative_to(root) for path in root.rglob("test_*.py"))
    return [
        ".".join(("numba.cuda.tests", *file.with_suffix("").parts)) for file in files if file.parts[0] not in LEFT_OUT
    ]


if __name__ == "__main__":  # some of its tests start processes, which import this file
    part, parts = int(sys.argv[3]), int(sys.argv[4])
    run_unittest(Suite(sys.argv[1]), modules()[part::parts])
