"""What to beat: NumPy, which calls an optimised BLAS."""

import numpy as np


def make_numpy(tensors, params):
    """Looks the arrays up once; only the returned call is timed."""
    a, b, c = tensors["A"], tensors["B"], tensors["C"]
    return lambda: np.matmul(a, b, out=c)
