"""Masks of truth values: what they hide is not there, and nothing is made of them."""

from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
from torch.utils._python_dispatch import TorchDispatchMode

import flashmoe_science as fs
from formulas import assert_as_exact, assert_lse, eager, random

DTYPES = [torch.float16, torch.bfloat16, torch.float32]
BATCH, HEADS, KEYS = 3, 4, 200


def as_bias(mask: Any) -> Any:
    return torch.zeros(mask.shape).masked_fill(~mask, -torch.inf)


def padding() -> Any:
    keys = torch.arange(KEYS)
    ends = torch.tensor([KEYS, 130, 0])
    return ((keys < ends[:, None]) & (keys >= 7) & (keys % 50 != 3))[:, None, None, :]


def masks(q_len: int) -> dict[str, Any]:
    generator = torch.Generator().manual_seed(1)
    drawn = torch.rand(BATCH, HEADS, q_len, KEYS, generator=generator) < 0.5
    drawn[1, 2, 0] = False  # a row that sees nothing
    drawn[:, :, :, 64:128] = False  # a block that no row sees
    return {
        "padding": padding(),
        "all of it": drawn,
        "rows and keys": drawn[0, 0],
        "heads": drawn[:1, :, :1],
        "strided": drawn.mT.contiguous().mT,
        "shown": torch.ones(1, 1, q_len, KEYS, dtype=torch.bool),
        "hidden": torch.zeros(1, 1, 1, KEYS, dtype=torch.bool),
    }


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("q_len", [1, 5, 90])
@pytest.mark.parametrize("name", masks(1))
def test_hidden_keys_are_not_there(dtype: Any, q_len: int, name: str) -> None:
    mask = masks(q_len)[name]
    q = random(BATCH, HEADS, q_len, 64, dtype=dtype)
    k, v = (random(BATCH, 2, KEYS, 64, dtype=dtype, seed=i) for i in (1, 2))
    exact, exact_lse = eager(q, k, v, bias=as_bias(mask))
    theirs = eager(q, k, v, bias=as_bias(mask), dtype=dtype)[0]
    hidden = ~mask.expand(BATCH, HEADS, q_len, KEYS).any(2).view(BATCH, 2, 2, KEYS).any(2)
    k[hidden] = v[hidden] = torch.nan
    out, lse = fs.attention(q, k, v, mask=mask, return_lse=True)
    assert_as_exact(out, theirs, exact)
    assert_lse(lse, exact_lse)


def test_beside_all_else() -> None:
    q, k, v = (random(BATCH, HEADS, KEYS, 64, seed=i) for i in range(3))
    mask, bias, sinks = masks(KEYS)["all of it"], random(HEADS, KEYS, KEYS, seed=5), random(HEADS, seed=6)
    options: dict[str, Any] = {"causal": True, "sinks": sinks, "softcap": 5.0}
    exact, exact_lse = eager(q, k, v, bias=bias, bias2=as_bias(mask), **options)
    theirs = eager(q, k, v, bias=bias, bias2=as_bias(mask), dtype=torch.float32, **options)[0]
    out, lse = fs.attention(q, k, v, mask=mask, bias=bias, return_lse=True, **options)
    assert_as_exact(out, theirs, exact)
    assert_lse(lse, exact_lse)


def test_numpy_and_float64() -> None:
    q, k, v = (random(BATCH, HEADS, 40, 32, seed=i) for i in range(3))
    mask = masks(40)["all of it"][..., :40]
    out = fs.attention(*(x.numpy() for x in (q, k, v)), mask=mask.numpy())
    assert isinstance(out, np.ndarray)
    expected = eager(q, k, v, bias=as_bias(mask))[0]
    torch.testing.assert_close(torch.from_numpy(out).double(), expected, rtol=0, atol=1e-5)
    double = fs.attention(*(x.double() for x in (q, k, v)), mask=mask)
    torch.testing.assert_close(double, expected, rtol=0, atol=1e-12)


def test_gradients_are_those_of_sdpa() -> None:
    mask = masks(60)["padding"][:2]
    tensors = [random(2, HEADS, rows, 32, seed=i).requires_grad_() for i, rows in enumerate((60, KEYS, KEYS))]
    ours = torch.autograd.grad(fs.attention(*tensors, mask=mask).square().sum(), tensors)
    sdpa = torch.nn.functional.scaled_dot_product_attention
    theirs = torch.autograd.grad(sdpa(*tensors, attn_mask=mask).square().sum(), tensors)
    for one, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)


def test_in_a_graph() -> None:
    q, k, v = (random(BATCH, HEADS, KEYS, 64, seed=i) for i in range(3))
    mask = padding()
    compiled = torch.compile(lambda *tensors: fs.attention(*tensors[:3], mask=tensors[3]), fullgraph=True)
    with torch.no_grad():
        assert torch.equal(compiled(q, k, v, mask), fs.attention(q, k, v, mask=mask))


class Largest(TorchDispatchMode):
    """The most elements of a tensor of floats that any operator returns."""

    elements = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        for tensor in result if isinstance(result, tuple | list) else [result]:
            if isinstance(tensor, torch.Tensor) and tensor.is_floating_point():
                self.elements = max(self.elements, tensor.numel())
        return result


def test_no_bias_is_made_of_it() -> None:
    """Neither by attention() nor by the door of transformers, whose masks have a row for each query."""
    rows = 512
    q, k, v = (random(1, 2, rows, 32, seed=i) for i in range(3))
    mask = torch.ones(1, 1, rows, rows, dtype=torch.bool).tril().logical_and_(torch.arange(rows) % 7 != 2)
    with Largest() as ours, torch.no_grad():
        fs.attention(q, k, v, mask=mask)
    assert 0 < ours.elements < rows * rows
    with Largest() as biased, torch.no_grad():
        fs.attention(q, k, v, bias=as_bias(mask))
    assert biased.elements >= rows * rows, "the measurement sees what is made"
    pytest.importorskip("transformers")
    from flashmoe_science import hf

    with Largest() as door, torch.no_grad():
        out, _ = hf.attention_forward(torch.nn.Module(), q, k, v, mask)
    assert 0 < door.elements < rows * rows
    assert torch.equal(out, fs.attention(q, k, v, mask=mask).transpose(1, 2))
