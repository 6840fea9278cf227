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
    """N(0,1) tensors in (batch, heads, length, head_dim)."""

    q: torch.Tensor
    k: torch.Tensor
    v: torch.Tensor


def make_inputs(cell: Cell, dtype: str, seed: int = 42) -> Inputs:
    generator = torch.Generator().manual_seed(seed)

    def normal(heads: int, length: int) -> torch.Tensor:
        shape = (cell.batch, heads, length, cell.head_dim)
        return torch.randn(shape, generator=generator).to(TORCH_DTYPES[dtype])

    return Inputs(
        normal(cell.q_heads, cell.q_len), normal(cell.kv_heads, cell.kv_len), normal(cell.kv_heads, cell.kv_len)
    )


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
