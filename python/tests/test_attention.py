"""Right results for torch tensors, against the formula in float64 and relative to PyTorch's own error."""

from typing import Any

import pytest

torch = pytest.importorskip("torch")
import flashmoe_science as fs
from formulas import assert_as_exact, assert_lse, eager, random

DTYPES = [torch.float16, torch.bfloat16, torch.float32]


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("shape", [(1, 1, 1, 64), (2, 3, 37, 64), (1, 4, 130, 40), (1, 2, 300, 128), (1, 1, 65, 256)])
def test_matches_sdpa(dtype: Any, causal: bool, shape: tuple[int, ...]) -> None:
    q, k, v = (random(*shape, dtype=dtype, seed=i) for i in range(3))
    out, lse = fs.attention(q, k, v, causal=causal, return_lse=True)
    exact, exact_lse = eager(q, k, v, causal=causal)
    theirs = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=causal)
    assert_as_exact(out, theirs, exact)
    assert_lse(lse, exact_lse)
    assert out.dtype == dtype and out.is_contiguous()
    torch.testing.assert_close(fs.attention(q, k, v, causal=causal), out, rtol=0, atol=0)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("kv_heads", [1, 2, 8])
@pytest.mark.parametrize("lengths", [(1, 200), (50, 70), (70, 50)])
def test_grouped_queries_and_other_lengths(dtype: Any, kv_heads: int, lengths: tuple[int, int]) -> None:
    q = random(2, 8, lengths[0], 64, dtype=dtype)
    k, v = (random(2, kv_heads, lengths[1], 64, dtype=dtype, seed=i) for i in (1, 2))
    out, lse = fs.attention(q, k, v, causal=True, return_lse=True)
    exact, exact_lse = eager(q, k, v, causal=True)
    assert_as_exact(out, eager(q, k, v, causal=True, dtype=dtype)[0], exact)
    assert_lse(lse, exact_lse)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("dims", [(192, 128), (64, 7), (40, 256), (576, 512)])
@pytest.mark.parametrize("lengths", [(1, 300), (50, 70)])
def test_values_of_another_size(dtype: Any, dims: tuple[int, int], lengths: tuple[int, int]) -> None:
    q = random(2, 4, lengths[0], dims[0], dtype=dtype)
    k, v = (random(2, 2, lengths[1], dim, dtype=dtype, seed=i) for i, dim in enumerate(dims, 1))
    out, lse = fs.attention(q, k, v, causal=True, return_lse=True)
    exact, exact_lse = eager(q, k, v, causal=True)
    assert_as_exact(out, eager(q, k, v, causal=True, dtype=dtype)[0], exact)
    assert_lse(lse, exact_lse)
    assert out.shape == (2, 4, lengths[0], dims[1])
    wider = torch.zeros(2, 4, lengths[0], dims[1] + 3, dtype=dtype)
    fs.attention(q, k, v, causal=True, out=wider[..., : dims[1]])
    assert torch.equal(wider[..., : dims[1]], out) and (wider[..., dims[1] :] == 0).all()


FEATURES: dict[str, dict[str, Any]] = {
    "scale": {"scale": 0.3},
    "window": {"window": (5, 3)},
    "causal window": {"window": (9, -1), "causal": True},
    "softcap": {"softcap": 1.5},
    "sinks": {"sinks": random(4)},
    "bias": {"bias": random(2, 4, 33, 45)},
    "bias over heads": {"bias": random(1, 4, 1, 45)},
    "bias of two dimensions": {"bias": random(33, 45)},
    "bias in bfloat16": {"bias": random(2, 1, 33, 45, dtype=torch.bfloat16)},
    "two biases": {"bias": random(1, 4, 33, 45), "bias2": random(2, 1, 1, 45, seed=3)},
    "a second bias alone": {"bias2": random(2, 4, 33, 45)},
    "a bias of five dimensions": {"bias": random(1, 2, 4, 33, 45)},
    "a bias for the whole batch": {"bias": random(1, 1, 4, 33, 45), "bias2": random(1, 2, 1, 1, 45, seed=3)},
    "all": {"window": (20, 2), "softcap": 2.0, "sinks": random(4), "bias": random(4, 33, 45), "scale": 0.2},
}


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("feature", FEATURES)
def test_features(dtype: Any, feature: str) -> None:
    options = FEATURES[feature]
    q = random(2, 4, 33, 64, dtype=dtype)
    k, v = (random(2, 2, 45, 64, dtype=dtype, seed=i) for i in (1, 2))
    out, lse = fs.attention(q, k, v, return_lse=True, **options)
    exact, exact_lse = eager(q, k, v, **options)
    assert_as_exact(out, eager(q, k, v, dtype=dtype, **options)[0], exact)
    assert_lse(lse, exact_lse)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_pair_attention(dtype: Any) -> None:
    """Six sequences, two and two of which share a bias, each with keys of its own that are masked."""
    q = random(6, 4, 33, 32, dtype=dtype)
    k, v = (random(6, 4, 45, 32, dtype=dtype, seed=i) for i in (1, 2))
    bias = random(3, 1, 4, 33, 45, dtype=dtype, seed=3)
    mask = torch.where(random(3, 2, 1, 1, 45, seed=4) > 1.0, torch.finfo(torch.float32).min, 0.0)
    out, lse = fs.attention(q, k, v, bias=bias, bias2=mask, return_lse=True)
    exact, exact_lse = eager(q, k, v, bias=bias, bias2=mask)
    one_term = bias.expand(3, 2, 4, 33, 45).flatten(0, 1).float() + mask.flatten(0, 1)
    assert_as_exact(out, eager(q, k, v, dtype=dtype, bias=one_term)[0], exact)
    assert_lse(lse, exact_lse)


def test_two_masks_of_the_lowest_number_leave_the_mean() -> None:
    q, k, v = (random(1, 2, 5, 16, seed=i) for i in range(3))
    lowest = torch.full((5, 5), torch.finfo(torch.float32).min)
    out = fs.attention(q, k, v, bias=lowest, bias2=lowest)
    torch.testing.assert_close(out, v.mean(2, keepdim=True).expand_as(out))


def test_a_row_without_keys_is_zero() -> None:
    q, k = random(1, 1, 5, 64), random(1, 1, 3, 64)
    out, lse = fs.attention(q, k, k, causal=True, return_lse=True)
    assert (out[0, 0, :2] == 0).all() and (lse[0, 0, :2] == -torch.inf).all()
    assert torch.isfinite(lse[0, 0, 2:]).all()


@pytest.mark.parametrize("shape", [(0, 2, 5, 64), (1, 2, 0, 64)])
def test_nothing_to_do(shape: tuple[int, ...]) -> None:
    q, k = torch.zeros(shape), torch.zeros(shape[0], 2, 4, 64)
    assert fs.attention(q, k, k).shape == shape


def test_no_keys() -> None:
    out, lse = fs.attention(torch.ones(1, 2, 3, 64), torch.ones(1, 2, 0, 64), torch.ones(1, 2, 0, 64), return_lse=True)
    assert (out == 0).all() and (lse == -torch.inf).all()


def test_layouts_and_strides_give_the_same_bits() -> None:
    q, k, v = (random(2, 4, 40, 64, dtype=torch.float16, seed=i) for i in range(3))
    expected, expected_lse = fs.attention(q, k, v, causal=True, return_lse=True)
    bshd = [t.transpose(1, 2).contiguous() for t in (q, k, v)]
    out, lse = fs.attention(*bshd, causal=True, layout="bshd", return_lse=True)
    assert out.is_contiguous() and out.shape == (2, 40, 4, 64)
    assert torch.equal(out.transpose(1, 2), expected) and torch.equal(lse, expected_lse)
    # A transposed view in the other layout, and one that is interleaved as out of a fused projection.
    assert torch.equal(fs.attention(*(t.transpose(1, 2) for t in bshd), causal=True), expected)
    fused = torch.stack([q, k, v], 3)  # (2, 4, 40, 3, 64)
    assert torch.equal(fs.attention(*fused.unbind(3), causal=True), expected)


def test_expanded_keys_are_not_copied_and_right() -> None:
    q, k = random(3, 4, 20, 64), random(1, 4, 20, 64)
    shared = k.expand(3, 4, 20, 64)
    assert torch.equal(fs.attention(q, shared, shared), fs.attention(q, shared.contiguous(), shared.contiguous()))


def test_out_is_written_in_place() -> None:
    q, k, v = (random(1, 2, 30, 64, seed=i) for i in range(3))
    buffer = torch.full((1, 30, 2, 64), 7.0)
    out = buffer.transpose(1, 2)
    assert fs.attention(q, k, v, out=out) is out
    assert torch.equal(out, fs.attention(q, k, v))


@pytest.mark.parametrize("splits", [1, 2, 5])
def test_splits_agree(splits: int) -> None:
    q, k, v = random(1, 8, 1, 64), random(1, 8, 700, 64, seed=1), random(1, 8, 700, 64, seed=2)
    out = fs.attention(q, k, v, num_splits=splits)
    torch.testing.assert_close(out.double(), eager(q, k, v)[0], rtol=0, atol=1e-5)


def cumulative(lengths: list[int]) -> Any:
    return torch.tensor([0, *lengths]).cumsum(0).int()


@pytest.mark.parametrize("layout", ["bhsd", "bshd"])
@pytest.mark.parametrize("given", [False, True])
def test_ragged(layout: str, given: bool) -> None:
    q_lengths, kv_lengths = [5, 0, 33, 1], [7, 4, 33, 60]
    q = random(sum(q_lengths), 4, 64)
    k, v = (random(sum(kv_lengths), 2, 64, seed=i) for i in (1, 2))
    cu_q, cu_kv = cumulative(q_lengths), cumulative(kv_lengths)
    arrays = [t if layout == "bshd" else t.transpose(0, 1).contiguous() for t in (q, k, v)]
    longest = {"max_q": 33, "max_kv": 60} if given else {}
    out, lse = fs.attention(*arrays, cu_q=cu_q, cu_kv=cu_kv, causal=True, layout=layout, return_lse=True, **longest)
    assert lse.shape == (4, sum(q_lengths))
    out = out if layout == "bshd" else out.transpose(0, 1)
    for b in range(4):
        rows, keys = slice(cu_q[b], cu_q[b + 1]), slice(cu_kv[b], cu_kv[b + 1])
        exact, exact_lse = eager(*(t.transpose(0, 1)[None] for t in (q[rows], k[keys], v[keys])), causal=True)
        torch.testing.assert_close(out[rows].double(), exact[0].transpose(0, 1), rtol=0, atol=1e-5)
        assert_lse(lse[:, rows], exact_lse[0])


def test_key_lengths_hide_what_is_behind_them() -> None:
    q, k, v = (random(3, 2, 20, 64, seed=i) for i in range(3))
    lengths = torch.tensor([20, 7, 0], dtype=torch.int32)
    k[1, :, 7:] = v[1, :, 7:] = torch.nan
    out, lse = fs.attention(q, k, v, kv_lengths=lengths, return_lse=True)
    for b, length in enumerate(lengths.tolist()):
        exact, exact_lse = eager(q[b : b + 1], k[b : b + 1, :, :length], v[b : b + 1, :, :length])
        torch.testing.assert_close(out[b : b + 1].double(), exact, rtol=0, atol=1e-5)
        assert_lse(lse[b : b + 1], exact_lse)


@pytest.mark.parametrize("layout", ["bhsd", "bshd"])
def test_pages_are_like_contiguous_keys(layout: str) -> None:
    page_size, lengths = 16, [40, 9, 64]
    dense_k, dense_v = (random(3, 2, 64, 64, seed=i) for i in (1, 2))
    q = random(3, 8, 1, 64)
    table = torch.randperm(12, generator=torch.Generator().manual_seed(3)).reshape(3, 4).int()
    pages_k, pages_v = torch.full((12, 2, page_size, 64), torch.nan), torch.full((12, 2, page_size, 64), torch.nan)
    for b in range(3):
        for page in range(4):
            rows = slice(page * page_size, (page + 1) * page_size)
            pages_k[table[b, page]], pages_v[table[b, page]] = dense_k[b, :, rows], dense_v[b, :, rows]
    kv_lengths = torch.tensor(lengths, dtype=torch.int32)
    expected = fs.attention(q, dense_k, dense_v, kv_lengths=kv_lengths)
    if layout == "bshd":
        q, pages_k, pages_v = (t.transpose(1, 2).contiguous() for t in (q, pages_k, pages_v))
    out = fs.attention(q, pages_k, pages_v, kv_lengths=kv_lengths, block_table=table, layout=layout)
    out = out if layout == "bhsd" else out.transpose(1, 2)
    torch.testing.assert_close(out, expected, rtol=0, atol=1e-6)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("layout", ["bhsd", "bshd"])
def test_merged_halves_are_the_whole(dtype: Any, layout: str) -> None:
    q, k, v = (random(2, 3, 50, 64, dtype=dtype, seed=i) for i in range(3))
    exact, exact_lse = eager(q, k, v)
    arrays = [t if layout == "bhsd" else t.transpose(1, 2).contiguous() for t in (q, k, v)]
    axis = 2 if layout == "bhsd" else 1
    parts = []
    for keys in (slice(0, 13), slice(13, 50)):
        index = [slice(None)] * 4
        index[axis] = keys
        parts += fs.attention(arrays[0], *(t[tuple(index)] for t in arrays[1:]), layout=layout, return_lse=True)
    out, lse = fs.merge_states(*parts, layout=layout)
    out = out if layout == "bhsd" else out.transpose(1, 2)
    theirs = torch.nn.functional.scaled_dot_product_attention(q, k, v)
    # The halves were rounded once each before they were merged.
    assert_as_exact(out, theirs + (theirs - exact).to(dtype), exact)
    assert_lse(lse, exact_lse)


def test_flash_attn_func() -> None:
    q, k, v = (random(2, 30, 4, 64, dtype=torch.bfloat16, seed=i) for i in range(3))
    expected, expected_lse = fs.attention(q, k, v, causal=True, scale=0.1, layout="bshd", return_lse=True)
    assert torch.equal(fs.flash_attn_func(q, k, v, 0.0, 0.1, True), expected)
    out, lse, probabilities = fs.flash_attn_func(q, k, v, softmax_scale=0.1, causal=True, return_attn_probs=True)
    assert torch.equal(out, expected) and torch.equal(lse, expected_lse) and probabilities is None


def test_flash_attn_varlen_func() -> None:
    q, k, v = (random(30, 4, 64, seed=i) for i in range(3))
    cu = cumulative([10, 20])
    expected = fs.attention(q, k, v, cu_q=cu, cu_kv=cu, causal=True, layout="bshd")
    assert torch.equal(fs.flash_attn_varlen_func(q, k, v, cu, cu, 20, 20, causal=True), expected)
    pages_k, pages_v = (t[:30].reshape(3, 10, 4, 64) for t in (k, v))
    table = torch.tensor([[0, 0], [1, 2]], dtype=torch.int32)
    paged = fs.flash_attn_varlen_func(q, pages_k, pages_v, cu, cu, causal=True, block_table=table)
    torch.testing.assert_close(paged, expected, rtol=0, atol=1e-6)
