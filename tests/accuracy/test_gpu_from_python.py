"""The C ABI's GPU path driven from Python, as a caller without torch would: device buffers over the driver API, here on
the virtual GPU with every check on. FMS_LIBRARY, FMS_ORACLE and FMS_VGPU name the built libraries."""

from __future__ import annotations

import ctypes
import json
import math
import os
from collections.abc import Iterator
from ctypes import byref, c_void_p
from pathlib import Path

import fms_abi as abi
import numpy as np
import pytest
from device_buffer import Buffer, DriverError, Gpu

LIBRARY, ORACLE, VGPU = (Path(os.environ[name]) for name in ("FMS_LIBRARY", "FMS_ORACLE", "FMS_VGPU"))


@pytest.fixture(scope="module")
def gpu() -> Iterator[Gpu]:
    one = Gpu("virtual:l4", VGPU)
    yield one
    one.close()


@pytest.fixture(scope="module")
def library(gpu: Gpu) -> Iterator[abi.Library]:
    one = abi.Library(LIBRARY, device_kind=abi.CUDA)
    yield one
    one.close()


@pytest.fixture(autouse=True)
def no_old_reports(gpu: Gpu) -> None:
    gpu.reports()


def contiguous(heads: int, length: int, dim: int) -> abi.Strides:
    return abi.Strides(heads * length * dim, length * dim, dim)


def describe(batch: int, heads: int, kv_heads: int, q_len: int, kv_len: int, dim: int) -> abi.Problem:
    p = abi.Problem(struct_size=ctypes.sizeof(abi.Problem), dtype=abi.DTYPES["fp16"], features=abi.LSE)
    p.bias_dtype = p.dtype
    p.batch, p.q_heads, p.kv_heads, p.q_len, p.kv_len, p.head_dim = batch, heads, kv_heads, q_len, kv_len, dim
    p.value_dim = dim
    p.q = p.o = contiguous(heads, q_len, dim)
    p.k = p.v = contiguous(kv_heads, kv_len, dim)
    p.lse = abi.Strides(heads * q_len, q_len, 1)
    p.softmax_scale = 1 / math.sqrt(dim)
    p.window_left = p.window_right = -1
    return p


class Case:
    """A contiguous fp16 problem in the host's memory and in the device's."""

    def __init__(self, gpu: Gpu, problem: abi.Problem, o_bytes: int | None = None) -> None:
        rng = np.random.default_rng(7)
        p = self.problem = problem
        q_shape = (p.batch, p.q_heads, p.q_len, p.head_dim)
        kv_shape = (p.batch, p.kv_heads, p.kv_len, p.head_dim)
        self.host = {name: rng.standard_normal(q_shape).astype(np.float16) for name in "q"}
        self.host |= {name: rng.standard_normal(kv_shape).astype(np.float16) for name in "kv"}
        self.o = np.full(q_shape, np.nan, np.float16)
        self.lse = np.full(q_shape[:3], np.nan, np.float32)
        self.buffers: dict[str, Buffer] = {"o": gpu.buffer(self.o.nbytes if o_bytes is None else o_bytes)}
        self.buffers["lse"] = gpu.buffer(self.lse.nbytes)
        for name, array in self.host.items():
            self.buffers[name] = gpu.buffer(array.nbytes)
            self.buffers[name].write(array.ctypes.data, array.nbytes)
        self.args = abi.Args(struct_size=ctypes.sizeof(abi.Args))
        for name, buffer in self.buffers.items():
            setattr(self.args, name, buffer.address)
        self.gpu = gpu

    def run(self, library: abi.Library, plan: abi.Plan, stream: int = 0) -> abi.RunInfo:
        with self.gpu.buffer(plan.workspace_bytes, fill=None) as workspace:
            info = library.run(plan, self.args, workspace.address if plan.workspace_bytes else 0, stream)
            self.gpu.synchronize()
        self.buffers["o"].read(self.o.ctypes.data, self.o.nbytes)
        self.buffers["lse"].read(self.lse.ctypes.data, self.lse.nbytes)
        return info

    def expected(self) -> tuple[np.ndarray, np.ndarray]:
        o, lse = np.empty(self.o.shape), np.empty(self.lse.shape)
        args = abi.Args(struct_size=ctypes.sizeof(abi.Args))
        for name, array in self.host.items():
            setattr(args, name, array.ctypes.data)
        abi.Oracle(ORACLE).attention(self.problem, args, o.ctypes.data, lse.ctypes.data)
        return o, lse

    def free(self) -> None:
        for buffer in self.buffers.values():
            buffer.free()


@pytest.mark.parametrize(
    ("shape", "kv_splits", "causal"),
    [((1, 1, 1, 128, 128, 64), 0, False), ((1, 8, 2, 1, 300, 128), 5, False), ((2, 3, 3, 77, 90, 72), 0, True)],
)
def test_result(
    gpu: Gpu, library: abi.Library, shape: tuple[int, int, int, int, int, int], kv_splits: int, causal: bool
) -> None:
    problem = describe(*shape)
    problem.window_right = 0 if causal else -1
    case = Case(gpu, problem)
    plan = library.plan(problem, kv_splits=kv_splits)
    info = case.run(library, plan)
    o, lse = case.expected()
    assert info.kv_splits == plan.kv_splits == (kv_splits or plan.kv_splits)
    assert np.abs(case.o - o).max() < 0.01
    assert np.abs(case.lse - lse).max() < 1e-3
    reports = gpu.reports()
    assert len(reports) == 1  # the splits are combined in the same launch
    assert [finding for report in reports for finding in report["findings"]] == []
    assert math.prod(reports[0]["grid"]) == plan.work_items
    case.free()


def test_a_plan_explains_itself(library: abi.Library) -> None:
    plan = library.plan(describe(1, 32, 8, 1, 32768, 128))
    text = library.explain(plan)
    print(text)
    assert "head_dim 128 on a GPU" in text
    assert f"keys split {plan.kv_splits} ways: {plan.work_items} CTAs on {plan.sm_count} SMs" in text
    assert plan.sm_count == 58  # an L4's
    data = json.loads(library.json(plan))
    for name in ("kv_splits", "q_tile", "kv_tile", "work_items", "workspace_bytes", "instance", "sm_count"):
        assert data[name] == getattr(plan, name), name
    assert data["device_kind"] == "cuda"


def test_own_stream_and_the_same_bits_again(gpu: Gpu, library: abi.Library) -> None:
    problem = describe(1, 2, 1, 40, 200, 64)
    case = Case(gpu, problem)
    plan = library.plan(problem, kv_splits=4)
    stream = c_void_p()
    gpu.driver("cuStreamCreate", byref(stream), 1)
    assert stream.value
    case.run(library, plan)
    first = case.o.copy(), case.lse.copy()
    case.run(library, plan, stream.value)
    assert first[0].tobytes() == case.o.tobytes()
    assert first[1].tobytes() == case.lse.tobytes()
    gpu.driver("cuStreamDestroy_v2", stream)
    case.free()


def test_errors_are_told(library: abi.Library) -> None:
    with pytest.raises(abi.FlashmoeError, match="device_index is 7; allowed: 0 to 0"):
        abi.Library(LIBRARY, device_kind=abi.CUDA, device_index=7)
    with pytest.raises(abi.FlashmoeError, match="fp32; allowed on a GPU: fp16, bf16"):
        wrong = describe(1, 1, 1, 8, 8, 64)
        wrong.dtype = abi.DTYPES["fp32"]
        library.plan(wrong)
    with pytest.raises(abi.FlashmoeError, match="q_tile"):
        library.plan(describe(1, 1, 1, 8, 8, 64), q_tile=48)


def test_a_buffer_knows_its_end(gpu: Gpu) -> None:
    host = np.zeros(8, np.uint8)
    with gpu.buffer(8) as buffer:
        buffer.write(host.ctypes.data, 8)
        with pytest.raises(ValueError, match="bytes 4 to 12 of a buffer of 8"):
            buffer.read(host.ctypes.data, 8, at=4)


def test_a_buffer_that_is_too_short_is_found(gpu: Gpu, library: abi.Library) -> None:
    """So that silence means something. The last test: the context is dead afterwards, as a real one would be."""
    problem = describe(1, 1, 1, 64, 64, 64)
    case = Case(gpu, problem, o_bytes=64 * 64 * 2 - 16)
    plan = library.plan(problem)
    with pytest.raises((abi.FlashmoeError, DriverError), match="illegal memory access"):
        case.run(library, plan)
    found = [finding for report in gpu.reports() for finding in report["findings"]]
    assert found
    assert found[0]["check"] == "memcheck"
