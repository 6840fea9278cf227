"""What is measured: the problems, by name."""

from __future__ import annotations

import fnmatch
from collections.abc import Iterable
from dataclasses import dataclass

DTYPES = ("fp16", "bf16", "fp32")
GQA_GROUP = 4
# Against torch: an additive bias; keys beyond each sequence's length hidden, by lengths of ours and by the mask that
# torch takes; sequences of many lengths, packed by us and padded by torch.
MODIFIED_KINDS = ("bias", "padding", "mask", "lengths")
# Against vLLM, whose kernel reads keys and values from pages only. One step of a server: decodes alone; beside a
# prefill; a chunk of a long prompt; whole prompts; few keys in sight.
PAGED_KINDS = ("paged-decode", "paged-mixed", "paged-chunk", "paged-prefill", "paged-window")


@dataclass(frozen=True)
class Cell:
    """One problem: shapes and mask, without data type and thread count."""

    kind: str  # "prefill", "decode", "call" (one row: the cost of calling); one of MODIFIED_KINDS or PAGED_KINDS
    batch: int
    q_heads: int
    kv_heads: int
    q_len: int  # the longest
    kv_len: int
    head_dim: int
    causal: bool  # aligned to the last key of each sequence
    lengths: tuple[tuple[int, int], ...] = ()  # queries and keys of each sequence, where they differ
    window: int = 0  # keys that a row sees, its own included; 0: all
    sinks: bool = False
    bias_heads: int = 0  # additive bias (1, this many, q_len, kv_len); 1: the same for all heads

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
        if self.window:
            parts.append(f"window{self.window}")
        if self.sinks:
            parts.append("sinks")
        if self.bias_heads == 1:
            parts.append("shared")
        return ".".join(parts)

    @property
    def is_plain(self) -> bool:
        """Four dense tensors and at most a causal mask: what every side can be asked for."""
        return self.kind not in MODIFIED_KINDS and self.kind not in PAGED_KINDS

    @property
    def sequences(self) -> tuple[tuple[int, int], ...]:
        """Queries and keys of each sequence."""
        return self.lengths or ((self.q_len, self.kv_len),) * self.batch

    @property
    def scores(self) -> int:
        """Visible (query, key) pairs: what a kernel that skips masked keys has to compute."""
        return self.q_heads * sum(self._visible_pairs(*sequence) for sequence in self.sequences)

    def _visible_pairs(self, q_len: int, kv_len: int) -> int:
        if not self.causal:
            return q_len * kv_len
        most = self.window or kv_len
        return sum(min(most, last + 1) for last in range(kv_len - q_len, kv_len))

    @property
    def flops(self) -> int:
        """Both products, a multiply-add as two."""
        return 4 * self.scores * self.head_dim

    def bytes_touched(self, bytes_per_element: int) -> int:
        """Q, K, V read once and O written once."""
        q_and_o = 2 * self.q_heads * sum(q_len for q_len, _ in self.sequences) * self.head_dim
        seen = sum(min(kv_len, self.window + q_len - 1) if self.window else kv_len for q_len, kv_len in self.sequences)
        k_and_v = 2 * self.kv_heads * seen * self.head_dim
        bias = self.bias_heads * self.q_len * self.kv_len
        return (q_and_o + k_and_v + bias) * bytes_per_element


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
    return cells + modified_cells() + paged_cells()


def modified_cells() -> list[Cell]:
    padded = tuple((512, kv_len) for kv_len in (512, 410, 290, 128))
    # An encoder's batch: most texts are short, and one is as long as the model allows.
    mixed = tuple((n, n) for n in (17, 24, 31, 38, 46, 55, 64, 78, 93, 110, 131, 160, 200, 260, 350, 512))
    cells = [Cell("bias", 1, 16, 16, 1024, 1024, 64, False, bias_heads=heads) for heads in (16, 1)]
    cells.append(Cell("bias", 1, 32, 8, 512, 512, 128, True, bias_heads=1))
    cells.append(Cell("padding", 4, 12, 12, 512, 512, 64, False, lengths=padded))
    cells.append(Cell("mask", 4, 12, 12, 512, 512, 64, False, lengths=padded))
    cells.append(Cell("mask", 4, 12, 12, 512, 512, 64, True, lengths=tuple((n, n) for _, n in padded)))
    cells.append(Cell("lengths", len(mixed), 12, 12, 512, 512, 64, False, lengths=mixed))
    return cells


def paged_cells() -> list[Cell]:
    cells = [
        Cell("paged-decode", batch, 8 * group, 8, 1, 2048, 128, True) for batch in (1, 4, 16) for group in (1, 4, 8)
    ]
    mixed = ((1, 2048),) * 8 + ((512, 512),)
    cells.append(Cell("paged-mixed", len(mixed), 32, 8, 512, 2048, 128, True, lengths=mixed))
    cells.append(Cell("paged-chunk", 1, 32, 8, 256, 2048, 128, True))
    cells.append(Cell("paged-prefill", 1, 32, 8, 1024, 1024, 128, True))
    cells.append(Cell("paged-prefill", 4, 32, 8, 512, 512, 128, True))
    for batch, q_len, kv_len in ((1, 1024, 1024), (4, 1, 2048)):
        for sinks in (False, True):
            cells.append(Cell("paged-window", batch, 64, 8, q_len, kv_len, 64, True, window=128, sinks=sinks))
    return cells


def select(cells: Iterable[Cell], patterns: Iterable[str]) -> list[Cell]:
    """Cells whose name matches any pattern (shell wildcards, or a plain part of the name); all if there is none."""
    patterns = [pattern for pattern in patterns if pattern]
    if not patterns:
        return list(cells)

    def matches(name: str, pattern: str) -> bool:
        return fnmatch.fnmatchcase(name, pattern if any(c in pattern for c in "*?[") else f"*{pattern}*")

    return [cell for cell in cells if any(matches(cell.name, pattern) for pattern in patterns)]
