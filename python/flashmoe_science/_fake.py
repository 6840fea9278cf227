"""Fake kernels: shapes for tensors without memory, and the same refusals as the kernels', by the same code."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from . import _C


def _known(number: Any) -> Any:
    """A symbolic number counts as the one it was traced with: it is looked at, and guards nothing. None: not known."""
    if isinstance(number, torch.SymInt | torch.SymFloat):
        return number.node.hint if number.node.has_hint() else None
    return number


def _all_known(numbers: Sequence[Any]) -> tuple[int, ...] | None:
    known = tuple(map(_known, numbers))
    return None if None in known else known


def _described(value: Any) -> Any:
    """What ``_C`` checks in place of a tensor; None if a size is not known before the kernel runs."""
    if not isinstance(value, Tensor):
        return _known(value)
    sizes, strides = _all_known(value.shape), _all_known(value.stride())
    if sizes is None or strides is None:
        return None
    return sizes, strides, str(value.dtype).removeprefix("torch."), str(value.device)


def check(checker: Callable[..., None], *tensors: Tensor, **options: Any) -> None:
    """Raises what the kernel would; what is not known yet is left to it."""
    positional = [_described(tensor) for tensor in tensors]
    given = {name: _described(value) for name, value in options.items() if value is not None}
    if None not in positional and None not in given.values():
        checker(*positional, **given)


def attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    bias: Tensor | None = None,
    sinks: Tensor | None = None,
    cu_q: Tensor | None = None,
    cu_kv: Tensor | None = None,
    kv_lengths: Tensor | None = None,
    block_table: Tensor | None = None,
    bias2: Tensor | None = None,
    kv_starts: Tensor | None = None,
    q_lengths: Tensor | None = None,
    mask: Tensor | None = None,
    k_scales: Tensor | None = None,
    v_scales: Tensor | None = None,
    *,
    window_left: int = -1,
    window_right: int = -1,
    layout: str = "bhsd",
    partial: bool = False,
    **options: Any,
) -> tuple[Tensor, Tensor]:
    check(
        _C.check_attention,
        q,
        k,
        v,
        bias=bias,
        sinks=sinks,
        bias2=bias2,
        cu_q=cu_q,
        cu_kv=cu_kv,
        kv_lengths=kv_lengths,
        block_table=block_table,
        kv_starts=kv_starts,
        q_lengths=q_lengths,
        mask=mask,
        k_scales=k_scales,
        v_scales=v_scales,
        window=(window_left, window_right),
        layout=layout,
        partial=partial,
        **options,
    )
    heads_first = layout == "bhsd"
    out_dtype = torch.float32 if partial else q.dtype
    out = torch.empty((*q.shape[:-1], v.shape[-1]), dtype=out_dtype, device=q.device)
    if cu_q is not None:
        heads, rows = (q.shape[0], q.shape[1]) if heads_first else (q.shape[1], q.shape[0])
        lse_shape: tuple[int, ...] = (heads, rows)
    else:
        heads, rows = (q.shape[1], q.shape[2]) if heads_first else (q.shape[2], q.shape[1])
        lse_shape = (q.shape[0], heads, rows)
    return out, torch.empty(lse_shape, dtype=torch.float32, device=q.device)


def merge_states(o_a: Tensor, lse_a: Tensor, o_b: Tensor, lse_b: Tensor, *, layout: str = "bhsd") -> Any:
    check(_C.check_merge, o_a, lse_a, o_b, lse_b, layout=layout)
    return (
        torch.empty(o_a.shape, dtype=o_a.dtype, device=o_a.device),
        torch.empty(lse_a.shape, dtype=lse_a.dtype, device=lse_a.device),
    )


def attention_backward(
    grad_out: Tensor, grad_lse: Any, q: Tensor, k: Tensor, v: Tensor, bias: Any, sinks: Any, *args: Any, **kwargs: Any
) -> tuple[Tensor, ...]:
    def like(tensor: Tensor | None) -> Tensor:
        return q.new_empty(0) if tensor is None else torch.empty(tensor.shape, dtype=tensor.dtype, device=tensor.device)

    return tuple(like(tensor) for tensor in (q, k, v, bias, sinks))
