"""NVIDIA Warp: a kernel over an array.    warp_suite.py CASES"""

from __future__ import annotations

import sys

import numpy as np
import warp as wp
from cases import Suite


@wp.kernel
def line(x: wp.array(dtype=float), y: wp.array(dtype=float)) -> None:
    i = wp.tid()
    y[i] = 2.0 * x[i] + 1.0


def kernel() -> None:
    x = wp.array(np.arange(1000, dtype=np.float32), device="cuda:0")
    y = wp.zeros_like(x)
    wp.launch(line, dim=1000, inputs=[x, y], device="cuda:0")
    assert np.array_equal(y.numpy(), 2 * np.arange(1000, dtype=np.float32) + 1)


Suite(sys.argv[1]).run("a kernel over an array", kernel)
