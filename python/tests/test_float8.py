"""Keys and values as float8_e4m3fn, times a scale for each of their heads."""

from typing import Any

import pytest

torch = pytest.importorskip("torch")
import flashmoe_science as fs
from formulas import assert_as_exact, assert_lse, eager, random

DTYPES = [torch.float16, torch.bfloat16, torch.float32]
BATCH, HEADS, KV_HEADS, KEYS, DIM = 2, 8, 2, 300, 64


def quantised(seed: int) -> tuple[Any, Any]:
    """As servers make it: the largest of a head becomes the largest number there is."""
    x = random(BATCH, KV_HEADS, KEYS, DIM, seed=seed) * torch.tensor([1.0, 7.0])[:, None, None]
    scales = x.abs().amax((0, 2, 3)) / 448
    return (x / scales[:, None, None]).to(torch.float8_e4m3fn), scales


def exactly(x: Any, scales: Any) -> Any:
    return x.double() * scales.double()[:, None, None]


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("q_len", [1, 3, 70])
def test_dense(dtype: Any, q_len: int) -> None:
    q = random(BATCH, HEADS, q_len, DIM, dtype=dtype)
    (k, k_scales), (v, v_scales) = quantised(1), quantised(2)
    exact, exact_lse = eager(q, exactly(k, k_scales), exactly(v, v_scales), causal=True)
    theirs = eager(q, exactly(k, k_scales), exactly(v, v_scales), causal=True, dtype=dtype)[0]
    out, lse = fs.attention(q, k, v, k_scales=k_scales, v_scales=v_scales, causal=True, return_lse=True)
    assert out.dtype == dtype
    assert_as_exact(out, theirs, exact)
    assert_lse(lse, exact_lse)
    compiled = torch.compile(lambda *x: fs.attention(*x[:3], k_scales=x[3], v_scales=x[4], causal=True), fullgraph=True)
    with torch.no_grad():
        assert torch.equal(compiled(q, k, v, k_scales, v_scales), out)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("dim", [256, 248])  # 248: the last values are fewer than what is widened at a time
def test_every_value(dtype: Any, dim: int) -> None:
    one = torch.ones(1)
    v = torch.arange(256, dtype=torch.int32).to(torch.uint8).view(torch.float8_e4m3fn)[-dim:].view(1, 1, 1, dim)
    q, k = random(1, 1, 1, dim, dtype=dtype), torch.zeros(1, 1, 1, dim).to(torch.float8_e4m3fn)
    out = fs.attention(q, k, v, k_scales=one, v_scales=one)
    assert torch.equal(out.nan_to_num(1e3), v.to(dtype).nan_to_num(1e3))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("q_len", [1, 40])
def test_pages(dtype: Any, q_len: int) -> None:
    page, lengths = 16, torch.tensor([KEYS, 117], dtype=torch.int32)
    pages = -(-KEYS // page)
    table = torch.randperm(BATCH * pages, generator=torch.Generator().manual_seed(3)).int().view(BATCH, pages)
    q = random(BATCH, HEADS, q_len, DIM, dtype=dtype)
    (k, k_scales), (v, v_scales) = quantised(1), quantised(2)
    cache = torch.full((2, BATCH * pages, KV_HEADS, page, DIM), torch.nan).to(torch.float8_e4m3fn)
    for b in range(BATCH):
        for j in range(int(lengths[b])):
            for cached, x in zip(cache, (k, v), strict=True):
                cached.view(torch.uint8)[table[b, j // page], :, j % page] = x.view(torch.uint8)[b, :, j]
    scales = {"k_scales": k_scales, "v_scales": v_scales}
    out = fs.attention(q, *cache, block_table=table, kv_lengths=lengths, **scales)
    for b in range(BATCH):
        n = int(lengths[b])
        whole = (exactly(k, k_scales)[b : b + 1, :, :n], exactly(v, v_scales)[b : b + 1, :, :n])
        theirs = eager(q[b : b + 1], *whole, dtype=dtype)[0]
        assert_as_exact(out[b : b + 1], theirs, eager(q[b : b + 1], *whole)[0])


def test_every_number_is_read_as_torch_reads_it() -> None:
    """One key has all the weight, so that the result is its value."""
    codes = torch.arange(256, dtype=torch.uint8).view(torch.float8_e4m3fn)
    scales = torch.ones(1)
    for dtype in DTYPES:
        for rows in (1, 40):  # decode and prefill
            q = torch.ones(1, 1, rows, 32, dtype=dtype)
            k = torch.zeros(1, 1, 1, 32).to(torch.float8_e4m3fn)
            out = fs.attention(q, k, codes.view(1, 1, 1, 256), k_scales=scales, v_scales=scales)
            expected = codes.to(dtype).expand(1, 1, rows, 256)
            torch.testing.assert_close(out, expected, rtol=0, atol=0, equal_nan=True)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"k_scales": None}, "k_scales and v_scales go together"),
        ({"v_scales": torch.ones(3)}, r"v_scales is float32 of shape \(3,\); expected a contiguous float32 \(2,\)"),
        ({"v_scales": torch.ones(2).half()}, "v_scales is float16"),
        ({"k_scales": torch.tensor([1.0, 0.0])}, r"k_scales\[1\] is 0; allowed: above 0"),
        ({"v_scales": torch.tensor([torch.inf, 1.0])}, r"v_scales\[0\] is inf; allowed: above 0"),
    ],
)
def test_what_is_no_scale_is_refused(change: dict[str, Any], message: str) -> None:
    (k, k_scales), (v, v_scales) = quantised(1), quantised(2)
    options = {"k_scales": k_scales, "v_scales": v_scales, **change}
    with pytest.raises(ValueError, match=message):
        fs.attention(random(BATCH, HEADS, 4, DIM), k, v, **options)


def test_other_types_are_refused() -> None:
    (k, k_scales), (v, v_scales) = quantised(1), quantised(2)
    q = random(BATCH, HEADS, 4, DIM)
    scales = {"k_scales": k_scales, "v_scales": v_scales}
    for other in (torch.float32, torch.float8_e5m2, torch.int8):
        with pytest.raises(ValueError, match=r"v is .*; with k_scales and v_scales it must be float8_e4m3fn"):
            fs.attention(q, k, v.float().to(other), **scales)
    with pytest.raises(NotImplementedError, match="no gradient with keys and values of 8 bits"):
        fs.attention(q.requires_grad_(), k, v, **scales)
