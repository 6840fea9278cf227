"""tinygrad's own test_tiny, as its source distribution has it, on the virtual GPU; and its graphs.

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


class Graphs(unittest.TestCase):
    """TinyJit makes a CUDA graph of what it has seen twice; later calls give its nodes other arguments and sizes."""

    def test_arguments_of_later_calls(self) -> None:
        import numpy as np
        from tinygrad import Tensor, TinyJit, Variable
        from tinygrad.runtime.graph import cuda as graphs

        launched = []
        launch = graphs.CUDAGraph.__call__

        def counted(self: graphs.CUDAGraph, *arguments: object, **named: object) -> object:
            launched.append(len(self.nodes))
            return launch(self, *arguments, **named)

        graphs.CUDAGraph.__call__ = counted
        self.addCleanup(setattr, graphs.CUDAGraph, "__call__", launch)

        @TinyJit
        def step(x: Tensor, y: Tensor) -> Tensor:
            z = (x * 2 + y).contiguous()
            return (z.sum(axis=0) + x).realize()

        random = np.random.default_rng(5)
        for _ in range(5):
            x, y = (random.integers(-9, 9, (8, 16)).astype(np.float32) for _ in range(2))
            got = step(Tensor(x).realize(), Tensor(y).realize()).numpy()
            np.testing.assert_array_equal(got, (x * 2 + y).sum(axis=0) + x)
        self.assertGreaterEqual(len(launched), 3)
        self.assertGreaterEqual(launched[-1], 2)

        @TinyJit
        def rows(x: Tensor) -> Tensor:
            return ((x + 1).contiguous() * 3).sum().realize()

        x = Tensor(np.arange(128, dtype=np.float32).reshape(8, 16)).realize()
        for count in (1, 5, 3, 8, 2):
            bound = Variable("count", 1, 8).bind(count)
            got = rows(x.shrink(((0, bound), None))).item()
            self.assertEqual(got, float(((np.arange(16 * count) + 1) * 3).sum()))


def chosen(suite: unittest.TestSuite, is_beam: bool) -> unittest.TestSuite:
    cases = [case for group in suite for case in group]
    return unittest.TestSuite(case for case in cases if (case.id().rpartition(".")[2] == "test_beam") == is_beam)


def main() -> int:
    is_beam = "--beam" in sys.argv[1:]
    tests = chosen(unittest.defaultTestLoader.loadTestsFromName("test_tiny"), is_beam)
    if not is_beam:
        tests.addTests(unittest.defaultTestLoader.loadTestsFromTestCase(Graphs))
    result = unittest.TextTestRunner(verbosity=2).run(tests)
    skipped = {case.id().rpartition(".")[2] for case, _ in result.skipped}
    assert skipped <= FOR_OTHER_DEVICES, f"skipped: {skipped}"
    assert result.testsRun - len(skipped) >= (1 if is_beam else 19), f"only {result.testsRun} tests"
    return 0 if result.wasSuccessful() else 1


if __name__ == "__main__":  # the search starts processes, which import this file
    sys.exit(main())
