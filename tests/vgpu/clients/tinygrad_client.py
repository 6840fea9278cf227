"""tinygrad's own test_tiny, as its source distribution has it, on the virtual GPU.

    tinygrad_client.py [--beam]

Without --beam everything but the search for a fast kernel, which times kernels on memory that nobody has written: that
is a finding of initcheck, and rightly so. With it, the search alone.
"""

from __future__ import annotations

import os
import sys
import unittest
from pathlib import Path

PACKAGES = next(Path(place) for place in sys.path if (Path(place) / "tinygrad").is_dir())
# .ci/setup puts the file there; the wheel leaves it out.
TESTS = Path(sys.prefix) / "share" / "tinygrad"

os.environ["DEV"] = "CUDA"
os.environ["NVRTC_PATH"] = str(next(PACKAGES.glob("nvidia/cu13/lib/libnvrtc.so.*")))
sys.path.insert(0, str(TESTS))

FOR_OTHER_DEVICES = {"test_image", "test_beam_image"}


def chosen(suite: unittest.TestSuite, is_beam: bool) -> unittest.TestSuite:
    cases = [case for group in suite for case in group]
    return unittest.TestSuite(case for case in cases if (case.id().rpartition(".")[2] == "test_beam") == is_beam)


def main() -> int:
    is_beam = "--beam" in sys.argv[1:]
    tests = chosen(unittest.defaultTestLoader.loadTestsFromName("test_tiny"), is_beam)
    result = unittest.TextTestRunner(verbosity=2).run(tests)
    skipped = {case.id().rpartition(".")[2] for case, _ in result.skipped}
    assert skipped <= FOR_OTHER_DEVICES, f"skipped: {skipped}"
    assert result.testsRun - len(skipped) >= (1 if is_beam else 18), f"only {result.testsRun} tests"
    return 0 if result.wasSuccessful() else 1


if __name__ == "__main__":  # the search starts processes, which import this file
    sys.exit(main())
