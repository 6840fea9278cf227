"""Padded batches: first keys, lengths, rows aligned to the first key; partial results; index arrays of int64."""

from typing import Any

import pytest

torch = pytest.importorskip("torch")
import flashmoe_science as fs
from formulas import assert_as_exact, assert_lse, eager, random

DTYPES = [torch.float16, torch.bfloat16, torch.float32]
STARTS, ENDS = [0, 9, 40, 77], [130, 130, 55, 77]


def masked(q_len: int, kv_len: int, starts: list[int], ends: list[int], seen: Any) -> Any:
    """A bias of 0 and -inf that is the same mask."""
    keys = torch.arange(kv_len)
    kept = torch.stack([(keys >= start) & (keys < end) for start, end in zip(starts, ends, strict=True)])
    return torch.zeros(len(starts), 1, q_len, kv_len).masked_fill(~(kept[:, None, None] & seen), -torch.inf)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("q_len", [1, 37, 130])
@pytest.mark.parametrize("top_left", [False, True])
@pytest.mark.parametrize("window", [(-1, -1), (-1, 0), (20, 0), (11, 5)])
def test_padded_keys_are_not_there(dtype: Any, q_len: int, top_left: bool, window: tuple[int, int]) -> None:
    kv_len, heads, dim = 130, 4, 64
    q = random(4, heads, q_len, dim, dtype=dtype)
    k, v = (random(4, 2, kv_len, dim, dtype=dtype, seed=i) for i in (1, 2))
    ends = ENDS if top_left or window == (-1, -1) else [kv_len] * 4
    aligned = torch.arange(q_len)[:, None] + (0 if top_left else kv_len - q_len)
    keys = torch.arange(kv_len)
    seen = torch.ones(q_len, kv_len, dtype=torch.bool)
    seen &= (keys >= aligned - window[0]) if window[0] >= 0 else True
    seen &= (keys <= aligned + window[1]) if window[1] >= 0 else True
    bias = masked(q_len, kv_len, STARTS, ends, seen)
    exact, exact_lse = eager(q, k, v, bias=bias)
    theirs = eager(q, k, v, bias=bias, dtype=dtype)[0]
    for b in range(4):  # what does not exist may hold anything
        for tensor in (k, v):
            tensor[b, :, : STARTS[b]] = tensor[b, :, ends[b] :] = torch.nan
    out, lse = fs.attention(
        q,
        k,
        v,
        kv_starts=torch.tensor(STARTS),  # int64
        kv_lengths=torch.tensor(ends, dtype=torch.int32),
        top_left=top_left,
        window=window,
        return_lse=True,
    )
    assert_as_exact(out, theirs, exact)
    assert_lse(lse, exact_lse)


def test_missing_rows_are_zero() -> None:
    q, k, v = (random(3, 2, 50, 64, seed=i) for i in range(3))
    lengths = torch.tensor([50, 0, 21])
    out, lse = fs.attention(q, k, v, q_lengths=lengths, kv_lengths=lengths, causal=True, return_lse=True)
    for b, length in enumerate(lengths.tolist()):
        one = (x[b : b + 1, :, :length] for x in (q, k, v))
        exact, exact_lse = eager(*one, causal=True)
        torch.testing.assert_close(out[b : b + 1, :, :length].double(), exact, rtol=0, atol=1e-5)
        assert_lse(lse[b : b + 1, :, :length], exact_lse)
        assert (out[b, :, length:] == 0).all() and (lse[b, :, length:] == -torch.inf).all()


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("q_len", [1, 70])
def test_partial_results_lose_nothing_when_merged(dtype: Any, q_len: int) -> None:
    q = random(2, 4, q_len, 64, dtype=dtype)
    k, v = (random(2, 2, 256, 64, dtype=dtype, seed=i) for i in (1, 2))
    exact, exact_lse = eager(q, k, v)
    out, lse = fs.attention(q, k[:, :, :32], v[:, :, :32], partial=True, return_lse=True)
    assert out.dtype == torch.float32
    for begin in range(32, 256, 32):
        part = fs.attention(q, k[:, :, begin : begin + 32], v[:, :, begin : begin + 32], partial=True, return_lse=True)
        out, lse = fs.merge_states(out, lse, *part)
    assert_as_exact(out.to(dtype), fs.attention(q, k, v), exact)
    assert_lse(lse, exact_lse)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_sinks_of_half_precision(dtype: Any) -> None:
    q, k, v = (random(2, 4, 20, 64, dtype=dtype, seed=i) for i in range(3))
    sinks = random(4, dtype=dtype)
    assert torch.equal(fs.attention(q, k, v, sinks=sinks), fs.attention(q, k, v, sinks=sinks.float()))


def test_int64_offsets() -> None:
    q, k, v = (random(30, 2, 64, seed=i) for i in range(3))
    offsets = torch.tensor([0, 11, 30])
    given = fs.attention(q, k, v, cu_q=offsets, cu_kv=offsets, layout="bshd")
    assert torch.equal(given, fs.attention(q, k, v, cu_q=offsets.int(), cu_kv=offsets.int(), layout="bshd"))
    with pytest.raises(ValueError, match=r"cu_kv\[1\] is 8589934592; allowed: what fits 32 bits"):
        fs.attention(q, k, v, cu_q=offsets, cu_kv=torch.tensor([0, 2**33, 30]), layout="bshd")


def test_no_gradient_of_padding() -> None:
    q = random(1, 2, 8, 64).requires_grad_()
    with pytest.raises(NotImplementedError, match="no gradient with kv_starts"):
        fs.attention(q, q, q, kv_starts=torch.tensor([3]))


def test_compiles() -> None:
    q, k, v = (random(2, 2, 40, 64, dtype=torch.bfloat16, seed=i) for i in range(3))
    options: dict[str, Any] = {"kv_starts": torch.tensor([0, 5]), "causal": True, "top_left": True, "partial": True}
    compiled = torch.compile(lambda *x: fs.attention(*x, **options), fullgraph=True)
    assert torch.equal(compiled(q, k, v), fs.attention(q, k, v, **options))
