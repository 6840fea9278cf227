"""torch's own attention functions, answered here while a route is open."""

import inspect
from typing import Any

import pytest

torch = pytest.importorskip("torch")
from torch.nn.attention import varlen
from torch.utils.flop_counter import FlopCounterMode

import flashmoe_science as fs
from flashmoe_science import routing
from formulas import assert_as_exact, eager, random

sdpa = torch.nn.functional.scaled_dot_product_attention
TAKES = inspect.signature(varlen.varlen_attn).parameters
# Older versions of torch take as many heads of keys as of queries, and know no windows.
GROUPED = {"enable_gqa": True} if "enable_gqa" in TAKES else {}
CAUSAL = {"window_size": (-1, 0)} if "window_size" in TAKES else {"is_causal": True}


def names_of(call: Any) -> list[str]:
    with torch.profiler.profile(record_shapes=True) as profile:
        call()
    return [event.key for event in profile.key_averages()]


def packed(dtype: Any = torch.bfloat16) -> tuple[Any, ...]:
    q = random(120, 4, 64, dtype=dtype)
    k, v = (random(120, 2 if GROUPED else 4, 64, dtype=dtype, seed=i) for i in (1, 2))
    return q, k, v, torch.tensor([0, 1, 90, 120], dtype=torch.int32)


def test_varlen_attn_has_no_cpu_kernel_but_while_the_route_is_open() -> None:
    q, k, v, offsets = packed()

    def call() -> Any:
        return varlen.varlen_attn(q, k, v, offsets, offsets, 89, 89, **CAUSAL, **GROUPED)

    with pytest.raises(NotImplementedError):
        call()
    expected = fs.attention(q, k, v, cu_q=offsets, cu_kv=offsets, causal=True, layout="bshd")
    with routing.open("varlen"):
        assert torch.equal(call(), expected)
        assert "flashmoe_science::attention" in names_of(call)
    with pytest.raises(NotImplementedError):
        call()


def test_varlen_attn_differentiates() -> None:
    q, k, v, offsets = packed(torch.float32)
    k, v = (x.repeat_interleave(4 // x.shape[1], 1) for x in (k, v))
    leaves = [x.clone().requires_grad_() for x in (q, k, v)]
    ours = [x.clone().requires_grad_() for x in (q, k, v)]
    with routing.open("varlen"):
        varlen.varlen_attn(*leaves, offsets, offsets, 89, 89, **CAUSAL).square().sum().backward()
    fs.attention(*ours, cu_q=offsets, cu_kv=offsets, causal=True, layout="bshd").square().sum().backward()
    for leaf, other in zip(leaves, ours, strict=True):
        torch.testing.assert_close(leaf.grad, other.grad)


def test_torch_knows_the_route_by_name() -> None:
    attention = torch.nn.attention
    if not hasattr(attention, "restore_flash_attention_impl"):
        pytest.skip("this torch has no registry of implementations")
    q, k, v, offsets = packed()
    attention.activate_flash_attention_impl("flashmoe_science")
    try:
        varlen.varlen_attn(q, k, v, offsets, offsets, 89, 89, **GROUPED)
    finally:
        attention.restore_flash_attention_impl()
    with pytest.raises(NotImplementedError):
        varlen.varlen_attn(q, k, v, offsets, offsets, 89, 89, **GROUPED)


SHAPES = [((2, 4, 70, 64), (2, 4, 70, 64)), ((1, 4, 1, 64), (1, 4, 200, 64)), ((1, 2, 33, 64), (1, 2, 70, 64))]


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32], ids=str)
@pytest.mark.parametrize("shapes", SHAPES)
@pytest.mark.parametrize("kind", ["plain", "causal", "bool", "float"])
def test_sdpa(dtype: Any, shapes: Any, kind: str) -> None:
    q, k, v = random(*shapes[0], dtype=dtype), *(random(*shapes[1], dtype=dtype, seed=i) for i in (1, 2))
    if kind == "causal":  # as most models have it: rows before heads
        q, k, v = (x.transpose(1, 2).contiguous().transpose(1, 2) for x in (q, k, v))
    rows, keys = shapes[0][2], shapes[1][2]
    kept = torch.rand(rows, keys, generator=torch.Generator().manual_seed(1)) < 0.7
    kept[:, 0] = True
    bias = torch.zeros(rows, keys).masked_fill(~kept, -torch.inf)
    options: dict[str, Any] = {
        "plain": {},
        "causal": {"is_causal": True},
        "bool": {"attn_mask": kept},
        "float": {"attn_mask": bias.to(dtype)},
    }[kind]
    if kind == "causal":
        bias = torch.zeros(rows, keys).masked_fill(torch.arange(keys) > torch.arange(rows)[:, None], -torch.inf)
    exact = eager(q, k, v, bias=None if kind == "plain" else bias)[0]
    theirs = sdpa(q, k, v, **options)
    with routing.open("sdpa"):
        ours = sdpa(q, k, v, **options)
        names = names_of(lambda: sdpa(q, k, v, **options))
    assert_as_exact(ours, theirs, exact)
    assert ours.stride() == torch.empty_like(q).stride()  # what torch tells its compilers
    is_ours = dtype == torch.float32 and "attn_mask" not in options if dtype == torch.float32 else fs.isa() == "amx"
    assert ("flashmoe_science::attention" in names) == is_ours
    torch.testing.assert_close(sdpa(q, k, v, **options), theirs, rtol=0, atol=0)


def test_sdpa_leaves_the_rest_to_torch() -> None:
    q = random(1, 2, 20, 64).double()
    leaf = random(1, 2, 20, 64).requires_grad_()
    expected = sdpa(q, q, q)
    sdpa(leaf, leaf, leaf).sum().backward()
    gradient, leaf.grad = leaf.grad, None
    with routing.open("sdpa"):
        assert torch.equal(sdpa(q, q, q), expected)
        sdpa(leaf, leaf, leaf).sum().backward()
    torch.testing.assert_close(leaf.grad, gradient)


def test_flops_are_counted_once() -> None:
    q = random(1, 2, 64, 32, dtype=torch.bfloat16)
    with FlopCounterMode(display=False) as counter:
        sdpa(q, q, q)
    with routing.open("sdpa"), FlopCounterMode(display=False) as routed:
        sdpa(q, q, q)
    assert routed.get_total_flops() == counter.get_total_flops()
    assert counter.get_total_flops() > 0 or not GROUPED  # older versions of torch count none on the CPU


def test_handles() -> None:
    handle = routing.open("sdpa")
    with pytest.raises(RuntimeError, match="route sdpa is open already"):
        routing.open()
    handle.restore()
    handle.restore()
    with routing.open():
        pass
    with pytest.raises(ValueError, match="there is no route 'flex'"):
        routing.open("flex")
