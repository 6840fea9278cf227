"""Turns blocks of 256 numbers around in shared memory, with a mistake: nobody waits for the other warps.

cudadent run --device virtual:l4 -- python examples/virtual_gpu/racy_reverse.py
"""

import numpy as np
from numba import cuda, float32

BLOCK, BLOCKS = 256, 128


@cuda.jit(lineinfo=True)
def reverse(x: np.ndarray, y: np.ndarray) -> None:
    tile = cuda.shared.array(BLOCK, float32)
    i, first = cuda.threadIdx.x, cuda.blockIdx.x * BLOCK
    tile[i] = x[first + i]
    # cuda.syncthreads() is missing here.
    y[first + i] = tile[BLOCK - 1 - i]


x = np.arange(BLOCKS * BLOCK, dtype=np.float32).reshape(BLOCKS, BLOCK)
y = cuda.device_array(x.size, dtype=np.float32)
reverse[BLOCKS, BLOCK](cuda.to_device(x.reshape(-1)), y)
right = np.array_equal(y.copy_to_host().reshape(x.shape), x[:, ::-1])
print("all blocks are turned around" if right else "some blocks are not turned around")
