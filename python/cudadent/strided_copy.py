"""Elements of one tensor to another of the same shape, on either side of the bus, by memcpy alone.

torch's own copy_() makes a strided CUDA tensor contiguous with a kernel first, and its kernels are SASS. Only elements
of the two tensors are touched: what lies between them is neither read nor written, so that checks for memory which was
never written see what the program itself did.
"""

from __future__ import annotations

import ctypes
import functools
import itertools

import torch

MEMCPY_DEFAULT = 4  # cudaMemcpyDefault: the addresses say which way


@functools.cache
def _memcpy_2d() -> ctypes._NamedFuncPointer:
    """cudaMemcpy2D of the runtime that torch itself has loaded."""
    major = (torch.version.cuda or "").split(".")[0]
    function = ctypes.CDLL(f"libcudart.so.{major}").cudaMemcpy2D
    pointer, size = ctypes.c_void_p, ctypes.c_size_t
    function.argtypes = [pointer, size, pointer, size, size, size, ctypes.c_int]
    return function


def _merged(shape: torch.Size, to: tuple[int, ...], source: tuple[int, ...]) -> list[tuple[int, int, int]]:
    """(size, stride, stride), outermost first; neighbours that lie one behind the other in both are one."""
    dimensions = [d for d in zip(shape, to, source, strict=True) if d[0] != 1 and d[1:] != (0, 0)]
    merged: list[tuple[int, int, int]] = []
    for size, to_stride, source_stride in sorted(dimensions, key=lambda d: d[1:], reverse=True):
        if merged and merged[-1][1:] == (size * to_stride, size * source_stride):
            size *= merged.pop()[0]
        merged.append((size, to_stride, source_stride))
    return merged


def copy_elements(to: torch.Tensor, source: torch.Tensor) -> None:
    """Waits for the current stream, then copies. Shapes and types are the same."""
    assert to.shape == source.shape and to.dtype == source.dtype, (to.shape, source.shape, to.dtype, source.dtype)
    if to.numel() == 0:
        return
    outer = _merged(to.shape, to.stride(), source.stride())
    run = outer.pop()[0] if outer and outer[-1][1:] == (1, 1) else 1
    # cudaMemcpy2D wants rows that do not overlap; the longest such dimension is one call's rows.
    rows = max((d for d in outer if min(d[1:]) >= run), default=(1, run, run))
    if rows in outer:
        outer.remove(rows)
    element = to.element_size()
    torch.cuda.current_stream().synchronize()
    for index in itertools.product(*(range(size) for size, _, _ in outer)):
        to_offset = sum(i * stride for i, (_, stride, _) in zip(index, outer, strict=True))
        source_offset = sum(i * stride for i, (_, _, stride) in zip(index, outer, strict=True))
        error = _memcpy_2d()(
            to.data_ptr() + to_offset * element,
            rows[1] * element,
            source.data_ptr() + source_offset * element,
            rows[2] * element,
            run * element,
            rows[0],
            MEMCPY_DEFAULT,
        )
        if error != 0:
            raise RuntimeError(f"cudaMemcpy2D answered {error}; the virtual GPU's log says why")
