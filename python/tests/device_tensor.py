"""A test-only tensor in device memory that the package takes for torch's: the same table of C functions
(``__dlpack_c_exchange_api__``) through which it reads, allocates and asks for the stream, on buffers of the CUDA
driver. With it the package's own path for CUDA tensors runs on the virtual GPU, where torch cannot. Needs a process
without torch: ``FLASHMOE_SCIENCE_NO_TORCH=1``.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from ctypes import CFUNCTYPE, POINTER, Structure, byref, c_char_p, c_int, c_int32, c_int64, c_uint8, c_uint16, c_uint32
from ctypes import c_uint64 as count
from ctypes import c_void_p as address
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests/accuracy"))
from device_buffer import Buffer, Gpu

DL_CUDA = 2
DL_TYPES = {(0, 32): "int32", (1, 8): "uint8", (2, 16): "float16", (2, 32): "float32"}


class DLTensor(Structure):
    _fields_ = [
        ("data", address),
        ("device_type", c_int32),
        ("device_index", c_int32),
        ("ndim", c_int32),
        ("code", c_uint8),
        ("bits", c_uint8),
        ("lanes", c_uint16),
        ("shape", POINTER(c_int64)),
        ("strides", POINTER(c_int64)),
        ("byte_offset", count),
    ]


class Managed(Structure):
    pass


Deleter = CFUNCTYPE(None, POINTER(Managed))
Managed._fields_ = [
    ("major", c_uint32),
    ("minor", c_uint32),
    ("manager_context", address),
    ("deleter", Deleter),
    ("flags", count),
    ("tensor", DLTensor),
]
Allocate = CFUNCTYPE(c_int, POINTER(DLTensor), POINTER(POINTER(Managed)), address, address)
FromObject = CFUNCTYPE(c_int, address, POINTER(POINTER(Managed)))
ToObject = CFUNCTYPE(c_int, POINTER(Managed), POINTER(address))
Borrow = CFUNCTYPE(c_int, address, POINTER(DLTensor))
CurrentStream = CFUNCTYPE(c_int, c_int32, c_int32, POINTER(address))


class ExchangeApi(Structure):
    _fields_ = [
        ("major", c_uint32),
        ("minor", c_uint32),
        ("previous", address),
        ("allocate", Allocate),
        ("from_object", FromObject),
        ("to_object", ToObject),
        ("borrow", Borrow),
        ("current_stream", CurrentStream),
    ]


class DeviceTensor:
    """Contiguous. What the package asks of a torch.Tensor besides the table: requires_grad and is_neg."""

    requires_grad = False
    is_cpu = False

    def __init__(self, gpu: Gpu, shape: tuple[int, ...], dtype: str) -> None:
        self.shape, self.dtype = shape, np.dtype(dtype)
        self.buffer: Buffer = gpu.buffer(int(np.prod(shape)) * self.dtype.itemsize)
        self.c_shape = (c_int64 * max(len(shape), 1))(*shape)
        steps = [int(np.prod(shape[axis + 1 :])) for axis in range(len(shape))]
        self.c_strides = (c_int64 * max(len(shape), 1))(*steps)

    def is_neg(self) -> bool:
        return False

    def describe(self, tensor: DLTensor) -> None:
        kind, bits = next(name for name, known in DL_TYPES.items() if known == self.dtype.name)
        tensor.data, tensor.byte_offset = self.buffer.address, 0
        tensor.device_type, tensor.device_index = DL_CUDA, 0
        tensor.ndim, tensor.shape, tensor.strides = len(self.shape), self.c_shape, self.c_strides
        tensor.code, tensor.bits, tensor.lanes = kind, bits, 1

    def numpy(self) -> np.ndarray:
        host = np.empty(self.shape, self.dtype)
        self.buffer.read(host.ctypes.data, host.nbytes)
        return host


class Framework:
    """What torch is to the package: an allocator, a current stream, and a table that leads to both."""

    def __init__(self, gpu: Gpu) -> None:
        self.gpu = gpu
        self.stream = 0
        self.allocated: list[tuple[int, ...]] = []
        self._managed: dict[int, tuple[Managed, DeviceTensor]] = {}
        self._deleter = Deleter(self._delete)
        self._table = ExchangeApi(
            1, 3, None, Allocate(self._allocate), FromObject(lambda *_: -1), ToObject(self._to_object),
            Borrow(self._borrow), CurrentStream(self._current_stream),
        )  # fmt: skip
        new_capsule = ctypes.pythonapi.PyCapsule_New
        new_capsule.restype, new_capsule.argtypes = ctypes.py_object, [address, c_char_p, address]
        capsule = new_capsule(ctypes.addressof(self._table), b"dlpack_exchange_api", None)
        DeviceTensor.__dlpack_c_exchange_api__ = capsule

    def register(self, module: Any) -> None:
        def refuse(*_: Any, **__: Any) -> Any:
            raise AssertionError("handed over to torch's dispatcher")

        level = SimpleNamespace(_current_level=-1)
        module.register_torch(DeviceTensor, refuse, refuse, lambda: False, lambda _: None, level, ())

    @contextmanager
    def own_context(self) -> Iterator[None]:
        """As torch's allocator does, whatever the caller has made current."""
        before = address()
        self.gpu.driver("cuCtxGetCurrent", byref(before))
        self.gpu.driver("cuCtxSetCurrent", self.gpu.context)
        yield
        self.gpu.driver("cuCtxSetCurrent", before)

    def tensor(self, values: np.ndarray) -> DeviceTensor:
        values = np.ascontiguousarray(values)
        made = DeviceTensor(self.gpu, values.shape, values.dtype.name)
        made.buffer.write(values.ctypes.data, values.nbytes)
        return made

    def _allocate(self, prototype: Any, out: Any, _context: Any, _set_error: Any) -> int:
        spec = prototype.contents
        if spec.device_type != DL_CUDA:
            return -1
        with self.own_context():
            made = DeviceTensor(self.gpu, tuple(spec.shape[: spec.ndim]), DL_TYPES[spec.code, spec.bits])
        managed = Managed(major=1, minor=3, deleter=self._deleter)
        made.describe(managed.tensor)
        self._managed[ctypes.addressof(managed)] = managed, made
        self.allocated.append(made.shape)
        out[0] = ctypes.pointer(managed)
        return 0

    def _delete(self, managed: Any) -> None:
        _, tensor = self._managed.pop(ctypes.addressof(managed.contents))
        with self.own_context():
            tensor.buffer.free()

    def _to_object(self, managed: Any, out: Any) -> int:
        _, tensor = self._managed.pop(ctypes.addressof(managed.contents))
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(tensor))
        out[0] = id(tensor)
        return 0

    def _borrow(self, tensor: int, out: Any) -> int:
        ctypes.cast(tensor, ctypes.py_object).value.describe(out.contents)
        return 0

    def _current_stream(self, _device_type: int, _index: int, out: Any) -> int:
        out[0] = self.stream
        return 0
