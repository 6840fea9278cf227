"""What the two sides of a comparison have in common, and the inputs they are given."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import torch

from .cells import Cell

TORCH_DTYPES = {"fp16": torch.float16, "bf16": torch.bfloat16, "fp32": torch.float32}


class NotAvailable(Exception):
    """A side that is not installed, or cannot run this cell; the message says why."""


@dataclass(frozen=True)
class Inputs:
    """N(0,1) tensors in (batch, heads, length, head_dim), whatever form a side wants them in."""

    q: torch.Tensor
    k: torch.Tensor
    v: torch.Tensor
    bias: torch.Tensor | None = None  # (1, heads or 1, q_len, kv_len)
    sinks: torch.Tensor | None = None  # (q_heads,), fp32


def make_inputs(cell: Cell, dtype: str, seed: int = 42) -> Inputs:
    generator = torch.Generator().manual_seed(seed)

    def normal(heads: int, length: int) -> torch.Tensor:
        shape = (cell.batch, heads, length, cell.head_dim)
        return torch.randn(shape, generator=generator).to(TORCH_DTYPES[dtype])

    q, k, v = normal(cell.q_heads, cell.q_len), normal(cell.kv_heads, cell.kv_len), normal(cell.kv_heads, cell.kv_len)
    bias = sinks = None
    if cell.bias_heads:
        bias = torch.randn(1, cell.bias_heads, cell.q_len, cell.kv_len, generator=generator).to(TORCH_DTYPES[dtype])
    if cell.sinks:
        # As torch's side can have them: it takes them as a bias.
        sinks = torch.randn(cell.q_heads, generator=generator).to(TORCH_DTYPES[dtype]).float()
    return Inputs(q, k, v, bias, sinks)


def visible(cell: Cell) -> torch.Tensor:
    """Which keys each query sees, (batch, 1, q_len, kv_len); queries beyond their sequence see the first key."""
    q_lens = torch.tensor([q_len for q_len, _ in cell.sequences])[:, None, None]
    kv_lens = torch.tensor([kv_len for _, kv_len in cell.sequences])[:, None, None]
    row, key = torch.arange(cell.q_len)[:, None], torch.arange(cell.kv_len)
    seen = key < kv_lens
    if cell.causal:
        last = row + kv_lens - q_lens
        seen = seen & (key <= last)
        if cell.window:
            seen = seen & (key > last - cell.window)
    return (torch.where(row < q_lens, seen, key == 0)).expand(cell.batch, -1, -1)[:, None]


def without_padding(cell: Cell, output: torch.Tensor) -> torch.Tensor:
    """A copy with 0 in the rows beyond each sequence."""
    q_lens = torch.tensor([q_len for q_len, _ in cell.sequences])[:, None, None, None]
    return torch.where(torch.arange(cell.q_len)[:, None] < q_lens, output, 0.0)


@dataclass(frozen=True)
class PreparedCall:
    """A cell ready to be called again and again."""

    run: Callable[[], object]
    to_tensor: Callable[[object], torch.Tensor]  # what `run` returned, as (batch, heads, length, head_dim)
    note: str = ""


class Implementation(Protocol):
    name: str
    version: str
    isa: str  # of our own sides, else empty

    def prepare(self, cell: Cell, dtype: str, inputs: Inputs, threads: int) -> PreparedCall:
        """Everything that is done once. Raises NotAvailable when this side cannot run the cell."""
        ...
