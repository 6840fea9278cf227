"""NVIDIA's cuda-python on the virtual GPU: compile with NVRTC, launch, read back."""

from __future__ import annotations

import sys

import numpy as np
from cuda.bindings import driver
from cuda.core import Device, LaunchConfig, Program, ProgramOptions, launch

SOURCE = r"""
__device__ unsigned int launches = 0;
__constant__ float bias = 0.5f;

extern "C" __global__ void saxpy(float a, const float* x, const float* y, float* out, unsigned long long n) {
  const unsigned long long i = blockIdx.x * static_cast<unsigned long long>(blockDim.x) + threadIdx.x;
  if (i == 0) atomicAdd(&launches, 1u);
  if (i < n) out[i] = a * x[i] + y[i] + bias;
}

extern "C" __global__ void reversed_in_shared(int* data) {
  extern __shared__ int tile[];
  tile[threadIdx.x] = data[blockIdx.x * blockDim.x + threadIdx.x];
  __syncthreads();
  data[blockIdx.x * blockDim.x + threadIdx.x] = tile[blockDim.x - 1 - threadIdx.x];
}

extern "C" __global__ void out_of_bounds(int* data) { data[1 << 28] = 1; }
"""


def checked(answer: tuple) -> object:
    """The values of a call of cuda.bindings, which must have succeeded."""
    code, *values = answer
    assert code == driver.CUresult.CUDA_SUCCESS, code
    return values[0] if len(values) == 1 else values


def copy_in(address: int, array: np.ndarray) -> None:
    checked(driver.cuMemcpyHtoD(address, array.ctypes.data, array.nbytes))


def copy_out(array: np.ndarray, address: int) -> None:
    checked(driver.cuMemcpyDtoH(array.ctypes.data, address, array.nbytes))


def run_saxpy(device: Device, module: object) -> None:
    stream = device.create_stream()
    count = 10_007  # no multiple of a block
    rng = np.random.default_rng(1)
    x, y = (rng.standard_normal(count, dtype=np.float32) for _ in range(2))
    buffers = [device.allocate(array.nbytes, stream=stream) for array in (x, y, x)]
    for buffer, array in zip(buffers[:2], (x, y), strict=True):
        copy_in(int(buffer.handle), array)
    begin, end = (checked(driver.cuEventCreate(0)) for _ in range(2))
    kernel = module.get_kernel("saxpy")
    config = LaunchConfig(grid=(count + 255) // 256, block=256)
    checked(driver.cuEventRecord(begin, driver.CUstream(int(stream.handle))))
    launch(stream, config, kernel, np.float32(2), *buffers, np.uint64(count))
    checked(driver.cuEventRecord(end, driver.CUstream(int(stream.handle))))
    stream.sync()
    milliseconds = checked(driver.cuEventElapsedTime(begin, end))
    assert 0 < milliseconds < 1, milliseconds
    result = np.empty_like(x)
    copy_out(result, int(buffers[2].handle))
    # One rounding in the fused multiply-add and one in the addition of the bias.
    expected = (np.float64(2) * x + y).astype(np.float32) + np.float32(0.5)
    assert np.array_equal(result, expected), np.abs(result - expected).max()
    print("saxpy: right, of", count, "elements")
    for buffer in buffers:
        buffer.close(stream)


def run_shared(device: Device, module: object) -> None:
    data = np.arange(4 * 96, dtype=np.int32)
    address = int(checked(driver.cuMemAlloc(data.nbytes)))
    copy_in(address, data)
    config = LaunchConfig(grid=4, block=96, shmem_size=96 * 4)
    launch(device.default_stream, config, module.get_kernel("reversed_in_shared"), address)
    device.default_stream.sync()  # Device.sync() is of the runtime API, which the virtual GPU has not
    result = np.empty_like(data)
    copy_out(result, address)
    assert np.array_equal(result, data.reshape(4, 96)[:, ::-1].ravel())
    checked(driver.cuMemFree(address))
    print("dynamic shared memory: right")


def run_fault(device: Device, module: object) -> None:
    """A bad address is reported by the next call that waits, and sticks."""
    address = int(checked(driver.cuMemAlloc(16)))
    launch(device.default_stream, LaunchConfig(grid=1, block=1), module.get_kernel("out_of_bounds"), address)
    for _ in range(2):
        (code,) = driver.cuCtxSynchronize()
        assert code == driver.CUresult.CUDA_ERROR_ILLEGAL_ADDRESS, code
    code, _ = driver.cuMemAlloc(16)
    assert code == driver.CUresult.CUDA_ERROR_ILLEGAL_ADDRESS, code
    checked(driver.cuDevicePrimaryCtxReset(0))
    checked(driver.cuCtxSynchronize())
    print("illegal address: reported, sticks until the reset")


def main() -> int:
    device = Device()
    device.set_current()
    print(device.name, "compute capability", device.compute_capability)
    assert device.name.endswith("(virtual)"), device.name
    architecture = "".join(map(str, device.compute_capability))
    program = Program(SOURCE, code_type="c++", options=ProgramOptions(std="c++17", arch=f"sm_{architecture}"))
    module = program.compile("ptx", name_expressions=())
    run_saxpy(device, module)
    run_shared(device, module)
    attributes = module.get_kernel("saxpy").attributes
    assert attributes.max_threads_per_block == 1024
    run_fault(device, module)
    return 0


if __name__ == "__main__":
    sys.exit(main())
