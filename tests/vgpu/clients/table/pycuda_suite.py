"""PyCUDA: kernels from source, arrays, reductions, streams, each against NumPy.    pycuda_suite.py CASES

It compiles with `nvcc -cubin`; `cudadent run` has it keep the PTX there.
"""

from __future__ import annotations

import sys
from collections.abc import Callable

import numpy as np
import pycuda.autoinit
import pycuda.cumath as cumath
import pycuda.driver as cuda
import pycuda.gpuarray as gpuarray
from cases import Suite
from pycuda.compiler import DEFAULT_NVCC_FLAGS, DynamicSourceModule, SourceModule
from pycuda.elementwise import ElementwiseKernel
from pycuda.reduction import ReductionKernel
from pycuda.scan import ExclusiveScanKernel, InclusiveScanKernel
from pycuda.tools import DeviceMemoryPool

COUNT = 1000
KINDS = (np.float32, np.float64)
ARITHMETIC = {
    "x + y": lambda x, y: x + y,
    "x - 2 * y": lambda x, y: x - 2 * y,
    "x * y": lambda x, y: x * y,
    "x / y": lambda x, y: x / y,
    "-x": lambda x, _: -x,
    "x ** 2": lambda x, _: x**2,
    "abs(x)": lambda x, _: abs(x),
}
FUNCTIONS = ("sin", "cos", "tan", "exp", "log", "log10", "sqrt", "tanh", "floor", "ceil", "fabs")


def numbers(kind: type, seed: int = 1, count: int = COUNT) -> np.ndarray:
    return np.random.default_rng(seed).uniform(0.5, 2, count).astype(kind)


def close(got: np.ndarray, wanted: np.ndarray, ulps: float = 16) -> None:
    bound = ulps * np.finfo(got.dtype).eps * max(1.0, float(np.abs(wanted).max()))
    error = float(np.abs(got - wanted).max())
    assert error <= bound, f"off by {error:.3g}, allowed {bound:.3g}"


def arithmetic(function: Callable) -> None:
    for kind in KINDS:
        x, y = numbers(kind, 1), numbers(kind, 2)
        close(function(gpuarray.to_gpu(x), gpuarray.to_gpu(y)).get(), function(x, y))


def mathematics(name: str) -> None:
    for kind in KINDS:
        x = numbers(kind)
        close(getattr(cumath, name)(gpuarray.to_gpu(x)).get(), getattr(np, name)(x))


def from_source() -> None:
    module = SourceModule(
        "__constant__ float scale[2];\n"
        "__global__ void run(float* y, const float* x, int n) {\n"
        "  const int i = blockIdx.x * blockDim.x + threadIdx.x;\n"
        "  if (i < n) y[i] = scale[0] * x[i] + scale[1];\n"
        "}"
    )
    scale, _ = module.get_global("scale")
    cuda.memcpy_htod(scale, np.array([3, 0.5], np.float32))
    x, y = numbers(np.float32), np.empty(COUNT, np.float32)
    run = module.get_function("run")
    run(cuda.Out(y), cuda.In(x), np.int32(COUNT), block=(128, 1, 1), grid=((COUNT + 127) // 128, 1))
    close(y, 3 * x + np.float32(0.5))
    assert run.num_regs > 0
    assert run.max_threads_per_block >= 128


def shared_memory() -> None:
    module = SourceModule(
        "__global__ void reversed(int* x) {\n"
        "  extern __shared__ int kept[];\n"
        "  kept[threadIdx.x] = x[threadIdx.x];\n"
        "  __syncthreads();\n"
        "  x[threadIdx.x] = kept[blockDim.x - 1 - threadIdx.x];\n"
        "}"
    )
    x = np.arange(256, dtype=np.int32)
    module.get_function("reversed")(cuda.InOut(x), block=(256, 1, 1), shared=4 * 256)
    assert np.array_equal(x, np.arange(256)[::-1])


def linked() -> None:
    module = DynamicSourceModule(
        'extern "C" __device__ int twice(int x) { return 2 * x; }\n'
        'extern "C" __global__ void run(int* x) { x[threadIdx.x] = twice(x[threadIdx.x]); }',
        options=["-rdc=true", *DEFAULT_NVCC_FLAGS],
        no_extern_c=True,
    )
    x = np.arange(32, dtype=np.int32)
    module.get_function("run")(cuda.InOut(x), block=(32, 1, 1))
    assert np.array_equal(x, 2 * np.arange(32))


def streams_and_events() -> None:
    x = numbers(np.float32)
    pinned = cuda.pagelocked_empty_like(x)
    pinned[:] = x
    stream, begin, end = cuda.Stream(), cuda.Event(), cuda.Event()
    begin.record(stream)
    on_device = gpuarray.to_gpu_async(pinned, stream=stream)
    on_device *= 2
    back = on_device.get_async(stream=stream)
    end.record(stream)
    end.synchronize()
    close(back, 2 * x)
    assert end.time_since(begin) >= 0


def pool() -> None:
    memory = DeviceMemoryPool()
    for seed in range(4):
        x = numbers(np.float32, seed)
        close((gpuarray.to_gpu(x, allocator=memory.allocate) + 1).get(), x + 1)
    assert memory.held_blocks > 0
    memory.free_held()
    assert memory.held_blocks == 0


def elementwise() -> None:
    run = ElementwiseKernel("float a, float* x, float* y", "y[i] = a * x[i] + y[i]", "axpy")
    x, y = numbers(np.float32, 1), numbers(np.float32, 2)
    on_device = gpuarray.to_gpu(y)
    run(np.float32(1.5), gpuarray.to_gpu(x), on_device)
    close(on_device.get(), 1.5 * x + y)


def reductions() -> None:
    x = np.random.default_rng(3).integers(-50, 50, 5000).astype(np.int32)
    on_device = gpuarray.to_gpu(x)
    assert gpuarray.sum(on_device).get() == x.sum()
    assert gpuarray.max(on_device).get() == x.max()
    assert gpuarray.min(on_device).get() == x.min()
    squares = ReductionKernel(np.int32, neutral="0", reduce_expr="a+b", map_expr="x[i]*x[i]", arguments="int* x")
    assert squares(on_device).get() == (x * x).sum()


def scans() -> None:
    x = np.random.default_rng(4).integers(0, 9, 5000).astype(np.int32)
    for make, wanted in ((InclusiveScanKernel, np.cumsum(x)), (ExclusiveScanKernel, np.cumsum(x) - x)):
        neutral = {"neutral": "0"} if make is ExclusiveScanKernel else {}
        on_device = gpuarray.to_gpu(x)
        make(np.int32, "a+b", **neutral)(on_device)
        assert np.array_equal(on_device.get(), wanted)


def views() -> None:
    x = numbers(np.float32, count=24 * 40).reshape(24, 40)
    on_device = gpuarray.to_gpu(x)
    assert np.array_equal(on_device[3:9].get(), x[3:9])
    assert np.array_equal(on_device.T.get(), x.T)
    assert np.array_equal(gpuarray.arange(5, 50, 3, dtype=np.int32).get(), np.arange(5, 50, 3))


def managed() -> None:
    x = cuda.managed_empty(256, np.int32, mem_flags=cuda.mem_attach_flags.GLOBAL)
    x[:] = np.arange(256)
    module = SourceModule("__global__ void add(int* x) { x[threadIdx.x] += 7; }")
    module.get_function("add")(x, block=(256, 1, 1))
    pycuda.autoinit.context.synchronize()
    assert np.array_equal(x, np.arange(256) + 7)


def main() -> None:
    suite = Suite(sys.argv[1])
    for name, function in ARITHMETIC.items():
        suite.run(name, lambda function=function: arithmetic(function))
    for name in FUNCTIONS:
        suite.run(f"cumath.{name}", lambda name=name: mathematics(name))
    cases = (
        from_source,
        shared_memory,
        linked,
        streams_and_events,
        pool,
        elementwise,
        reductions,
        scans,
        views,
        managed,
    )
    for case in cases:
        suite.run(case.__name__.replace("_", " "), case)


main()
