"""The problems for GPUs: a family whose first COVERING problems hold every listed head size, every length from 1 to 257
of queries and of keys, every feature and every layout; and the check that they do."""

from __future__ import annotations

from dataclasses import dataclass

import fms_abi as abi
import numpy as np
from random_attention import AttentionProblem, Family, Shape, shrink_to

COVERING = 600
LENGTHS = 257
LISTED_DIMS = (32, 64, 80, 96, 128, 192, 256)
OTHER = 0  # any other head size
DIMS = (64, 128, 32, OTHER, 80, 64, 96, OTHER, 128, 192, 256)
MULTIPLIES = LENGTHS * LENGTHS * 256  # the longest problem of one head keeps its lengths


def _shape(rng: np.random.Generator, seed: int, index: int) -> Shape:
    """Of ten problems two are decode, four square; the lengths of the other eight run through a shuffled 1...257.

    Squares take it from the front and the others from the back (queries) and from the middle (keys), so that 60 tens
    hold every length of both.
    """
    ten, place = divmod(index, 10)
    lengths = np.random.default_rng([seed, LENGTHS]).permutation(LENGTHS) + 1
    batch = int(rng.choice([1, 1, 2, 3]))
    kv_heads = int(rng.choice([1, 2, 2, 4]))
    group = int(rng.choice([1, 1, 2, 4, 8]))
    if place < 2:
        sq, skv = int(rng.choice([1, 1, 1, 2, 4])), int(rng.integers(32, 2000))
        kv_heads, group = max(kv_heads, 2), max(group, 2)
    elif place < 6:
        sq = skv = int(lengths[(4 * ten + place - 2) % LENGTHS])
    else:
        step = 4 * ten + place - 6
        sq, skv = int(lengths[-1 - step % LENGTHS]), int(lengths[(LENGTHS // 2 - step) % LENGTHS])
    d = DIMS[index // 2 % len(DIMS)]
    if d == OTHER:
        d = int(rng.integers(1, 257)) if rng.random() < 0.5 else 8 * int(rng.integers(1, 33))
    return shrink_to(MULTIPLIES, (batch, kv_heads * group, kv_heads, sq, skv, d))


GPU_PROBLEMS = Family(
    dtypes=("fp16", "bf16"),
    shape=_shape,
    layouts={"bhsd": 0.35, "bshd": 0.35, "padded": 0.15, "shifted": 0.15},
    page_sizes=(1, 16, 24, 64, 256),
)


@dataclass(frozen=True)
class Forced:
    """What the planner is told; 0 leaves it the choice."""

    kv_splits: int = 0
    q_tile: int = 0


def draw_forced(one: AttentionProblem, seed: int, index: int) -> Forced:
    """A third leaves everything to the planner. Tiles of 16 and 64 rows are there for every head size."""
    rng = np.random.default_rng([seed, index, 1])
    if rng.random() < 0.34:
        return Forced()
    tiles = [0, 16, 64]
    is_modified = one.bias is not None or one.softcap != 0
    is_paged = bool(one.problem.features & abi.PAGED_KV)
    if one.problem.head_dim <= 128:
        tiles.append(32)
    if one.problem.head_dim <= 128 and not is_modified and not is_paged:
        tiles.append(128)
    splits = 0 if rng.random() < 0.4 else int(rng.integers(1, 10))
    if rng.random() < 0.1:  # down to 8 keys a CTA
        splits = int(np.clip(one.problem.kv_len // 8, 1, 1024))
    return Forced(splits, int(rng.choice(tiles)))


def traits(one: AttentionProblem) -> list[str]:
    """What a problem adds to the coverage of its set."""
    p = one.problem
    named = {
        "causal": one.window[1] == 0,
        "window": one.window[0] >= 0,
        "softcap": one.softcap != 0,
        "bias": one.bias is not None,
        "sinks": one.sinks is not None,
        "grouped queries": p.q_heads != p.kv_heads,
        "packed queries": p.features & abi.RAGGED_Q,
        "packed keys": p.features & abi.RAGGED_KV,
        "key lengths": p.features & abi.KV_LENGTHS,
        "pages": p.features & abi.PAGED_KV,
    }
    dim = f"head size {p.head_dim}" if p.head_dim in LISTED_DIMS else "head size not listed"
    odd = ["odd head size"] if p.head_dim % 2 else []
    kind = [f"{one.dtype} {name}" for name, holds in named.items() if holds]
    layouts = [f"{role} {layout}" for role, layout in zip("qokv", one.layouts, strict=True)]
    return [*kind, f"{one.dtype} {dim}", *odd, *layouts, f"{p.q_len} queries", f"{p.kv_len} keys"]


def wanted_traits() -> set[str]:
    features = ("causal", "window", "softcap", "bias", "sinks", "grouped queries", "packed queries", "packed keys")
    per_dtype = [*features, "key lengths", "pages", *(f"head size {d}" for d in LISTED_DIMS), "head size not listed"]
    wanted = {f"{dtype} {trait}" for dtype in GPU_PROBLEMS.dtypes for trait in per_dtype} | {"odd head size"}
    wanted |= {f"{role} {layout}" for role in "qokv" for layout in GPU_PROBLEMS.layouts}
    return wanted | {f"{n} {what}" for n in range(1, LENGTHS + 1) for what in ("queries", "keys")}
