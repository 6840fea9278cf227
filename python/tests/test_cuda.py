"""CUDA tensors in torch: what can be held without a GPU. The calls themselves are in test_virtual_gpu.py."""

import ctypes
import os
from typing import Any

import pytest

torch = pytest.importorskip("torch")
from torch._subclasses import FakeTensorMode

import flashmoe_science as fs
from flashmoe_science import _composite
from formulas import random

if not hasattr(torch.ops.flashmoe_science, "attention"):
    pytest.skip("this wheel was built without torch", allow_module_level=True)


@pytest.mark.parametrize("operator", ["attention", "merge_states"])
@pytest.mark.parametrize("key", ["CPU", "CUDA", "Meta", "AutogradCUDA"])
def test_is_registered(operator: str, key: str) -> None:
    assert torch._C._dispatch_has_computed_kernel_for_dispatch_key(f"flashmoe_science::{operator}", key)


@pytest.mark.parametrize("key", ["XPU", "MPS"])
def test_is_not_registered_where_it_has_no_kernels(key: str) -> None:
    assert not torch._C._dispatch_has_kernel_for_dispatch_key("flashmoe_science::attention", key)


def test_the_stream_is_asked_for_where_torch_has_it() -> None:
    if torch.version.cuda is None:
        pytest.skip("this torch was built without CUDA")
    loaded = ctypes.CDLL("libtorch_cuda.so", mode=os.RTLD_LAZY | os.RTLD_NOLOAD)
    assert loaded.aoti_torch_get_current_cuda_stream


@pytest.mark.parametrize("layout", ["bhsd", "bshd"])
def test_fake_cuda_tensors_have_shapes(layout: Any) -> None:
    with FakeTensorMode():
        q = torch.empty(2, 8, 8, 64, dtype=torch.float16, device="cuda:1")
        out, lse = fs.attention(q, q, q, causal=True, layout=layout, return_lse=True)
        merged, merged_lse = fs.merge_states(out, lse, out, lse, layout=layout)
    for result in (out, merged):
        assert (result.shape, result.dtype, result.device) == (q.shape, torch.float16, torch.device("cuda:1"))
    for result in (lse, merged_lse):
        assert (result.shape, result.dtype, result.device) == ((2, 8, 8), torch.float32, torch.device("cuda:1"))


def test_fake_cuda_tensors_in_packed_batches_record_gradients() -> None:
    """torch's engine does not run a backward on a device that is not there; what it would call does."""
    with FakeTensorMode():
        q, k = (torch.empty(10, 4, 64, dtype=torch.bfloat16, device="cuda", requires_grad=True) for _ in range(2))
        cu = torch.empty(3, dtype=torch.int32, device="cuda")
        out = fs.flash_attn_varlen_func(q, k, k, cu, cu, 6, 6, causal=True)
        assert out.requires_grad
        _, lse = fs.attention(q, k, k, layout="bshd", cu_q=cu, cu_kv=cu, max_q=6, max_kv=6, return_lse=True)
        options = {"scale": None, "window_left": -1, "window_right": 0, "softcap": 0.0, "layout": "bshd"}
        gradients = torch.ops.flashmoe_science.attention_backward(
            out, None, q, k, k, None, None, cu, cu, None, out, lse, **options
        )
    assert [g.shape for g in gradients[:3]] == [q.shape] * 3
    assert {tensor.device.type for tensor in (out, lse, *gradients)} == {"cuda"}


def test_autocast_of_the_device() -> None:
    was, dtype = torch.is_autocast_enabled("cuda"), torch.get_autocast_dtype("cuda")
    torch.set_autocast_enabled("cuda", True)
    torch.set_autocast_dtype("cuda", torch.bfloat16)
    try:
        with FakeTensorMode():
            q, on_cpu = torch.empty(1, 2, 4, 64, device="cuda"), torch.empty(1, 2, 4, 64)
            assert fs.attention(q, q, q).dtype == torch.bfloat16
            assert fs.attention(on_cpu, on_cpu, on_cpu).dtype == torch.float32
    finally:
        torch.set_autocast_enabled("cuda", was)
        torch.set_autocast_dtype("cuda", dtype)


@pytest.mark.parametrize("layout", ["bhsd", "bshd"])
@pytest.mark.parametrize("packed", [False, True])
def test_the_composite_of_merge_states_is_the_operator(layout: str, packed: bool) -> None:
    shape = (6, 6, 16) if packed else (2, 6, 6, 16)
    o_a, o_b = (random(*shape, seed=i) for i in (1, 2))
    lse_a, lse_b = (random(*shape[:-1], seed=i) for i in (3, 4))
    lse_a[..., :2] = -torch.inf  # rows 0 and 1 have nothing from a, which may then hold anything,
    (o_a[..., :2, :] if layout == "bhsd" else o_a[..., :2, :, :]).fill_(torch.nan)
    lse_b[..., 0] = -torch.inf  # and row 0 nothing at all
    expected = torch.ops.flashmoe_science.merge_states(o_a, lse_a, o_b, lse_b, layout=layout)
    result = _composite.merge_states(o_a, lse_a, o_b, lse_b, layout=layout)
    torch.testing.assert_close(result, expected)
    with pytest.raises(ValueError, match=r"lse_a is float32 of shape .*; expected float32"):
        _composite.merge_states(o_a, lse_a[..., :5], o_b, lse_b, layout=layout)


def test_the_composite_of_merge_states_has_the_operators_corners() -> None:
    inf, nan = float("inf"), float("nan")
    rows = [(inf, 0.0), (-inf, inf), (0.0, -110.0), (-inf, -inf), (-inf, 0.0), (nan, 0.0)]
    lse_a, lse_b = (torch.tensor(side).reshape(1, 1, -1) for side in zip(*rows, strict=True))
    o_a = torch.full((1, 1, len(rows), 8), 1.0)
    o_b = torch.full((1, 1, len(rows), 8), 2.0)
    o_b[:, :, 2] = nan  # a weight that rounds to 0 does not hide it
    o_a[:, :, 4] = nan  # a part without weight does
    expected = torch.ops.flashmoe_science.merge_states(o_a, lse_a, o_b, lse_b, layout="bhsd")
    result = _composite.merge_states(o_a, lse_a, o_b, lse_b, layout="bhsd")
    for got, want in zip(result, expected, strict=True):
        torch.testing.assert_close(got, want, equal_nan=True)
