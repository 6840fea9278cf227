"""Gradients: the composite backward against finite differences in float64 and against autograd through the formula."""

from typing import Any

import pytest

torch = pytest.importorskip("torch")
import flashmoe_science as fs
from flashmoe_science import _composite
from formulas import eager, random

needs_operators = pytest.mark.skipif(
    not hasattr(torch.ops.flashmoe_science, "attention"), reason="this wheel was built without torch"
)

OPTIONS: dict[str, dict[str, Any]] = {
    "plain": {},
    "causal": {"causal": True},
    "scale and softcap": {"scale": 0.4, "softcap": 1.5},
    "window": {"window": (2, 1)},
}


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Several blocks of keys even in a tiny problem."""
    monkeypatch.setattr(_composite, "KEYS_PER_BLOCK", 3)


def leaves(*shapes: tuple[int, ...], dtype: Any = torch.float64) -> list[Any]:
    return [random(*shape, dtype=dtype, seed=i).requires_grad_() for i, shape in enumerate(shapes)]


@pytest.mark.parametrize("name", OPTIONS)
@pytest.mark.parametrize("lengths", [(5, 7), (7, 5)])
def test_gradcheck(name: str, lengths: tuple[int, int]) -> None:
    q, k, v = leaves((2, 4, lengths[0], 3), (2, 2, lengths[1], 3), (2, 2, lengths[1], 3))

    def call(*tensors: Any) -> Any:
        out, lse = fs.attention(*tensors, return_lse=True, **OPTIONS[name])
        return out, lse.masked_fill(lse == -torch.inf, 0.0)  # finite differences of -inf are not numbers

    assert torch.autograd.gradcheck(call, (q, k, v))


@pytest.mark.parametrize("value_dim", [2, 5])
def test_gradcheck_of_values_of_another_size(value_dim: int) -> None:
    q, k, v = leaves((2, 4, 5, 3), (2, 2, 7, 3), (2, 2, 7, value_dim))
    assert torch.autograd.gradcheck(lambda *tensors: fs.attention(*tensors, causal=True, return_lse=True), (q, k, v))


def test_operator_gradients_of_values_of_another_size() -> None:
    tensors = leaves((2, 4, 33, 48), (2, 2, 45, 48), (2, 2, 45, 16), dtype=torch.float32)
    out = fs.attention(*tensors)
    weight = random(*out.shape, seed=9)
    exact = eager(*tensors)[0]
    for ours, theirs in zip(
        torch.autograd.grad((out * weight).sum(), tensors),
        torch.autograd.grad((exact * weight).sum(), tensors),
        strict=True,
    ):
        torch.testing.assert_close(ours, theirs, rtol=2e-4, atol=2e-5)


@pytest.mark.parametrize("bias_shape", [(2, 4, 5, 7), (4, 1, 7), (5, 7), (2, 1, 5, 1)])
def test_gradcheck_of_bias_and_sinks(bias_shape: tuple[int, ...]) -> None:
    tensors = leaves((2, 4, 5, 3), (2, 2, 7, 3), (2, 2, 7, 3), bias_shape, (4,))
    assert torch.autograd.gradcheck(
        lambda q, k, v, bias, sinks: fs.attention(
            q, k, v, bias=bias, sinks=sinks, softcap=2.0, window=(3, 1), return_lse=True
        ),
        tensors,
    )


def test_gradcheck_of_two_biases() -> None:
    tensors = leaves((4, 2, 5, 3), (4, 2, 7, 3), (4, 2, 7, 3), (2, 1, 2, 5, 7), (2, 2, 1, 1, 7))
    assert torch.autograd.gradcheck(lambda q, k, v, b, b2: fs.attention(q, k, v, bias=b, bias2=b2), tensors)


def test_gradients_of_two_biases_through_the_operator() -> None:
    shapes = (4, 2, 33, 16), (4, 2, 45, 16), (4, 2, 45, 16), (2, 1, 2, 33, 45), (2, 2, 1, 1, 45)
    tensors = leaves(*shapes, dtype=torch.float32)
    biases = {"bias": tensors[3], "bias2": tensors[4]}
    out, exact = fs.attention(*tensors[:3], **biases), eager(*tensors[:3], **biases)[0]
    weight = random(*out.shape, seed=9)
    ours = torch.autograd.grad((out * weight).sum(), tensors)
    for mine, theirs in zip(ours, torch.autograd.grad((exact * weight).sum(), tensors), strict=True):
        torch.testing.assert_close(mine, theirs, rtol=2e-4, atol=2e-5)


def test_gradcheck_of_ragged_batches() -> None:
    q, k, v = leaves((8, 4, 3), (11, 2, 3), (11, 2, 3))
    cu_q, cu_kv = torch.tensor([0, 3, 3, 8]).int(), torch.tensor([0, 4, 5, 11]).int()
    assert torch.autograd.gradcheck(
        lambda *t: fs.attention(*t, cu_q=cu_q, cu_kv=cu_kv, causal=True, layout="bshd"), (q, k, v)
    )


def test_gradcheck_of_key_lengths() -> None:
    q, k, v = leaves((2, 5, 4, 3), (2, 6, 2, 3), (2, 6, 2, 3))
    lengths = torch.tensor([6, 4]).int()
    assert torch.autograd.gradcheck(lambda *t: fs.attention(*t, kv_lengths=lengths, layout="bshd"), (q, k, v))


@needs_operators
@pytest.mark.parametrize("name", OPTIONS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16], ids=str)
def test_operator_gradients_match_the_formula(name: str, dtype: Any) -> None:
    """The kernels' forward with the composite backward, not the float64 forward."""
    tensors = leaves((1, 4, 20, 16), (1, 2, 20, 16), (1, 2, 20, 16), (4, 20, 20), (4,), dtype=dtype)
    tensors[4] = tensors[4].detach().float().requires_grad_()
    weight = random(1, 4, 20, 16, dtype=dtype, seed=9)
    out, lse = fs.attention(*tensors[:3], bias=tensors[3], sinks=tensors[4], return_lse=True, **OPTIONS[name])
    assert "flashmoe_science" in type(out.grad_fn).__name__
    ours = torch.autograd.grad((out * weight).sum() + lse.sum(), tensors)
    exact_tensors = [t.detach().double().requires_grad_() for t in tensors]
    exact_out, exact_lse = eager(*exact_tensors[:3], bias=exact_tensors[3], sinks=exact_tensors[4], **OPTIONS[name])
    exact = torch.autograd.grad((exact_out * weight).sum() + exact_lse.sum(), exact_tensors)
    tolerance = {torch.float32: 1e-5, torch.bfloat16: 3e-2, torch.float16: 4e-3}[dtype]
    for gradient, expected in zip(ours, exact, strict=True):
        scale = expected.abs().max().clamp(min=1.0)
        assert ((gradient.double() - expected).abs().max() / scale).item() < tolerance


@needs_operators
def test_ragged_operator_gradients_match_the_dense_ones() -> None:
    q, k, v = leaves((8, 4, 16), (11, 2, 16), (11, 2, 16), dtype=torch.float32)
    cu_q, cu_kv = torch.tensor([0, 3, 8]).int(), torch.tensor([0, 4, 11]).int()
    packed = torch.autograd.grad(fs.attention(q, k, v, cu_q=cu_q, cu_kv=cu_kv, layout="bshd").sum(), (q, k, v))
    parts = [
        fs.attention(*(t[None] for t in (q[a:b], k[c:d], v[c:d])), layout="bshd").sum()
        for a, b, c, d in ((0, 3, 0, 4), (3, 8, 4, 11))
    ]
    for gradient, expected in zip(packed, torch.autograd.grad(sum(parts), (q, k, v)), strict=True):
        torch.testing.assert_close(gradient, expected, rtol=0, atol=1e-6)


@needs_operators
def test_rows_without_keys_have_no_gradient() -> None:
    q, k, v = leaves((1, 1, 5, 8), (1, 1, 3, 8), (1, 1, 3, 8), dtype=torch.float32)
    gradients = torch.autograd.grad(fs.attention(q, k, v, causal=True).sum(), (q, k, v))
    assert all(torch.isfinite(g).all() for g in gradients)
    assert (gradients[0][0, 0, :2] == 0).all()


@needs_operators
def test_merge_states_gradients() -> None:
    q, k, v = leaves((2, 6, 3, 8), (2, 9, 3, 8), (2, 9, 3, 8), dtype=torch.float32)

    def in_two(layout: str, q: Any, k: Any, v: Any, axis: int) -> Any:
        halves = [
            fs.attention(q, k.narrow(axis, begin, size), v.narrow(axis, begin, size), layout=layout, return_lse=True)
            for begin, size in ((0, 4), (4, 5))
        ]
        return fs.merge_states(*halves[0], *halves[1], layout=layout)

    for layout, axis in (("bshd", 1), ("bhsd", 2)):
        arrays = (q, k, v) if layout == "bshd" else tuple(t.transpose(1, 2) for t in (q, k, v))
        out, lse = in_two(layout, *arrays, axis)
        whole, whole_lse = fs.attention(*arrays, layout=layout, return_lse=True)
        weight = torch.cos(torch.arange(out.numel())).reshape(out.shape)
        ours = torch.autograd.grad((out * weight).sum() + lse.square().sum(), (q, k, v))
        expected = torch.autograd.grad((whole * weight).sum() + whole_lse.square().sum(), (q, k, v))
        for gradient, reference in zip(ours, expected, strict=True):
            torch.testing.assert_close(gradient, reference, rtol=1e-4, atol=1e-4)


@needs_operators
def test_what_has_no_gradient_says_so() -> None:
    q, pages = leaves((1, 2, 1, 16), (4, 2, 8, 16), dtype=torch.float32)
    table = torch.zeros(1, 2, dtype=torch.int32)
    with pytest.raises(NotImplementedError, match="block_table: there is no gradient"):
        fs.attention(q, pages, pages, block_table=table)
    with torch.no_grad():
        assert fs.attention(q, pages, pages, block_table=table).shape == q.shape
    with pytest.raises(ValueError, match="out cannot be used when a gradient is recorded"):
        fs.attention(q, pages[:1], pages[:1], out=torch.empty(1, 2, 1, 16))
    (first,) = torch.autograd.grad(fs.attention(q, pages[:1], pages[:1]).sum(), q, create_graph=True)
    with pytest.raises(NotImplementedError, match="cannot be differentiated again"):
        torch.autograd.grad(first.sum(), q)
