"""Attention out of torch operators: the backward pass of the library's forward, and a float64 forward.

The backward is the usual one of flash attention. With P = exp(S - lse) and D = rowsum(dO * O) - dlse,

    dV = P^T dO,   dS = P * (dO V^T - D),   dQ = scale * dS K,   dK = scale * dS^T Q,   dbias = dS,

(dS times 1 - tanh^2 before dQ and dK under a softcap) and dsink = -sum(exp(sink - lse) * D). P is recomputed from the
log-sum-exp one block of keys at a time, so that memory is O(seq * block) and never O(seq^2). Accumulation is in float32
(float64 for float64 inputs). Inputs are assumed finite: a NaN in a key that only some rows see reaches all rows.

The float64 forward exists for torch.autograd.gradcheck: the library has no float64 kernels. It forms the scores.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from . import _C, _fake

KEYS_PER_BLOCK = 256


@dataclass(frozen=True)
class Options:
    """What the operator takes besides tensors."""

    scale: float | None
    window_left: int
    window_right: int
    softcap: float
    layout: str

    def scale_for(self, q: Tensor) -> float:
        return q.shape[-1] ** -0.5 if self.scale is None else self.scale


@dataclass(frozen=True)
class Lengths:
    """Where the sequences are. All None: every batch entry is full."""

    cu_q: Tensor | None
    cu_kv: Tensor | None
    kv_lengths: Tensor | None

    @property
    def is_dense(self) -> bool:
        return self.cu_q is None and self.cu_kv is None and self.kv_lengths is None


@dataclass(frozen=True)
class Segment:
    """Batch entries of one length: which of them, and which rows of q and of k."""

    batch: slice
    q_rows: slice
    kv_rows: slice


def segments(q: Tensor, k: Tensor, lengths: Lengths) -> Iterator[Segment]:
    """q, k: (batch or 1 if packed, heads, rows, dim)."""
    if lengths.is_dense:
        yield Segment(slice(None), slice(None), slice(None))
        return
    batch = q.shape[0] if lengths.cu_q is None else lengths.cu_q.numel() - 1
    cu_q = None if lengths.cu_q is None else lengths.cu_q.tolist()
    cu_kv = None if lengths.cu_kv is None else lengths.cu_kv.tolist()
    kv_lengths = None if lengths.kv_lengths is None else lengths.kv_lengths.tolist()
    for b in range(batch):
        kv_begin, kv_end = (0, k.shape[2]) if cu_kv is None else (cu_kv[b], cu_kv[b + 1])
        if kv_lengths is not None:
            kv_end = kv_begin + kv_lengths[b]
        q_rows = slice(None) if cu_q is None else slice(cu_q[b], cu_q[b + 1])
        yield Segment(slice(b, b + 1), q_rows, slice(kv_begin, kv_end))


def to_bhsd(tensor: Tensor, layout: str) -> Tensor:
    """A (batch, heads, rows, dim) view; packed tensors get a batch of 1."""
    if tensor.dim() == 3:
        tensor = tensor.unsqueeze(0)
    return tensor if layout == "bhsd" else tensor.transpose(1, 2)


def take(tensor: Tensor, segment: Segment, rows: slice) -> Tensor:
    """The segment's part of a (batch, heads, rows, ...) tensor; a packed one has a batch of 1."""
    batch = segment.batch if tensor.shape[0] != 1 else slice(None)
    return tensor[batch, :, rows]


def take_bias(bias: Tensor, segment: Segment, q_len: int, kv_len: int) -> Tensor:
    """The segment's corner of a bias of four dimensions, broadcast dimensions kept."""
    batch = segment.batch if bias.shape[0] != 1 else slice(None)
    rows = slice(0, q_len) if bias.shape[2] != 1 else slice(None)
    keys = slice(0, kv_len) if bias.shape[3] != 1 else slice(None)
    return bias[batch, :, rows, keys]


def four_dims(bias: Tensor) -> Tensor:
    return bias[(None,) * (4 - bias.dim())]


def accumulation_dtype(q: Tensor) -> torch.dtype:
    return torch.float64 if q.dtype == torch.float64 else torch.float32


def sum_to(gradient: Tensor, shape: torch.Size) -> Tensor:
    """Sum over the dimensions along which a tensor of this shape was broadcast."""
    broadcast = [axis for axis, size in enumerate(shape) if size == 1 and gradient.shape[axis] != 1]
    return gradient.sum(broadcast, keepdim=True) if broadcast else gradient


def visible_keys(rows: range, keys: range, q_len: int, kv_len: int, options: Options, like: Tensor) -> Tensor | None:
    """(rows, keys) of bool, None when all are visible."""
    if options.window_left < 0 and options.window_right < 0:
        return None
    # The last query row is aligned to the last key.
    i = torch.arange(rows.start, rows.stop, device=like.device)[:, None] + (kv_len - q_len)
    j = torch.arange(keys.start, keys.stop, device=like.device)[None, :]
    visible = torch.ones(len(rows), len(keys), dtype=torch.bool, device=like.device)
    if options.window_left >= 0:
        visible &= j >= i - options.window_left
    if options.window_right >= 0:
        visible &= j <= i + options.window_right
    return visible


def rows_that_see(keys: range, q_len: int, kv_len: int, options: Options) -> range:
    """The query rows from the first to the last that see any of these keys."""
    shift = kv_len - q_len
    begin = 0 if options.window_right < 0 else keys.start - options.window_right - shift
    end = q_len if options.window_left < 0 else keys.stop + options.window_left - shift
    begin = min(max(begin, 0), q_len)
    return range(begin, min(max(end, begin), q_len))


def scores_of(
    q: Tensor, k: Tensor, bias: Tensor | None, visible: Tensor | None, scale: float, softcap: float
) -> tuple[Tensor, Tensor | None]:
    """Scores (batch, kv heads, group, rows, keys), -inf where invisible, and tanh under a softcap.

    q: (batch, kv heads, group, rows, dim); k: (batch, kv heads, keys, dim); bias: broadcastable to the scores.
    """
    batch, kv_heads, group, rows, dim = q.shape
    scores = (q.reshape(batch, kv_heads, group * rows, dim) @ k.transpose(-1, -2)).unflatten(2, (group, rows)) * scale
    tanh = None
    if softcap > 0.0:
        tanh = torch.tanh(scores / softcap)
        scores = softcap * tanh
    if bias is not None:
        scores = scores + bias
    if visible is not None:
        scores = scores.masked_fill(~visible, -torch.inf)
    return scores, tanh


def grouped(tensor: Tensor, kv_heads: int) -> Tensor:
    """(batch, heads, ...) -> (batch, kv heads, group, ...); a broadcast head dimension becomes two."""
    if tensor.shape[1] == 1:
        return tensor.unsqueeze(2)
    groups: Tensor = tensor.unflatten(1, (kv_heads, tensor.shape[1] // kv_heads))
    return groups


def forward(
    q: Tensor, k: Tensor, v: Tensor, bias: Tensor | None, sinks: Tensor | None, lengths: Lengths, options: Options
) -> tuple[Tensor, Tensor]:
    """(out, lse) in the accumulation dtype, by the formula. Forms the scores of one sequence at a time."""
    dtype = accumulation_dtype(q)
    out = torch.zeros((*q.shape[:-1], v.shape[-1]), dtype=dtype, device=q.device)
    q, k, v, out_bhsd = (to_bhsd(t, options.layout) for t in (q, k, v, out))
    lse = torch.full(q.shape[:3], -torch.inf, dtype=dtype, device=q.device)
    kv_heads = k.shape[1]
    for segment in segments(q, k, lengths):
        qs = take(q, segment, segment.q_rows).to(dtype)
        ks = take(k, segment, segment.kv_rows).to(dtype)
        vs = take(v, segment, segment.kv_rows).to(dtype)
        q_len, kv_len = qs.shape[2], ks.shape[2]
        part = None if bias is None else grouped(take_bias(four_dims(bias), segment, q_len, kv_len), kv_heads).to(dtype)
        visible = visible_keys(range(q_len), range(kv_len), q_len, kv_len, options, q)
        scores, _ = scores_of(grouped(qs, kv_heads), ks, part, visible, options.scale_for(q), options.softcap)
        if sinks is not None:
            column = grouped(sinks.to(dtype)[None, :, None, None], kv_heads).expand(*scores.shape[:-1], 1)
            scores = torch.cat([scores, column], dim=-1)
        row_lse = torch.logsumexp(scores, dim=-1)  # (batch, kv heads, group, rows)
        finite = torch.where(row_lse == -torch.inf, torch.inf, row_lse)  # a row without weight: exp(-inf - inf) = 0
        weights = torch.exp(scores - finite[..., None])[..., :kv_len]
        result = (weights.flatten(2, 3) @ vs).unflatten(2, weights.shape[2:4])
        take(out_bhsd, segment, segment.q_rows).copy_(result.flatten(1, 2))
        take(lse, segment, segment.q_rows).copy_(row_lse.flatten(1, 2))
    return out, lse if lengths.cu_q is None else lse.squeeze(0)


def backward(
    grad_out: Tensor,
    grad_lse: Tensor | None,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    bias: Tensor | None,
    sinks: Tensor | None,
    out: Tensor,
    lse: Tensor,
    lengths: Lengths,
    options: Options,
) -> tuple[Tensor, Tensor, Tensor, Tensor | None, Tensor | None]:
    """Gradients of q, k, v (in their own shapes and dtypes), bias and sinks."""
    dtype = accumulation_dtype(q)
    gradients = [torch.zeros(t.shape, dtype=dtype, device=t.device) for t in (q, k, v)]
    dq, dk, dv = (to_bhsd(t, options.layout) for t in gradients)
    dbias = None if bias is None else torch.zeros(four_dims(bias).shape, dtype=dtype, device=bias.device)
    dsinks = None if sinks is None else torch.zeros(sinks.shape, dtype=dtype, device=sinks.device)
    q_bhsd, k_bhsd, v_bhsd, out_bhsd, do_bhsd = (to_bhsd(t, options.layout) for t in (q, k, v, out, grad_out))
    lse_bhs = lse if lse.dim() == 3 else lse[None]
    dlse_bhs = None if grad_lse is None else (grad_lse if grad_lse.dim() == 3 else grad_lse[None])
    scale = options.scale_for(q)
    kv_heads = k_bhsd.shape[1]

    for segment in segments(q_bhsd, k_bhsd, lengths):
        qs, os, dos = (take(t, segment, segment.q_rows).to(dtype) for t in (q_bhsd, out_bhsd, do_bhsd))
        ks, vs = (take(t, segment, segment.kv_rows).to(dtype) for t in (k_bhsd, v_bhsd))
        lses = take(lse_bhs, segment, segment.q_rows).to(dtype)
        q_len, kv_len = qs.shape[2], ks.shape[2]
        row_dot = (dos * os).sum(-1)
        if dlse_bhs is not None:
            row_dot = row_dot - take(dlse_bhs, segment, segment.q_rows).to(dtype)
        safe_lse = torch.where(lses == -torch.inf, torch.inf, lses)
        if sinks is not None and dsinks is not None:
            weight = torch.exp(sinks.to(dtype)[None, :, None] - safe_lse)
            dsinks -= (weight * row_dot).sum((0, 2))
        q_g, do_g, lse_g, dot_g = (grouped(t, kv_heads) for t in (qs, dos, safe_lse, row_dot))
        part = _SegmentGradients(
            q=q_g,
            k=ks,
            v=vs,
            bias=None if bias is None else take_bias(four_dims(bias), segment, q_len, kv_len),
            grad_out=do_g,
            lse=lse_g,
            row_dot=dot_g,
            dq=torch.zeros_like(q_g),
            dk=take(dk, segment, segment.kv_rows),
            dv=take(dv, segment, segment.kv_rows),
            dbias=None if dbias is None else take_bias(dbias, segment, q_len, kv_len),
        )
        for begin in range(0, kv_len, KEYS_PER_BLOCK):
            part.add_block(range(begin, min(begin + KEYS_PER_BLOCK, kv_len)), scale, options)
        take(dq, segment, segment.q_rows).copy_(part.dq.flatten(1, 2))
    dq_out, dk_out, dv_out = (g.to(t.dtype) for g, t in zip(gradients, (q, k, v), strict=True))
    return (
        dq_out,
        dk_out,
        dv_out,
        None if dbias is None or bias is None else dbias.to(bias.dtype).reshape(bias.shape),
        None if dsinks is None or sinks is None else dsinks.to(sinks.dtype),
    )


def _slice_if_wide(tensor: Tensor, axis: int, part: range) -> Tensor:
    return tensor if tensor.shape[axis] == 1 else tensor.narrow(axis, part.start, len(part))


@dataclass(frozen=True)
class _SegmentGradients:
    """One segment's tensors in the accumulation dtype, and the gradients that its blocks add to."""

    q: Tensor  # (batch, kv heads, group, q_len, dim)
    k: Tensor  # (batch, kv heads, kv_len, dim)
    v: Tensor
    bias: Tensor | None  # broadcastable to (batch, heads, q_len, kv_len)
    grad_out: Tensor  # like q
    lse: Tensor  # (batch, kv heads, group, q_len), +inf for a row without weight
    row_dot: Tensor  # like lse
    dq: Tensor
    dk: Tensor
    dv: Tensor
    dbias: Tensor | None

    def add_block(self, keys: range, scale: float, options: Options) -> None:
        q_len, kv_len, kv_heads = self.q.shape[3], self.k.shape[2], self.k.shape[1]
        rows = rows_that_see(keys, q_len, kv_len, options)
        if len(rows) == 0:
            return
        seen, block = slice(rows.start, rows.stop), slice(keys.start, keys.stop)
        q, k, v, grad_out = self.q[..., seen, :], self.k[:, :, block], self.v[:, :, block], self.grad_out[..., seen, :]
        bias = None if self.bias is None else _slice_if_wide(_slice_if_wide(self.bias, 2, rows), 3, keys)
        grouped_bias = None if bias is None else grouped(bias, kv_heads).to(q.dtype)
        visible = visible_keys(rows, keys, q_len, kv_len, options, q)
        scores, tanh = scores_of(q, k, grouped_bias, visible, scale, options.softcap)
        p = torch.exp(scores - self.lse[..., seen, None])
        p_rows, do_rows = p.flatten(2, 3), grad_out.flatten(2, 3)
        self.dv[:, :, block] += p_rows.transpose(-1, -2) @ do_rows
        dp = (do_rows @ v.transpose(-1, -2)).unflatten(2, p.shape[2:4])
        ds = p * (dp - self.row_dot[..., seen, None])
        if bias is not None and self.dbias is not None:
            target = _slice_if_wide(_slice_if_wide(self.dbias, 2, rows), 3, keys)
            target += sum_to(ds.flatten(1, 2), bias.shape)
        if tanh is not None:
            ds = ds * (1.0 - tanh * tanh)
        ds_rows = ds.flatten(2, 3)
        self.dq[..., seen, :] += (scale * (ds_rows @ k)).unflatten(2, p.shape[2:4])
        self.dk[:, :, block] += scale * (ds_rows.transpose(-1, -2) @ q.flatten(2, 3))


def merge_states(
    o_a: Tensor, lse_a: Tensor, o_b: Tensor, lse_b: Tensor, *, layout: str = "bhsd"
) -> tuple[Tensor, Tensor]:
    """The operator where the library has no kernel for it, by the formulas of flashmoe.h."""
    _fake.check(_C.check_merge, o_a, lse_a, o_b, lse_b, layout=layout)
    heads_first = layout == "bhsd"
    lse = torch.logaddexp(lse_a, lse_b)
    lse = torch.where(lse == torch.inf, torch.nan, lse)
    safe_lse = torch.where(lse == -torch.inf, torch.inf, lse)
    out = torch.zeros(o_a.shape, dtype=torch.float32, device=o_a.device)
    for part, lse_part in ((o_a, lse_a), (o_b, lse_b)):
        weight = torch.exp(lse_part - safe_lse)
        weight, is_empty = (
            (of_row if heads_first else of_row.transpose(-1, -2)).unsqueeze(-1)
            for of_row in (weight, lse_part == -torch.inf)
        )
        out += torch.where(is_empty, 0.0, weight * part.float())  # an empty part may hold anything
    return out.to(o_a.dtype), lse.contiguous()
