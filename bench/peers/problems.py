"""What is asked of every kernel, and which instance of a peer answers."""

from __future__ import annotations

from typing import NamedTuple


class Problem(NamedTuple):
    heads_q: int
    heads_kv: int
    len_q: int
    len_kv: int
    head_dim: int
    causal: bool = False

    @property
    def name(self) -> str:
        if self.len_q == 1:
            return f"decode 1x{self.len_kv} D={self.head_dim} GQA {self.heads_q // self.heads_kv}"
        return f"prefill S={self.len_q} D={self.head_dim}{' causal' if self.causal else ''}"

    @property
    def is_decode(self) -> bool:
        return self.len_q == 1

    @property
    def shape(self) -> str:
        """As peers_host takes it: batch (FlashInfer's kernels have one), query and key heads, queries, keys, size."""
        return f"1,{self.heads_q},{self.heads_kv},{self.len_q},{self.len_kv},{self.head_dim}"

    @property
    def visible_pairs(self) -> int:
        """Of a query and a key, in one head; the mask is aligned to the lower right corner."""
        if not self.causal:
            return self.len_q * self.len_kv
        return sum(max(0, row + 1 + self.len_kv - self.len_q) for row in range(self.len_q))

    @property
    def useful_flops(self) -> int:
        """Two products, two operations each, over the visible pairs only."""
        return 4 * self.heads_q * self.visible_pairs * self.head_dim

    @property
    def compulsory_bytes(self) -> int:
        """Q, K, V read once and O written once, fp16."""
        queries = self.heads_q * self.len_q * self.head_dim
        return 2 * (2 * queries + 2 * self.heads_kv * self.len_kv * self.head_dim)


# At most 128 queries: the heads of a small model. From 512 on: enough heads for about a wave on 58 SMs.
_HEADS = {32: 12, 64: 12, 128: 12, 512: 16, 2048: 16}
PREFILL = [
    Problem(heads, heads, length, length, head_dim, causal)
    for head_dim in (64, 128)
    for causal in (False, True)
    for length, heads in _HEADS.items()
]
DECODE = [Problem(heads_q=32, heads_kv=8, len_q=1, len_kv=4096, head_dim=128)]
PROBLEMS = PREFILL + DECODE


def flashinfer_instance(problem: Problem, sm: int = 89) -> str:
    """A name of tests/peers/build_peers.py; FlashInfer's own plan refuses any other than the one it wants."""
    name = f"fi_prefill_hd{problem.head_dim}{'_causal' if problem.causal else ''}"
    # Decode of groups runs in the prefill kernel, on tensor cores: FlashInfer recommends it from groups of 4 on.
    rows = problem.len_q * (problem.heads_q // problem.heads_kv)
    tile = 16 if rows <= 16 else 64 if rows <= 64 or problem.head_dim == 256 else 128
    return name + ("" if tile == 128 else f"_q{tile}") + _suffix(sm)


# Query and key rows of FlashAttention-2's tiles on sm_86 and sm_89, causal or not.
_FLASH_ATTENTION_TILES = {
    (64, False): (128, 128), (64, True): (128, 128), (128, False): (128, 32), (128, True): (64, 64),
    (256, False): (64, 64), (256, True): (64, 64),
}  # fmt: skip


def flash_attention_instance(problem: Problem, sm: int = 89, split: bool = False) -> str:
    """Likewise. FlashAttention-2 has a kernel of its own for problems that fill its tiles."""
    mask = "_causal" if problem.causal else ""
    if split:  # whose tiles long sequences fill, but not a single query
        even = "" if problem.is_decode else "_even"
        return f"fa2_split_hd{problem.head_dim}{mask}{even}{_suffix(sm)}"
    rows, keys = _FLASH_ATTENTION_TILES[problem.head_dim, problem.causal]
    if sm == 80 and problem.head_dim == 128:
        rows, keys = 128, 64
    even = problem.len_q % rows == 0 and problem.len_kv % keys == 0
    return f"fa2_fwd_hd{problem.head_dim}{mask}{'' if even else '_uneven'}{_suffix(sm)}"


def _suffix(sm: int) -> str:
    return "" if sm == 89 else f"_sm{sm}"
