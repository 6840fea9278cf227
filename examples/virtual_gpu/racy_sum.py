"""The sums of blocks of 256 numbers, with a mistake: nobody waits for the other warps between two steps.

cudadent run --device virtual:l4 -- python examples/virtual_gpu/racy_sum.py

Often the sums are right all the same, and so a test that compares them passes on most days.
"""

import numpy as np
from numba import cuda, float32

THREADS = 256


@cuda.jit(lineinfo=True)
def racy_sum(x: np.ndarray, sums: np.ndarray) -> None:
    part = cuda.shared.array(THREADS, float32)
    i = cuda.threadIdx.x
    part[i] = x[cuda.blockIdx.x * THREADS + i]
    cuda.syncthreads()
    step = THREADS // 2
    while step > 0:
        if i < step:
            part[i] += part[i + step]
        step //= 2  # cuda.syncthreads() is missing here
    if i == 0:
        sums[cuda.blockIdx.x] = part[0]


x = np.ones(4 * THREADS, dtype=np.float32)
sums = np.zeros(4, dtype=np.float32)
racy_sum[4, THREADS](x, sums)
print("sums:", sums)
