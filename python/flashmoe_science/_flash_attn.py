"""Calls in the manner of the flash-attn package: (batch, seq, heads, dim) tensors and its argument names and order."""

from typing import Any

from . import _C


def _refuse_unsupported(dropout_p: float, alibi_slopes: Any) -> None:
    if dropout_p != 0.0:
        raise NotImplementedError(f"dropout_p is {dropout_p}; only 0.0 is supported")
    if alibi_slopes is not None:
        raise NotImplementedError("alibi_slopes is not supported; give attention() a bias instead")


def _in_their_manner(result: Any, return_attn_probs: bool) -> Any:
    if not return_attn_probs:
        return result
    out, lse = result
    return out, lse, None


def flash_attn_func(
    q: Any,
    k: Any,
    v: Any,
    dropout_p: float = 0.0,
    softmax_scale: float | None = None,
    causal: bool = False,
    window_size: tuple[int, int] = (-1, -1),
    softcap: float = 0.0,
    alibi_slopes: Any = None,
    deterministic: bool = False,
    return_attn_probs: bool = False,
) -> Any:
    """Attention over (batch, seq, heads, dim) arrays.

    With ``return_attn_probs`` the result is ``(out, softmax_lse, None)``; the probabilities are never formed.
    Results are always deterministic, so ``deterministic`` changes nothing.
    """
    _refuse_unsupported(dropout_p, alibi_slopes)
    result = _C.attention(
        q,
        k,
        v,
        causal=causal,
        scale=softmax_scale,
        window=window_size,
        softcap=softcap,
        layout="bshd",
        return_lse=return_attn_probs,
    )
    return _in_their_manner(result, return_attn_probs)


def flash_attn_varlen_func(
    q: Any,
    k: Any,
    v: Any,
    cu_seqlens_q: Any,
    cu_seqlens_k: Any,
    max_seqlen_q: int | None = None,
    max_seqlen_k: int | None = None,
    dropout_p: float = 0.0,
    softmax_scale: float | None = None,
    causal: bool = False,
    window_size: tuple[int, int] = (-1, -1),
    softcap: float = 0.0,
    alibi_slopes: Any = None,
    deterministic: bool = False,
    return_attn_probs: bool = False,
    block_table: Any = None,
) -> Any:
    """Attention over packed (total, heads, dim) arrays; sequence ``b`` is rows ``cu_seqlens[b]:cu_seqlens[b + 1]``.

    With ``block_table`` (int32, (batch, pages)) ``k`` and ``v`` are pages (pages, page_size, heads, dim) and
    ``cu_seqlens_k`` only gives the lengths.
    """
    _refuse_unsupported(dropout_p, alibi_slopes)
    paged = block_table is not None
    result = _C.attention(
        q,
        k,
        v,
        causal=causal,
        scale=softmax_scale,
        window=window_size,
        softcap=softcap,
        cu_q=cu_seqlens_q,
        cu_kv=None if paged else cu_seqlens_k,
        kv_lengths=cu_seqlens_k[1:] - cu_seqlens_k[:-1] if paged else None,
        block_table=block_table,
        max_q=max_seqlen_q,
        max_kv=max_seqlen_k,
        layout="bshd",
        return_lse=return_attn_probs,
    )
    return _in_their_manner(result, return_attn_probs)
