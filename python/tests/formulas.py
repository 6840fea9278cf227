"""Attention as the formula says, in any dtype, and how far a result may be from it."""

from typing import Any

import torch
from torch import Tensor


def eager(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *,
    dtype: torch.dtype = torch.float64,
    causal: bool = False,
    scale: float | None = None,
    window: tuple[int, int] = (-1, -1),
    softcap: float = 0.0,
    bias: Tensor | None = None,
    sinks: Tensor | None = None,
    bias2: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """(out, lse) of (batch, heads, seq, dim) tensors, every step in ``dtype``."""
    q, k, v = q.to(dtype), k.to(dtype), v.to(dtype)
    group = q.shape[1] // k.shape[1]
    k, v = k.repeat_interleave(group, 1), v.repeat_interleave(group, 1)
    scores = q @ k.mT * (q.shape[-1] ** -0.5 if scale is None else scale)
    if softcap > 0:
        scores = softcap * torch.tanh(scores / softcap)
    for term in (bias, bias2):
        if term is None:
            continue
        if term.dim() == 5:
            term = torch.cat([term] * (scores.shape[0] // (term.shape[0] * term.shape[1])), 1).flatten(0, 1)
        scores = scores + term.to(dtype)
    left, right = window[0], 0 if causal else window[1]
    q_len, kv_len = scores.shape[-2:]
    row = torch.arange(q_len)[:, None] + kv_len - q_len
    key = torch.arange(kv_len)[None, :]
    if left >= 0:
        scores = scores.masked_fill(key < row - left, -torch.inf)
    if right >= 0:
        scores = scores.masked_fill(key > row + right, -torch.inf)
    if sinks is not None:
        column = sinks.to(dtype)[None, :, None, None].expand(*scores.shape[:-1], 1)
        scores = torch.cat([scores, column], -1)
    lse = torch.logsumexp(scores, -1)
    weights = torch.softmax(scores, -1).masked_fill((lse == -torch.inf)[..., None], 0.0)[..., :kv_len]
    return weights @ v, lse


def rms(error: Tensor) -> float:
    return error.double().square().mean().sqrt().item()


def assert_as_exact(ours: Tensor, theirs: Tensor, exact: Tensor) -> None:
    """``ours`` is at most twice as far from ``exact`` as ``theirs``, another result in the same dtype."""
    assert ours.shape == exact.shape
    # One rounding of the exact result is the least error that a result in this dtype can have.
    unavoidable = rms(exact.to(ours.dtype).double() - exact)
    error, allowed = rms(ours.double() - exact), 2.0 * max(rms(theirs.double() - exact), unavoidable)
    assert error <= allowed, f"RMS error {error:.3e}, allowed {allowed:.3e}"


def assert_lse(lse: Tensor, exact: Tensor) -> None:
    assert lse.dtype == torch.float32
    torch.testing.assert_close(lse.double(), exact, rtol=0, atol=1e-4)


def random(*shape: int, dtype: Any = torch.float32, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed + sum(shape))).to(dtype)
