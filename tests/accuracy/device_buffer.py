"""Device memory for tests, over the CUDA driver API alone: what a caller without torch does before and after a call of
the C ABI. Behind it stands a real driver or the virtual GPU; nothing here knows which.

The virtual GPU reads its settings when it is loaded, once in a process: make one Gpu per process.
"""

from __future__ import annotations

import ctypes
import json
import os
import tempfile
from ctypes import byref, c_char_p, c_int, c_size_t, c_uint64, c_void_p
from pathlib import Path
from typing import Any


class DriverError(RuntimeError):
    """A driver call that did not answer CUDA_SUCCESS."""


class Driver:
    """The functions of libcuda that the tests need."""

    def __init__(self, path: str) -> None:
        try:
            self._lib = ctypes.CDLL(path)
        except OSError as error:
            raise DriverError(f"the CUDA driver cannot be loaded: {error}") from error

    def __call__(self, name: str, *arguments: Any) -> None:
        code = getattr(self._lib, name)(*arguments)
        if code != 0:
            text = c_char_p()
            self._lib.cuGetErrorString(code, byref(text))
            raise DriverError(f"{name}: {(text.value or b'unknown error').decode()} ({code})")


class Buffer:
    """Bytes on the device, filled with 0xff (a NaN in every float type) unless told otherwise."""

    def __init__(self, driver: Driver, size: int, fill: int | None = 0xFF) -> None:
        self._driver = driver
        self.bytes = max(size, 1)
        self._address = c_uint64()
        driver("cuMemAlloc_v2", byref(self._address), c_size_t(self.bytes))
        if fill is not None:
            driver("cuMemsetD8_v2", self._address, ctypes.c_ubyte(fill), c_size_t(self.bytes))

    @property
    def address(self) -> int:
        return self._address.value

    def write(self, host: int, size: int, at: int = 0) -> None:
        self._check(size, at)
        self._driver("cuMemcpyHtoD_v2", c_uint64(self.address + at), c_void_p(host), c_size_t(size))

    def read(self, host: int, size: int, at: int = 0) -> None:
        self._check(size, at)
        self._driver("cuMemcpyDtoH_v2", c_void_p(host), c_uint64(self.address + at), c_size_t(size))

    def _check(self, size: int, at: int) -> None:
        if at < 0 or size < 0 or at + size > self.bytes:
            raise ValueError(f"bytes {at} to {at + size} of a buffer of {self.bytes}")

    def free(self) -> None:
        if self.address != 0:
            self._driver("cuMemFree_v2", self._address)
            self._address = c_uint64()

    def __enter__(self) -> Buffer:
        return self

    def __exit__(self, *_: object) -> None:
        self.free()


class Gpu:
    """A device with its primary context current, and with it everything the C ABI asks of a caller.

    device: "virtual:l4" (and the others of the virtual GPU), with every check on; "cuda:0" is a real one.
    """

    def __init__(self, device: str, virtual_driver: Path, checks: str = "all") -> None:
        kind, _, name = device.partition(":")
        self.device_index = 0
        self.is_virtual = kind == "virtual"
        self._report: Path | None = None
        self._report_at = 0
        if self.is_virtual:
            handle, path = tempfile.mkstemp(prefix="flashmoe-gpu-", suffix=".jsonl")
            os.close(handle)
            self._report = Path(path)
            os.environ.update(VGPU_DEVICE=name, VGPU_CHECK=checks, VGPU_REPORT=path)
            os.environ.setdefault("VGPU_LOG", "off")
            os.environ["FLASHMOE_DRIVER"] = str(virtual_driver)
            self.driver = Driver(str(virtual_driver))
        elif kind == "cuda" and name.isdecimal():
            self.device_index = int(name)
            self.driver = Driver(os.environ.get("FLASHMOE_DRIVER", "libcuda.so.1"))
        else:
            raise DriverError(f"no device is called {device!r}; virtual:<gpu> and cuda:<n> are")
        self.driver("cuInit", 0)
        handle_of_device, self.context = c_int(), c_void_p()
        self.driver("cuDeviceGet", byref(handle_of_device), self.device_index)
        self.driver("cuDevicePrimaryCtxRetain", byref(self.context), handle_of_device)
        self.driver("cuCtxSetCurrent", self.context)

    def buffer(self, size: int, fill: int | None = 0xFF) -> Buffer:
        return Buffer(self.driver, size, fill)

    def synchronize(self) -> None:
        self.driver("cuCtxSynchronize")

    def reports(self) -> list[dict[str, Any]]:
        """What the virtual GPU wrote since the last call, one report per launch; a real GPU writes none."""
        if self._report is None:
            return []
        with self._report.open() as file:
            file.seek(self._report_at)
            lines = file.readlines()
            self._report_at = file.tell()
        return [json.loads(line) for line in lines]

    def close(self) -> None:
        if self._report is not None:
            self._report.unlink(missing_ok=True)
