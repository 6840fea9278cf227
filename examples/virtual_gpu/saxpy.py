"""y = a x + y with numba-cuda, unchanged for a virtual GPU.

cudadent run --device virtual:l4 -- python examples/virtual_gpu/saxpy.py
"""

import numpy as np
from numba import cuda


@cuda.jit
def saxpy(a: float, x: np.ndarray, y: np.ndarray) -> None:
    i = cuda.grid(1)
    if i < x.size:
        y[i] += a * x[i]


n = 10_000
x = np.arange(n, dtype=np.float32)
y = np.ones(n, dtype=np.float32)
saxpy[(n + 255) // 256, 256](np.float32(2), x, y)
np.testing.assert_array_equal(y, 2 * np.arange(n, dtype=np.float32) + 1)
print("saxpy of", n, "numbers is right, on", cuda.get_current_device().name)
