"""Flash attention in Triton, forward and backward, in the manner of its tutorial 06: blocks of queries that walk over
blocks of keys with a running maximum and sum, in base 2."""

# Triton reads the annotations of its kernels: what has none is a pointer or a number.
# ruff: noqa: ANN001, ANN201

from __future__ import annotations

import torch
import triton
import triton.language as tl

LOG2_E = 1.4426950408889634


@triton.jit
def matrix(ptr, at, rows, count):
    """Zeros in place of rows that are not there."""
    return tl.load(ptr + at, mask=rows[:, None] < count, other=0.0)


@triton.jit
def forward_kernel(
    q_ptr, k_ptr, v_ptr, o_ptr, lse_ptr, queries, keys, scale_log2, group,
    D: tl.constexpr, M: tl.constexpr, N: tl.constexpr, CAUSAL: tl.constexpr,
):  # fmt: skip
    head = tl.program_id(1)
    rows = tl.program_id(0) * M + tl.arange(0, M)
    columns = tl.arange(0, D)
    q_at = (head * queries + rows)[:, None] * D + columns[None, :]
    q = matrix(q_ptr, q_at, rows, queries)
    highest = tl.full((M,), -float("inf"), tl.float32)
    total = tl.zeros((M,), tl.float32)
    out = tl.zeros((M, D), tl.float32)
    # The last query sees the last key.
    end = tl.minimum(keys, (tl.program_id(0) + 1) * M + keys - queries) if CAUSAL else keys
    for first in tl.range(0, end, N, num_stages=2):
        places = first + tl.arange(0, N)
        kv_at = (head // group * keys + places)[:, None] * D + columns[None, :]
        k = matrix(k_ptr, kv_at, places, keys)
        v = matrix(v_ptr, kv_at, places, keys)
        scores = tl.dot(q, tl.trans(k)) * scale_log2
        seen = places[None, :] < keys
        if CAUSAL:
            seen = seen & (places[None, :] <= rows[:, None] + keys - queries)
        scores = tl.where(seen, scores, -float("inf"))
        risen = tl.maximum(highest, tl.max(scores, 1))
        weights = tl.exp2(scores - risen[:, None])
        shrink = tl.exp2(highest - risen)
        total = total * shrink + tl.sum(weights, 1)
        out = tl.dot(weights.to(v.dtype), v, out * shrink[:, None])
        highest = risen
    tl.store(o_ptr + q_at, (out / total[:, None]).to(o_ptr.dtype.element_ty), mask=rows[:, None] < queries)
    tl.store(lse_ptr + head * queries + rows, highest + tl.log2(total), mask=rows < queries)


@triton.jit
def probabilities(q, k, lse, rows, places, queries, keys, scale_log2, CAUSAL: tl.constexpr):
    seen = (rows[:, None] < queries) & (places[None, :] < keys)
    if CAUSAL:
        seen = seen & (places[None, :] <= rows[:, None] + keys - queries)
    return tl.where(seen, tl.exp2(tl.dot(q, tl.trans(k)) * scale_log2 - lse[:, None]), 0.0)


@triton.jit
def keys_backward_kernel(
    q_ptr, k_ptr, v_ptr, do_ptr, lse_ptr, delta_ptr, dk_ptr, dv_ptr, queries, keys, scale, scale_log2,
    D: tl.constexpr, M: tl.constexpr, N: tl.constexpr, CAUSAL: tl.constexpr,
):  # fmt: skip
    head = tl.program_id(1)
    places = tl.program_id(0) * N + tl.arange(0, N)
    columns = tl.arange(0, D)
    kv_at = (head * keys + places)[:, None] * D + columns[None, :]
    k = matrix(k_ptr, kv_at, places, keys)
    v = matrix(v_ptr, kv_at, places, keys)
    dk = tl.zeros((N, D), tl.float32)
    dv = tl.zeros((N, D), tl.float32)
    for first in range(0, queries, M):
        rows = first + tl.arange(0, M)
        at = (head * queries + rows)[:, None] * D + columns[None, :]
        q = matrix(q_ptr, at, rows, queries)
        do = matrix(do_ptr, at, rows, queries)
        lse = tl.load(lse_ptr + head * queries + rows, mask=rows < queries, other=0.0)
        delta = tl.load(delta_ptr + head * queries + rows, mask=rows < queries, other=0.0)
        p = probabilities(q, k, lse, rows, places, queries, keys, scale_log2, CAUSAL)
        dv = tl.dot(tl.trans(p.to(do.dtype)), do, dv)
        ds = p * (tl.dot(do, tl.trans(v)) - delta[:, None])
        dk = tl.dot(tl.trans(ds.to(q.dtype)), q, dk)
    tl.store(dk_ptr + kv_at, (dk * scale).to(dk_ptr.dtype.element_ty), mask=places[:, None] < keys)
    tl.store(dv_ptr + kv_at, dv.to(dv_ptr.dtype.element_ty), mask=places[:, None] < keys)


@triton.jit
def queries_backward_kernel(
    q_ptr, k_ptr, v_ptr, o_ptr, do_ptr, lse_ptr, delta_ptr, dq_ptr, queries, keys, scale, scale_log2,
    D: tl.constexpr, M: tl.constexpr, N: tl.constexpr, CAUSAL: tl.constexpr,
):  # fmt: skip
    head = tl.program_id(1)
    rows = tl.program_id(0) * M + tl.arange(0, M)
    columns = tl.arange(0, D)
    at = (head * queries + rows)[:, None] * D + columns[None, :]
    q = matrix(q_ptr, at, rows, queries)
    o = matrix(o_ptr, at, rows, queries)
    do = matrix(do_ptr, at, rows, queries)
    lse = tl.load(lse_ptr + head * queries + rows, mask=rows < queries, other=0.0)
    delta = tl.sum(o.to(tl.float32) * do.to(tl.float32), 1)
    tl.store(delta_ptr + head * queries + rows, delta, mask=rows < queries)
    dq = tl.zeros((M, D), tl.float32)
    for first in range(0, keys, N):
        places = first + tl.arange(0, N)
        kv_at = (head * keys + places)[:, None] * D + columns[None, :]
        k = matrix(k_ptr, kv_at, places, keys)
        v = matrix(v_ptr, kv_at, places, keys)
        p = probabilities(q, k, lse, rows, places, queries, keys, scale_log2, CAUSAL)
        ds = p * (tl.dot(do, tl.trans(v)) - delta[:, None])
        dq = tl.dot(ds.to(k.dtype), k, dq)
    tl.store(dq_ptr + at, (dq * scale).to(dq_ptr.dtype.element_ty), mask=rows[:, None] < queries)


def forward(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, causal: bool) -> tuple[torch.Tensor, torch.Tensor]:
    """O and the log-sum-exps in base 2; q is (H, Sq, D), k and v (Hkv, Skv, D), all dense and on the device."""
    heads, queries, dim = q.shape
    o, lse = torch.empty_like(q), torch.empty(heads, queries, device=q.device)
    shape = (queries, k.shape[1], LOG2_E / dim**0.5, heads // k.shape[0])
    grid = (triton.cdiv(queries, 64), heads)
    forward_kernel[grid](q, k, v, o, lse, *shape, D=dim, M=64, N=32, CAUSAL=causal, num_warps=4)
    return o, lse


def backward(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    o: torch.Tensor,
    lse: torch.Tensor,
    do: torch.Tensor,
    causal: bool,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """As many heads of keys as of queries."""
    heads, queries, dim = q.shape
    dq, dk, dv = (torch.empty_like(x) for x in (q, k, v))
    delta = torch.empty_like(lse)
    shape = (queries, k.shape[1], dim**-0.5, LOG2_E / dim**0.5)
    tile = {"D": dim, "M": 32, "N": 32, "CAUSAL": causal, "num_warps": 4}
    # The first one leaves delta for the second.
    queries_backward_kernel[(triton.cdiv(queries, 32), heads)](q, k, v, o, do, lse, delta, dq, *shape, **tile)
    keys_backward_kernel[(triton.cdiv(k.shape[1], 32), heads)](q, k, v, do, lse, delta, dk, dv, *shape, **tile)
    return dq, dk, dv
