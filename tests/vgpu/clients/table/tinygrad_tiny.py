"""tinygrad's own test_tiny, as its source distribution has it.    tinygrad_tiny.py CASES

Its searches for a fast kernel (test_beam) time kernels on memory that nobody has written, which initcheck tells of
rightly: they run by themselves in the gate, without that check.
"""

from __future__ import annotations

import os
import sys
import unittest
from pathlib import Path

from cases import Suite, Told

os.environ["DEV"] = "CUDA"
os.environ["NVRTC_PATH"] = str(
    next(file for place in sys.path for file in Path(place).glob("nvidia/cu13/lib/libnvrtc.so.*"))
)
sys.path.insert(0, str(Path(sys.prefix) / "share" / "tinygrad"))

if __name__ == "__main__":
    Told.suite = Suite(sys.argv[1])
    cases = [case for group in unittest.defaultTestLoader.loadTestsFromName("test_tiny") for case in group]
    unittest.TestSuite(case for case in cases if "beam" not in case.id()).run(Told())
