"""What is measured: the problems, by name."""

from __future__ import annotations

import fnmatch
from collections.abc import Iterable
from dataclasses import dataclass

DTYPES = ("fp16", "bf16", "fp32")
GQA_GROUP = 4


@dataclass(frozen=True)
class Cell:
    """One problem: shapes and mask, without data type and thread count."""

    kind: str  # "prefill", "decode" or "call" (one row: the cost of calling)
    batch: int
    q_heads: int
    kv_heads: int
    q_len: int
    kv_len: int
    head_dim: int
    causal: bool

    @property
    def gqa_group(self) -> int:
        return self.q_heads // self.kv_heads

    @property
    def name(self) -> str:
        length = f"s{self.q_len}" if self.q_len == self.kv_len else f"s{self.q_len}x{self.kv_len}"
        parts = [self.kind, f"b{self.batch}h{self.q_heads}{length}d{self.head_dim}"]
        if self.causal:
            parts.append("causal")
        if self.gqa_group > 1:
            parts.append(f"gqa{self.gqa_group}")
        return ".".join(parts)

    @property
    def scores(self) -> int:
        """Visible (query, key) pairs: what a kernel that skips masked keys has to compute."""
        per_head = self.q_len * self.kv_len
        if self.causal:
            hidden_in_first_row = self.q_len - 1  # aligned to the last key
            per_head -= hidden_in_first_row * (hidden_in_first_row + 1) // 2
        return self.batch * self.q_heads * per_head

    @property
    def flops(self) -> int:
        """Both products, a multiply-add as two."""
        return 4 * self.scores * self.head_dim

    def bytes_touched(self, bytes_per_element: int) -> int:
        """Q, K, V read once and O written once."""
        q_and_o = 2 * self.batch * self.q_heads * self.q_len * self.head_dim
        k_and_v = 2 * self.batch * self.kv_heads * self.kv_len * self.head_dim
        return (q_and_o + k_and_v) * bytes_per_element


# (B, H, S, D) of the prefill cells; each runs with and without the causal mask, and with GQA where H allows it.
PREFILL_SHAPES = (
    (1, 1, 32, 64),
    (1, 1, 64, 64),
    (1, 1, 128, 64),
    (1, 1, 256, 64),
    (1, 1, 512, 64),
    (2, 8, 128, 64),
    (4, 8, 512, 64),
    (1, 16, 2048, 64),
    (1, 32, 1024, 128),
    (1, 8, 4096, 64),
)


def all_cells() -> list[Cell]:
    cells = []
    for batch, heads, length, head_dim in PREFILL_SHAPES:
        for kv_heads in (heads,) if heads < GQA_GROUP else (heads, heads // GQA_GROUP):
            for causal in (False, True):
                cells.append(Cell("prefill", batch, heads, kv_heads, length, length, head_dim, causal))
    # Decode is not masked: torch aligns is_causal to the first key, so one causal query row would see one key only,
    # while aligned to the last key the mask hides nothing. Unmasked is the same problem on both sides.
    for kv_heads in (32, 32 // GQA_GROUP):
        cells.append(Cell("decode", 1, 32, kv_heads, 1, 4096, 128, causal=False))
    cells.append(Cell("call", 1, 1, 1, 1, 1, 64, causal=False))
    return cells


def select(cells: Iterable[Cell], patterns: Iterable[str]) -> list[Cell]:
    """Cells whose name matches any pattern (shell wildcards, or a plain part of the name); all if there is none."""
    patterns = [pattern for pattern in patterns if pattern]
    if not patterns:
        return list(cells)

    def matches(name: str, pattern: str) -> bool:
        return fnmatch.fnmatchcase(name, pattern if any(c in pattern for c in "*?[") else f"*{pattern}*")

    return [cell for cell in cells if any(matches(cell.name, pattern) for pattern in patterns)]
