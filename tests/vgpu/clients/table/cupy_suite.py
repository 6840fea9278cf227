"""CuPy: an elementwise kernel, a reduction, a kernel of the user's.    cupy_suite.py CASES"""

from __future__ import annotations

import sys

import cupy
import numpy as np
from cases import Suite


def elementwise() -> None:
    x = cupy.arange(1000, dtype=cupy.float32)
    assert np.array_equal((2 * x + 1).get(), 2 * np.arange(1000, dtype=np.float32) + 1)


def reduction() -> None:
    assert int(cupy.arange(1000).sum()) == 499_500


def raw_kernel() -> None:
    kernel = cupy.RawKernel('extern "C" __global__ void twice(int* x) { x[threadIdx.x] *= 2; }', "twice")
    x = cupy.asarray(np.arange(64, dtype=np.int32))
    kernel((1,), (64,), (x,))
    assert np.array_equal(x.get(), 2 * np.arange(64))


suite = Suite(sys.argv[1])
for case in (elementwise, reduction, raw_kernel):
    suite.run(case.__name__.replace("_", " "), case)
