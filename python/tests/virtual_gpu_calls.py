"""Run by test_virtual_gpu.py: the package's path for CUDA tensors on the virtual GPU, with every check on.

Prints what the package asked of the driver during the last call, one function a line.
"""

import os
import sys
from ctypes import byref, c_void_p
from pathlib import Path

import numpy as np
from device_buffer import Gpu
from device_tensor import Framework

from flashmoe_science import _C


def expected(q: np.ndarray, k: np.ndarray, v: np.ndarray, causal: bool) -> tuple[np.ndarray, np.ndarray]:
    """In float64. q is (B, H, Sq, D), k and v (B, Hkv, Skv, D)."""
    group = q.shape[1] // k.shape[1]
    q, k, v = (x.astype(np.float64) for x in (q, np.repeat(k, group, 1), np.repeat(v, group, 1)))
    scores = q @ k.swapaxes(-1, -2) / np.sqrt(q.shape[-1])
    if causal:
        i, j = np.indices(scores.shape[-2:])
        scores[..., j > i + scores.shape[-1] - scores.shape[-2]] = -np.inf
    lse = np.log(np.exp(scores - scores.max(-1, keepdims=True)).sum(-1)) + scores.max(-1)
    return np.exp(scores - lse[..., None]) @ v, lse


def check(o: np.ndarray, lse: np.ndarray, wanted: tuple[np.ndarray, np.ndarray]) -> None:
    assert np.abs(o - wanted[0]).max() < 0.01, np.abs(o - wanted[0]).max()
    assert np.abs(lse - wanted[1]).max() < 1e-3, np.abs(lse - wanted[1]).max()


def main() -> None:
    calls = Path(os.environ["VGPU_LOG"])
    gpu = Gpu("virtual:l4", Path(os.environ["FMS_VGPU"]))
    framework = Framework(gpu)
    framework.register(_C)
    rng = np.random.default_rng(3)

    def normal(*shape: int) -> np.ndarray:
        return rng.standard_normal(shape).astype(np.float16)

    # The default stream, no split, then layout bshd on a stream of its own with a forced split.
    q, k, v = normal(1, 4, 60, 64), normal(1, 2, 70, 64), normal(1, 2, 70, 64)
    o, lse = _C.attention(*map(framework.tensor, (q, k, v)), causal=True, return_lse=True, num_splits=1)
    gpu.synchronize()
    check(o.numpy(), lse.numpy(), expected(q, k, v, True))
    assert framework.allocated == [(1, 4, 60, 64), (1, 4, 60)], framework.allocated

    stream = c_void_p()
    gpu.driver("cuStreamCreate", byref(stream), 1)
    framework.stream = stream.value
    tensors = [framework.tensor(x.swapaxes(1, 2)) for x in (q, k, v)]
    for _ in range(2):
        begin = len(calls.read_text().splitlines())
        o, lse = _C.attention(*tensors, layout="bshd", return_lse=True, num_splits=3)
        during = calls.read_text().splitlines()[begin:]
    gpu.synchronize()
    check(o.numpy().swapaxes(1, 2), lse.numpy(), expected(q, k, v, False))
    assert len(framework.allocated) == 2 + 2 * 3, framework.allocated  # and a workspace each
    assert not framework._managed, "the workspace was not given back"

    # It is the framework's stream that is launched into: one that is none is refused.
    framework.stream = 0xBAD0
    try:
        _C.attention(*tensors, layout="bshd")
        raise AssertionError("a stream that is none was not refused")
    except RuntimeError as error:
        assert "cuLaunchKernel" in str(error) or "cuMemsetD32Async" in str(error), error
    framework.stream = stream.value

    # Where no context is current (a new thread), the package finds the device's own and leaves none behind.
    q_there, lse = framework.tensor(q), framework.tensor(np.zeros(q.shape[:3], np.float32))
    context = c_void_p()
    gpu.driver("cuCtxSetCurrent", None)
    o = _C.flash_attention_forward(q_there, q_there, q_there, lse, False)
    gpu.driver("cuCtxGetCurrent", byref(context))
    assert context.value is None
    gpu.driver("cuCtxSetCurrent", gpu.context)
    gpu.synchronize()
    check(o.numpy(), lse.numpy(), expected(q, q, q, False))

    reports = gpu.reports()
    findings = [finding for report in reports for finding in report["findings"]]
    assert len(reports) == 4 and not findings, findings
    print("\n".join(during))
    gpu.close()


if __name__ == "__main__":
    sys.exit(main())
