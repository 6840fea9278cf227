"""One kernel of vgpu_kernels.cu on a CUDA driver, and the host time that it takes.

vgpu_kernels.py LIBRARY PTX KERNEL [--repeat N]

Prints what vgpu_loop.py prints: {"seconds": of the first run, "repeat_seconds": [of each further run],
"repeat_processor_seconds": [the same, of all threads together]}.
"""

from __future__ import annotations

import argparse
import ctypes
import random
import time
from array import array
from dataclasses import dataclass
from pathlib import Path

from vgpu_loop import Driver, times_of


@dataclass
class Launch:
    n: int  # the matrices are n x n
    grid: tuple[int, int]
    block: tuple[int, int]
    has_goal: bool = True  # its accesses have a pattern, as those of most kernels


KERNELS = {
    "sgemm_shared": Launch(256, (8, 8), (32, 32)),
    "sgemm_registers": Launch(256, (4, 4), (256, 1)),
    "sgemm_naive": Launch(192, (6, 24), (32, 8)),
    "attention": Launch(128, (2, 1), (128, 1)),
    "saxpy": Launch(1024, (256, 1), (256, 1)),
    "reduction": Launch(1024, (1024, 1), (256, 1)),
    "strided": Launch(1024, (32, 128), (32, 8)),
    "divergent": Launch(256, (256, 1), (256, 1), has_goal=False),
    "histogram": Launch(512, (64, 1), (256, 1), has_goal=False),
    "global_atomics": Launch(512, (64, 1), (256, 1), has_goal=False),
}


def run(driver: Driver, ptx: bytes, name: str, repeat: int) -> list[tuple[float, float]]:
    launch = KERNELS[name]
    context, module, function = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_void_p()
    driver("cuInit", 0)
    driver("cuDevicePrimaryCtxRetain", ctypes.byref(context), 0)
    driver("cuCtxSetCurrent", context)
    driver("cuModuleLoadData", ctypes.byref(module), ptx)
    driver("cuModuleGetFunction", ctypes.byref(function), module, name.encode())
    numbers = random.Random(1)
    size = ctypes.c_size_t(launch.n * launch.n * 4)
    buffers = [ctypes.c_uint64() for _ in range(3)]
    for buffer in buffers:
        driver("cuMemAlloc_v2", ctypes.byref(buffer), size)
    for buffer in buffers[:2]:
        values = array("f", (numbers.random() for _ in range(launch.n * launch.n)))
        driver("cuMemcpyHtoD_v2", buffer, ctypes.c_void_p(values.buffer_info()[0]), size)
    arguments = [*buffers, ctypes.c_int(launch.n)]
    pointers = (ctypes.c_void_p * 4)(*(ctypes.addressof(one) for one in arguments))
    seconds = []
    for _ in range(1 + repeat):
        driver("cuMemsetD8_v2", buffers[2], 0, size)
        begin, processor_begin = time.monotonic(), time.process_time()
        driver("cuLaunchKernel", function, *launch.grid, 1, *launch.block, 1, 0, None, pointers, None)
        driver("cuCtxSynchronize")
        seconds.append((time.monotonic() - begin, time.process_time() - processor_begin))
    for buffer in buffers:
        driver("cuMemFree_v2", buffer)
    driver("cuDevicePrimaryCtxRelease_v2", 0)
    return seconds


def main() -> None:
    parser = argparse.ArgumentParser(description="runs a kernel of vgpu_kernels.cu and prints its host time")
    parser.add_argument("library")
    parser.add_argument("ptx", type=Path)
    parser.add_argument("kernel", choices=KERNELS)
    parser.add_argument("--repeat", type=int, default=0)
    arguments = parser.parse_args()
    print(times_of(run(Driver(arguments.library), arguments.ptx.read_bytes(), arguments.kernel, arguments.repeat)))


if __name__ == "__main__":
    main()
