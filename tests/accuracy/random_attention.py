"""Realistic random attention problems as torch tensors, in the storage that the C ABI reads, and PyTorch's own answer.

A problem is a list of sequences (q, k, v in (H, S, D)); the storage around them is dense, ragged or paged. Padding and
unused pages hold NaN, so that nobody gets a right answer by reading what is not theirs.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable
from dataclasses import dataclass

import fms_abi as abi
import numpy as np
import torch

TORCH_DTYPES = {"fp16": torch.float16, "bf16": torch.bfloat16, "fp32": torch.float32}
Shape = tuple[int, int, int, int, int, int]  # batch, q_heads, kv_heads, q_len, kv_len, head_dim


@dataclass(frozen=True)
class Family:
    """What a device's set of problems is drawn from."""

    dtypes: tuple[str, ...]
    shape: Callable[[np.random.Generator, int, int], Shape]  # of a generator, the seed and the index
    layouts: dict[str, float]  # of a (B, H, S, D) tensor, with their shares
    page_sizes: tuple[int, ...]
    large_scores: float = 0.0  # share of problems whose scores reach 2^6 to 2^12


@dataclass
class Sequence:
    q: torch.Tensor  # (Hq, Sq, D)
    k: torch.Tensor  # (Hkv, Skv, D)
    v: torch.Tensor  # (Hkv, Skv, D)


@dataclass
class AttentionProblem:
    dtype: str
    plain_normal: bool  # every input is N(0,1)
    large_scores: str  # what kind of them, or nothing
    threads: int
    sequences: list[Sequence]
    scale: float
    softcap: float
    window: tuple[int, int]
    bias: torch.Tensor | None  # (B or 1, Hq or 1, Sq, Skv)
    sinks: torch.Tensor | None  # (Hq)
    problem: abi.Problem
    args: abi.Args
    o: torch.Tensor  # (B, H, S, D) or (H, total, D), any strides
    lse: torch.Tensor  # (B, H, S) or (H, total)
    q_offsets: list[int] | None  # ragged
    tensors: dict[str, torch.Tensor]  # what args points at, by its names
    layouts: list[str]  # of q, o, k, v

    def output_of(self, b: int) -> tuple[torch.Tensor, torch.Tensor]:
        rows = self.sequences[b].q.shape[1]
        if self.q_offsets is None:
            return self.o[b, :, :rows], self.lse[b, :, :rows]
        begin = self.q_offsets[b]
        return self.o[:, begin : begin + rows], self.lse[:, begin : begin + rows]

    def visible(self, b: int) -> torch.Tensor:
        """(Sq, Skv), true where the row sees the key."""
        sq, skv = self.sequences[b].q.shape[1], self.sequences[b].k.shape[1]
        distance = torch.arange(skv)[None, :] - (torch.arange(sq)[:, None] + skv - sq)
        mask = torch.ones(sq, skv, dtype=torch.bool)
        left, right = self.window
        if left >= 0:
            mask &= distance >= -left
        if right >= 0:
            mask &= distance <= right
        return mask

    def bias_of(self, b: int) -> torch.Tensor | None:
        """(Hq or 1, Sq, Skv)"""
        if self.bias is None:
            return None
        sq, skv = self.sequences[b].q.shape[1], self.sequences[b].k.shape[1]
        return self.bias[min(b, self.bias.shape[0] - 1), :, :sq, :skv]

    def largest_terms(self, b: int) -> float:
        """The largest sum of |q k| that a score the softmax sees is made of: what roundings of fp32 are relative to."""
        seq = self.sequences[b]
        k = seq.k.repeat_interleave(seq.q.shape[0] // seq.k.shape[0], dim=0)
        terms = seq.q.double().abs() @ k.double().abs().transpose(-1, -2) * abs(self.scale)
        return float(terms[:, self.visible(b)].max()) if bool(self.visible(b).any()) else 0.0

    def summary(self) -> str:
        p = self.problem
        return (
            f"{self.dtype} features={p.features:#x} B={p.batch} Hq={p.q_heads} Hkv={p.kv_heads} Sq={p.q_len} "
            f"Skv={p.kv_len} D={p.head_dim} scale={self.scale:.4g} softcap={self.softcap:g} window={self.window} "
            f"threads={self.threads}{self.large_scores and f' large scores: {self.large_scores}'}"
        )


def _strides(tensor: torch.Tensor) -> abi.Strides:
    """Of a (batch, head, seq, ...) view."""
    return abi.Strides(*tensor.stride()[:3])


class Storages:
    """Makes (B, H, S, D) views filled with NaN, each in a layout of the family."""

    def __init__(self, rng: np.random.Generator, family: Family, dtype: torch.dtype) -> None:
        self.rng, self.family, self.dtype = rng, family, dtype
        self.layouts: list[str] = []

    def new(self, shape: tuple[int, int, int, int]) -> torch.Tensor:
        b, h, s, d = shape
        layout = str(self.rng.choice(list(self.family.layouts), p=list(self.family.layouts.values())))
        self.layouts.append(layout)
        if layout == "bhsd":
            return self._filled(b, h, s, d)
        if layout == "bshd":
            return self._filled(b, s, h, d).transpose(1, 2)
        if layout == "padded":
            return self._filled(b, h, s, d + int(self.rng.integers(1, 9)))[..., :d]
        if layout == "shifted":  # begins at an address that no vector load likes
            begin = int(self.rng.integers(1, 8))
            return self._filled(begin + b * h * s * d)[begin:].view(b, h, s, d)
        raise ValueError(f"no layout is called {layout}")

    def _filled(self, *shape: int) -> torch.Tensor:
        return torch.full(shape, math.nan, dtype=self.dtype)


def shrink_to(multiplies: int, shape: Shape) -> Shape:
    """The same with less batch and fewer heads, then rows and keys, until that many products are enough for QK^T."""
    batch, q_heads, kv_heads, sq, skv, d = shape
    group = q_heads // kv_heads
    while batch * kv_heads * group * sq * skv * d > multiplies:
        if batch > 1:
            batch -= 1
        elif kv_heads > 1:
            kv_heads //= 2
        elif group > 1:
            group //= 2
        else:
            sq, skv = max(1, sq * 3 // 4), max(8, skv * 3 // 4)
    return batch, kv_heads * group, kv_heads, sq, skv, d


def _cpu_shape(rng: np.random.Generator, _seed: int, _index: int) -> Shape:
    d = int(rng.choice([16, 32, 64, 64, 64, 80, 96, 128, 128, 192, 256, int(rng.integers(8, 257))]))
    batch = int(rng.choice([1, 1, 2, 3]))
    kv_heads = int(rng.choice([1, 2, 2, 4]))
    group = int(rng.choice([1, 1, 2, 4, 8]))
    kind = rng.random()
    if kind < 0.2:  # decode
        sq, skv = int(rng.choice([1, 1, 1, 2, 4])), int(rng.integers(32, 2000))
        kv_heads, group = max(kv_heads, 2), max(group, 2)
    elif kind < 0.6:
        sq = skv = int(rng.integers(8, 300))
    else:
        sq, skv = int(rng.integers(8, 260)), int(rng.integers(8, 400))
    return shrink_to(2_500_000, (batch, kv_heads * group, kv_heads, sq, skv, d))


CPU_PROBLEMS = Family(
    dtypes=("fp16", "bf16", "fp32"),
    shape=_cpu_shape,
    layouts={"bhsd": 0.4, "bshd": 0.4, "padded": 0.2},
    page_sizes=(16, 32, 64),
    large_scores=0.15,
)


def _lay_out_queries(
    storages: Storages, p: abi.Problem, sequences: list[Sequence], ragged: bool
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, list[int] | None]:
    """Storage of q, o and lse, with q in place."""
    offsets = None
    if ragged:
        p.features |= abi.RAGGED_Q
        lengths = [one.q.shape[1] for one in sequences]
        offsets = [0, *np.cumsum(lengths).tolist()]
        p.total_q = offsets[-1]
    shape = (1 if ragged else int(p.batch), int(p.q_heads), int(p.total_q if ragged else p.q_len), int(p.head_dim))
    q, o = storages.new(shape), storages.new(shape)
    lse = torch.full(shape[:3], math.nan)
    p.q, p.o, p.lse = _strides(q), _strides(o), _strides(lse)
    for b, one in enumerate(sequences):
        if offsets is None:
            q[b, :, : one.q.shape[1]] = one.q
        else:
            q[0, :, offsets[b] : offsets[b + 1]] = one.q
    return q, (o if offsets is None else o[0]), (lse if offsets is None else lse[0]), offsets


def _lay_out_keys(
    storages: Storages, p: abi.Problem, sequences: list[Sequence], kind: str
) -> tuple[torch.Tensor, torch.Tensor, dict[str, torch.Tensor]]:
    """Storage of k and v, and the index arrays that lead into it."""
    indices: dict[str, torch.Tensor] = {}
    lengths = [one.k.shape[1] for one in sequences]
    heads, d = int(p.kv_heads), int(p.head_dim)
    if kind == "ragged":
        p.features |= abi.RAGGED_KV
        offsets = [0, *np.cumsum(lengths).tolist()]
        indices["cu_kv"] = torch.tensor(offsets, dtype=torch.int32)
        p.total_kv = offsets[-1]
        shape = (1, heads, offsets[-1], d)
    elif kind == "paged":
        p.features |= abi.PAGED_KV | abi.KV_LENGTHS
        p.page_size = int(storages.rng.choice(storages.family.page_sizes))
        p.block_table_stride = -(-int(p.kv_len) // p.page_size)
        p.page_count = int(p.batch) * p.block_table_stride + 2
        pages = storages.rng.permutation(p.page_count)[: int(p.batch) * p.block_table_stride]
        indices["block_table"] = torch.tensor(pages.reshape(int(p.batch), -1), dtype=torch.int32)
        shape = (p.page_count, heads, p.page_size, d)
    else:
        shape = (int(p.batch), heads, int(p.kv_len), d)
    if kind in ("paged", "lengths"):
        p.features |= abi.KV_LENGTHS
        indices["kv_lengths"] = torch.tensor(lengths, dtype=torch.int32)
    k, v = storages.new(shape), storages.new(shape)
    p.k, p.v = _strides(k), _strides(v)
    for b, one in enumerate(sequences):
        for storage, rows in ((k, one.k), (v, one.v)):
            if kind == "ragged":
                storage[0, :, offsets[b] : offsets[b + 1]] = rows
            elif kind == "paged":
                for page, begin in enumerate(range(0, lengths[b], p.page_size)):
                    chunk = rows[:, begin : begin + p.page_size]
                    storage[int(indices["block_table"][b, page]), :, : chunk.shape[1]] = chunk
            else:
                storage[b, :, : lengths[b]] = rows
    return k, v, indices


def _enlarge(rng: np.random.Generator, kind: str, sequence: Sequence) -> None:
    """Makes scores reach 2^6 to 2^12. Near duplicates: keys come in pairs, both nearly a query."""
    q, k = sequence.q.float(), sequence.k.float()
    d = q.shape[2]
    of_normal = math.sqrt(d) if kind == "near duplicates" else 4.5  # the largest score of N(0,1), about
    size = math.sqrt(2 ** rng.uniform(6, 12) / of_normal)
    if kind == "near duplicates":
        heads = torch.arange(k.shape[0]) * (q.shape[0] // k.shape[0])
        k = q[heads][:, torch.arange(k.shape[1]) // 2 * 2 % q.shape[1]] + 2e-3 * k
    sequence.q, sequence.k = (size * q).to(sequence.q.dtype), (size * k).to(sequence.k.dtype)


def draw(family: Family, seed: int, index: int) -> AttentionProblem:
    rng = np.random.default_rng([seed, index])
    dtype_name = family.dtypes[index % len(family.dtypes)]
    dtype = TORCH_DTYPES[dtype_name]
    batch, q_heads, kv_heads, q_len, kv_len, d = family.shape(rng, seed, index)

    q_factor = float(rng.choice([1.0, 1.0, 1.0, 0.5, 2.0, 4.0]))
    scale_factor = float(rng.choice([1.0, 1.0, 1.0, 0.7, 1.5]))
    softcap = float(rng.choice([5.0, 30.0])) if rng.random() < 0.12 else 0.0
    causal, windowed = rng.random() < 0.4, rng.random() < 0.2
    left = int(rng.integers(4, kv_len + 4)) if windowed else -1
    right = 0 if causal else int(rng.integers(0, kv_len + 4)) if windowed else -1
    ragged_q = rng.random() < 0.15
    kv_kind = str(rng.choice(["dense", "ragged", "paged", "lengths"], p=[0.55, 0.15, 0.15, 0.15]))

    def normal(*shape: int) -> torch.Tensor:
        return torch.from_numpy(rng.standard_normal(shape, dtype=np.float32)).to(dtype)

    sequences = []
    for b in range(batch):
        rows = q_len if not ragged_q or b == 0 else int(rng.integers(1, q_len + 1))
        keys = kv_len if kv_kind == "dense" or b == 0 else int(rng.integers(1, kv_len + 1))
        q = normal(q_heads, rows, d) * q_factor  # a power of two: exact
        sequences.append(Sequence(q, normal(kv_heads, keys, d), normal(kv_heads, keys, d)))
    large_scores = ""
    if softcap == 0 and family.large_scores > 0 and rng.random() < family.large_scores:  # of what SDPA has
        large_scores = str(rng.choice(["random", "near duplicates"]))
        for sequence in sequences:
            _enlarge(rng, large_scores, sequence)

    p = abi.Problem()
    p.struct_size = ctypes.sizeof(abi.Problem)
    p.dtype = p.bias_dtype = abi.DTYPES[dtype_name]
    p.features = abi.LSE
    p.batch, p.q_heads, p.kv_heads = batch, q_heads, kv_heads
    p.q_len, p.kv_len, p.head_dim, p.value_dim = q_len, kv_len, d, d
    p.softmax_scale = scale_factor / math.sqrt(d)
    p.softcap = softcap
    p.window_left, p.window_right = left, right
    storages = Storages(rng, family, dtype)
    q, o, lse, q_offsets = _lay_out_queries(storages, p, sequences, ragged_q)
    k, v, indices = _lay_out_keys(storages, p, sequences, kv_kind)

    bias = sinks = None
    if rng.random() < 0.15:
        p.features |= abi.BIAS
        bias = normal(int(rng.choice([1, batch])), int(rng.choice([1, q_heads])), q_len, kv_len)
        strides = [0 if size == 1 else stride for size, stride in zip(bias.shape, bias.stride(), strict=True)]
        p.bias = abi.BiasStrides(*strides)
    if not large_scores and rng.random() < 0.1:
        p.features |= abi.SINKS
        sinks = torch.from_numpy(rng.standard_normal(q_heads, dtype=np.float32)).to(dtype).float()

    args = abi.Args()
    args.struct_size = ctypes.sizeof(abi.Args)
    if q_offsets is not None:
        indices["cu_q"] = torch.tensor(q_offsets, dtype=torch.int32)
    given = {"q": q, "k": k, "v": v, "o": o, "lse": lse, "bias": bias, "sinks": sinks, **indices}
    tensors = {name: tensor for name, tensor in given.items() if tensor is not None}
    for name, tensor in tensors.items():
        setattr(args, name, tensor.data_ptr())
    return AttentionProblem(
        dtype=dtype_name,
        plain_normal=q_factor == 1.0 and scale_factor == 1.0 and not large_scores,
        large_scores=large_scores,
        threads=int(rng.choice([1, 2])),
        sequences=sequences,
        scale=float(p.softmax_scale),
        softcap=softcap,
        window=(left, right),
        bias=bias,
        sinks=sinks,
        problem=p,
        args=args,
        o=o,
        lse=lse,
        q_offsets=q_offsets,
        tensors=tensors,
        layouts=storages.layouts,
    )


def torch_attention(one: AttentionProblem, b: int) -> torch.Tensor:
    """PyTorch's answer for sequence b, (Hq, Sq, D) in the problem's dtype: SDPA where it has the feature, else eager.

    K and V are repeated for a GQA group, which keeps SDPA on its fused kernel: the more exact of its two CPU paths.
    """
    seq = one.sequences[b]
    group = seq.q.shape[0] // seq.k.shape[0]
    q = seq.q[None]
    k, v = (t.repeat_interleave(group, dim=0)[None] for t in (seq.k, seq.v))
    mask, bias = one.visible(b), one.bias_of(b)
    if one.softcap == 0 and one.sinks is None:
        if bias is None and bool(mask.all()):
            return torch.nn.functional.scaled_dot_product_attention(q, k, v, scale=one.scale)[0]
        if bias is None and one.window == (-1, 0) and q.shape[2] == k.shape[2]:
            return torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True, scale=one.scale)[0]
        attn_mask = mask[None, None] if bias is None else bias.masked_fill(~mask, -math.inf)[None]
        attn_mask = attn_mask.expand(1, q.shape[1], *mask.shape)
        return torch.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=attn_mask, scale=one.scale)[0]
    scores = q @ k.transpose(-1, -2) * one.scale
    if one.softcap != 0:
        scores = one.softcap * torch.tanh(scores / one.softcap)
    if bias is not None:
        scores = scores + bias[None]
    scores = scores.masked_fill(~mask, -math.inf)
    if one.sinks is not None:
        sink_scores = one.sinks.to(scores.dtype)[None, :, None, None].expand(*scores.shape[:-1], 1)
        weights = torch.softmax(torch.cat([scores, sink_scores], dim=-1), dim=-1)[..., :-1]
    else:
        weights = torch.softmax(scores, dim=-1)
    return (weights @ v)[0]
