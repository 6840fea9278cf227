"""How many floating-point operations a call is, for torch.utils.flop_counter.

Counted as that module counts: the matrix products, two operations a multiply-add, nothing else. A product counts only
the pairs of a query and a key that see each other, so that causal masks, windows and lengths make a call smaller; bias,
mask, softcap and sinks change nothing, and merge_states, which has no product, counts 0.
"""

import itertools
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

# How many products go over the head dimension of q and k, and how many over that of v.
_FORWARD_PRODUCTS = (1, 1)  # q k^T; p v
_BACKWARD_PRODUCTS = (3, 2)  # q k^T again, ds k, ds^T q; p^T dO, dO v^T


def _sum_of_clamped(first: int, count: int, top: int) -> int:
    """The sum of clamp(x, 0, top) over x = first, ..., first + count - 1."""

    def up_to(x: int) -> int:
        inside = min(max(x, 0), top)
        return inside * (inside + 1) // 2 + max(x - top, 0) * top

    return up_to(first + count - 1) - up_to(first - 1)


def visible_pairs(q_len: int, kv_len: int, window_left: int, window_right: int, shift: int | None = None) -> int:
    """How many of the q_len * kv_len pairs the window leaves; query i is aligned to key i + shift.

    Without a shift the last query is aligned to the last key.
    """
    shift = kv_len - q_len if shift is None else shift
    end = q_len * kv_len if window_right < 0 else _sum_of_clamped(shift + window_right + 1, q_len, kv_len)
    begin = 0 if window_left < 0 else _sum_of_clamped(shift - window_left, q_len, kv_len)
    return end - begin


def _values(indices: Tensor) -> list[int] | None:
    """None where there is nothing to read: fake and meta tensors."""
    from torch._subclasses.fake_tensor import FakeTensor

    is_readable = not isinstance(indices, FakeTensor) and indices.device.type != "meta"
    return indices.tolist() if is_readable else None


def _lengths(batch: int, rows: int, cumulative: Tensor | None, longest: int | None) -> list[int]:
    """Of each sequence. If they cannot be read, as many as if all were the longest: the most that it can be."""
    if cumulative is None:
        return [rows] * batch
    offsets = _values(cumulative)
    if offsets is None:
        return [rows if longest is None else longest] * batch
    return [end - begin for begin, end in itertools.pairwise(offsets)]


@dataclass(frozen=True)
class _Call:
    """What of a call decides about its products."""

    q: Tensor
    k: Tensor
    v: Tensor
    cu_q: Tensor | None
    cu_kv: Tensor | None
    kv_lengths: Tensor | None
    window_left: int
    window_right: int
    layout: str
    block_table: Tensor | None = None
    max_q: int | None = None
    max_kv: int | None = None
    kv_starts: Tensor | None = None
    q_lengths: Tensor | None = None
    top_left: bool = False

    def flops(self, products: tuple[int, int]) -> int:
        heads, rows = (-3, -2) if self.layout == "bhsd" else (-2, -3)
        batch = self.q.shape[0] if self.cu_q is None else self.cu_q.shape[0] - 1
        kv_rows = self.k.shape[rows]
        if self.block_table is not None:
            kv_rows = self.block_table.shape[1] * kv_rows if self.max_kv is None else self.max_kv
        q_lengths = _lengths(batch, self.q.shape[rows], self.cu_q, self.max_q)
        kv_lengths = None if self.kv_lengths is None else _values(self.kv_lengths)
        if kv_lengths is None:
            kv_lengths = _lengths(batch, kv_rows, self.cu_kv, self.max_kv)
        if self.q_lengths is not None:
            q_lengths = _values(self.q_lengths) or q_lengths
        starts = (None if self.kv_starts is None else _values(self.kv_starts)) or [0] * batch
        pairs = 0
        for q_len, kv_len, start in zip(q_lengths, kv_lengths, starts, strict=True):
            shift = (0 if self.top_left else kv_len - q_len) - start
            pairs += visible_pairs(q_len, max(kv_len - start, 0), self.window_left, self.window_right, shift)
        multiplies = products[0] * self.q.shape[-1] + products[1] * self.v.shape[-1]
        return 2 * self.q.shape[heads] * multiplies * pairs


def attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    bias: Any = None,
    sinks: Any = None,
    cu_q: Tensor | None = None,
    cu_kv: Tensor | None = None,
    kv_lengths: Tensor | None = None,
    block_table: Tensor | None = None,
    bias2: Any = None,
    kv_starts: Tensor | None = None,
    q_lengths: Tensor | None = None,
    mask: Any = None,
    k_scales: Any = None,
    v_scales: Any = None,
    *,
    window_left: int = -1,
    window_right: int = -1,
    max_q: int | None = None,
    max_kv: int | None = None,
    layout: str = "bhsd",
    top_left: bool = False,
    **_: Any,
) -> int:
    call = _Call(
        q,
        k,
        v,
        cu_q,
        cu_kv,
        kv_lengths,
        window_left,
        window_right,
        layout,
        block_table,
        max_q,
        max_kv,
        kv_starts,
        q_lengths,
        top_left,
    )
    return call.flops(_FORWARD_PRODUCTS)


def attention_backward(
    grad_out: Tensor,
    grad_lse: Any,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    bias: Any,
    sinks: Any,
    cu_q: Tensor | None,
    cu_kv: Tensor | None,
    kv_lengths: Tensor | None,
    *_: Any,
    window_left: int,
    window_right: int,
    layout: str,
    **__: Any,
) -> int:
    return _Call(q, k, v, cu_q, cu_kv, kv_lengths, window_left, window_right, layout).flops(_BACKWARD_PRODUCTS)


def register() -> None:
    """Once torch.utils.flop_counter has been imported."""
    from torch.utils import flop_counter

    operators = torch.ops.flashmoe_science
    for operator, formula in ((operators.attention, attention), (operators.attention_backward, attention_backward)):
        flop_counter.register_flop_formula(operator, get_raw=True)(formula)
