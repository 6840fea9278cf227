"""What to beat: NumPy, which calls an optimised BLAS."""

from collections.abc import Callable

import numpy as np


def make_numpy(tensors: dict[str, np.ndarray], params: dict[str, float]) -> Callable[[], np.ndarray]:
    """Looks the arrays up once; only the returned call is timed."""
    a, b, c = tensors["A"], tensors["B"], tensors["C"]
    return lambda: np.matmul(a, b, out=c)
