"""The package itself: `_C`, its old call, versions, plans."""

from pathlib import Path

import numpy as np
import pytest

import flashmoe_science as fs
from flashmoe_science import _C

torch = pytest.importorskip("torch")
from formulas import eager, random


def test_c_lists_the_function() -> None:
    assert "flash_attention_forward" in dir(_C)


@pytest.mark.parametrize("lse_shape", [(2, 3, 40), (240,), (1, 6, 40, 1)])
def test_flash_attention_forward_writes_lse(lse_shape: tuple[int, ...]) -> None:
    q, k, v = (random(2, 3, 40, 64, dtype=torch.float16, seed=i) for i in range(3))
    lse = torch.full(lse_shape, torch.nan)
    out = _C.flash_attention_forward(q, k, v, lse, True, 0.125)
    exact, exact_lse = eager(q, k, v, causal=True, scale=0.125)
    assert (out.double() - exact).abs().max() < 0.01
    torch.testing.assert_close(lse.reshape(2, 3, 40).double(), exact_lse, rtol=0, atol=1e-4)


def test_flash_attention_forward_refuses_a_lazily_negated_view() -> None:
    q = torch.randn(1, 1, 4, 8)
    with pytest.raises(ValueError, match="Q is a lazily negated view"):
        _C.flash_attention_forward(torch._neg_view(q), q, q, False, 1.0)


def test_flash_attention_forward_without_lse() -> None:
    q, k, v = (random(1, 2, 32, 64, dtype=torch.float16, seed=i) for i in range(3))
    expected = fs.attention(q, k, v, causal=True, scale=0.2)
    assert torch.equal(_C.flash_attention_forward(q, k, v, True, 0.2), expected)
    assert torch.equal(_C.flash_attention_forward(q, k, v, causal=True, scale=0.2), expected)
    assert torch.equal(_C.flash_attention_forward(q, k, v, None, True, 0.2), expected)
    assert torch.equal(_C.flash_attention_forward(q, k, v, True, scale=0.2), expected)
    assert torch.equal(_C.flash_attention_forward(Q=q, K=k, V=v, causal=True, scale=0.2), expected)
    assert torch.equal(_C.flash_attention_forward(q, k, v), fs.attention(q, k, v))


def test_flash_attention_forward_takes_numpy() -> None:
    q = np.random.default_rng(0).standard_normal((1, 2, 8, 4), dtype=np.float32)
    lse = np.empty(16, np.float32)
    out = _C.flash_attention_forward(q, q, q, lse, False, 0.5)
    assert isinstance(out, np.ndarray)
    exact, exact_lse = eager(*(torch.from_numpy(q),) * 3, scale=0.5)
    np.testing.assert_allclose(out, exact.numpy(), atol=1e-5)
    np.testing.assert_allclose(lse, exact_lse.flatten().numpy(), atol=1e-4)


def test_flash_attention_forward_refuses_a_wrong_lse() -> None:
    q = torch.zeros(1, 2, 8, 64)
    with pytest.raises(ValueError, match=r"lse is float32 of shape \(15,\); expected contiguous float32 with 16"):
        _C.flash_attention_forward(q, q, q, torch.zeros(15), False, 1.0)
    with pytest.raises(ValueError, match="lse is float64"):
        _C.flash_attention_forward(q, q, q, torch.zeros(16, dtype=torch.float64), False, 1.0)


def test_version_and_isa() -> None:
    version_file = Path(__file__).parents[2] / "VERSION"
    assert fs.__version__ == version_file.read_text().strip()
    assert fs.isa() in ("scalar", "avx2", "avx512", "amx")


def test_plan_of_tensors_arrays_and_shapes_is_the_same() -> None:
    q = torch.zeros(1, 8, 128, 64, dtype=torch.bfloat16)
    k = torch.zeros(1, 2, 256, 64, dtype=torch.bfloat16)
    plan = fs.plan(q, k, k, causal=True)
    assert plan.text and str(plan) == plan.text
    assert plan.data == fs.plan((1, 8, 128, 64), (1, 2, 256, 64), (1, 2, 256, 64), causal=True, dtype="bfloat16").data
    half = fs.plan((1, 8, 128, 64), (1, 2, 256, 64), (1, 2, 256, 64))
    arrays = [np.zeros(shape, np.float16) for shape in ((1, 8, 128, 64), (1, 2, 256, 64), (1, 2, 256, 64))]
    assert half.data == fs.plan(*arrays).data != plan.data
    with pytest.raises(ValueError, match="dtype is 'int8'"):
        fs.plan((1, 1, 1, 1), (1, 1, 1, 1), (1, 1, 1, 1), dtype="int8")


def test_headers_and_library_are_together() -> None:
    include = Path(fs.get_include())
    assert (include / "flashmoe/flashmoe.h").is_file() and (include / "flashmoe/attention.hpp").is_file()
    assert (include.parent / "libflashmoe.so.0").is_file()
