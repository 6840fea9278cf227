"""Triton on the virtual GPU, without torch: a vector sum, a row-wise softmax and a matrix product, results checked.

What a kernel is given is anything with a data_ptr and a dtype. Triton's own ptxas makes cubins with line information,
which keep their PTX.
"""

# Triton reads the annotations of its kernels: what has none is a pointer or a number.
# ruff: noqa: ANN001, ANN201

from __future__ import annotations

import numpy as np
import triton
import triton.language as tl
from cuda.bindings import driver
from triton_kernels import add_kernel


def checked(answer: tuple) -> object:
    """The value of a call of cuda.bindings, which must have succeeded."""
    code, *values = answer
    assert code == driver.CUresult.CUDA_SUCCESS, code
    return values[0] if values else None


class DeviceArray:
    def __init__(self, array: np.ndarray) -> None:
        self.host = np.ascontiguousarray(array)
        self.dtype = self.host.dtype.name
        self.address = checked(driver.cuMemAlloc(self.host.nbytes))
        checked(driver.cuMemcpyHtoD(self.address, self.host.ctypes.data, self.host.nbytes))

    def data_ptr(self) -> int:
        return int(self.address)

    def stride(self, axis: int) -> int:
        return self.host.strides[axis] // self.host.itemsize

    def numpy(self) -> np.ndarray:
        back = np.empty_like(self.host)
        checked(driver.cuMemcpyDtoH(back.ctypes.data, self.address, back.nbytes))
        return back

    def free(self) -> None:
        checked(driver.cuMemFree(self.address))


@triton.jit
def softmax_kernel(out_ptr, in_ptr, row_stride, rows, columns, BLOCK: tl.constexpr, STAGES: tl.constexpr):
    column = tl.arange(0, BLOCK)
    for row in tl.range(tl.program_id(0), rows, tl.num_programs(0), num_stages=STAGES):
        at = row * row_stride + column
        value = tl.load(in_ptr + at, mask=column < columns, other=-float("inf"))
        power = tl.exp(value - tl.max(value, axis=0))
        tl.store(out_ptr + at, power / tl.sum(power, axis=0), mask=column < columns)


@triton.jit
def matmul_kernel(
    a_ptr, b_ptr, c_ptr, m, n, k, a_stride, b_stride, c_stride, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr
):
    rows = tl.program_id(0) * M + tl.arange(0, M)
    columns = tl.program_id(1) * N + tl.arange(0, N)
    inner = tl.arange(0, K)
    total = tl.zeros((M, N), dtype=tl.float32)
    for first in range(0, k, K):
        a_at = (rows % m)[:, None] * a_stride + (first + inner)[None, :]
        b_at = (first + inner)[:, None] * b_stride + (columns % n)[None, :]
        a = tl.load(a_ptr + a_at, mask=(first + inner)[None, :] < k, other=0.0)
        b = tl.load(b_ptr + b_at, mask=(first + inner)[:, None] < k, other=0.0)
        total = tl.dot(a, b, total)
    inside = (rows < m)[:, None] & (columns < n)[None, :]
    tl.store(c_ptr + rows[:, None] * c_stride + columns[None, :], total.to(tl.float16), mask=inside)


def add(rng: np.random.Generator) -> float:
    count = 10_007  # no multiple of a block
    x, y, out = (DeviceArray(rng.random(count, dtype=np.float32)) for _ in range(3))
    add_kernel[(triton.cdiv(count, 1024),)](x, y, out, count, BLOCK=1024)
    error = np.abs(out.numpy() - (x.host + y.host)).max()
    for array in (x, y, out):
        array.free()
    return error


def softmax(rng: np.random.Generator) -> float:
    x = DeviceArray(rng.standard_normal((24, 300), dtype=np.float32))
    out = DeviceArray(np.zeros_like(x.host))
    softmax_kernel[(8,)](out, x, x.stride(0), *x.host.shape, BLOCK=512, STAGES=2, num_warps=4)
    power = np.exp(x.host.astype(np.float64) - x.host.max(1, keepdims=True))
    error = np.abs(out.numpy() - power / power.sum(1, keepdims=True)).max()
    for array in (x, out):
        array.free()
    return error


def matmul(rng: np.random.Generator) -> float:
    m, n, k = 100, 72, 96
    a, b = (DeviceArray(rng.standard_normal(shape).astype(np.float16)) for shape in ((m, k), (k, n)))
    c = DeviceArray(np.zeros((m, n), np.float16))
    grid = (triton.cdiv(m, 64), triton.cdiv(n, 32))
    strides = (a.stride(0), b.stride(0), c.stride(0))
    matmul_kernel[grid](a, b, c, m, n, k, *strides, M=64, N=32, K=32, num_warps=4, num_stages=3)
    exact = a.host.astype(np.float64) @ b.host.astype(np.float64)
    error = np.abs(c.numpy() - exact).max() / np.abs(exact).max()
    for array in (a, b, c):
        array.free()
    return error


def main() -> None:
    rng = np.random.default_rng(0)
    triton.runtime.driver.active.get_current_stream(0)  # the primary context, which the arrays are allocated in
    # A sum is exact; the others are rounded to the type of the kernel's result, and a few times on the way there.
    for what, kind in ((add, None), (softmax, np.float32), (matmul, np.float16)):
        error = what(rng)
        print(f"{what.__name__}: largest error {error:.2g}")
        assert error <= (0 if kind is None else 4 * np.finfo(kind).eps), what.__name__


if __name__ == "__main__":
    main()
