"""What others have measured and published: rows, cards, and which rows a split fits on and which it holds out."""

from __future__ import annotations

import csv
import random
import tomllib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).parent
SPLITS = range(20)  # seeds
# split: fitted on in about half of the splits, held out in the others; ratio: kernel against kernel only; shown: in the
# table of pairs only; excluded: `why` says for what reason
USES = ("split", "ratio", "shown", "excluded")
# sustained: the one clock that is fitted for the card. On the L4 each row is in one of three regimes.
REGIMES = ("sustained", "boost", "dram", "throttled")

Shape = tuple[int, bool, int, int]  # head_dim, causal, seqlen, batch x heads


@dataclass(frozen=True)
class Point:
    card: str
    kernel: str  # fa2, fmha
    head_dim: int
    causal: bool
    batch: int
    heads: int
    seqlen: int
    value: float
    unit: str
    source: str
    use: str
    regime: str
    why: str

    @property
    def flop(self) -> float:
        """Of QK^T and PV, halved where half is masked: as all the sources count it."""
        return 4.0 * self.batch * self.heads * self.seqlen**2 * self.head_dim / (2 if self.causal else 1)

    @property
    def ms(self) -> float:
        return self.value if self.unit == "ms" else self.flop / (self.value * 1e12) * 1e3

    @property
    def shape(self) -> Shape:
        return (self.head_dim, self.causal, self.seqlen, self.batch * self.heads)

    @property
    def dram_bytes(self) -> float:
        """Q, K, V and O once each, in fp16."""
        return 4.0 * self.batch * self.heads * self.seqlen * self.head_dim * 2


@dataclass(frozen=True)
class Card:
    name: str
    like: str  # a GPU of src/devices
    sass: str
    facts: dict[str, float]  # that replace its
    power_capped: str = ""

    def gpu(self) -> dict[str, str | float]:
        """As predict_points wants it."""
        return {"like": self.like, **self.facts}


def read_points(file: Path = HERE / "published.csv") -> list[Point]:
    with file.open(newline="") as text:
        return [
            Point(
                row["card"], row["kernel"], int(row["head_dim"]), row["mask"] == "causal", int(row["batch"]),
                int(row["heads"]), int(row["seqlen"]), float(row["value"]), row["unit"], row["source"], row["use"],
                row["regime"], row["why"],
            )
            for row in csv.DictReader(text)
        ]  # fmt: skip


def read_cards(file: Path = HERE / "cards.toml") -> dict[str, Card]:
    rows = tomllib.loads(file.read_text())
    return {
        name: Card(name, row["like"], row["sass"], row.get("facts", {}), row.get("power_capped", ""))
        for name, row in rows.items()
    }


def fitted_shapes(points: Iterable[Point], seed: int) -> set[tuple[str, Shape]]:
    """A random half of the shapes of each card, of the L4 a half of each regime: what the split fits on.

    Rows of the same shape are never on both sides.
    """
    dice = random.Random(seed)
    groups: dict[tuple[str, str], set[Shape]] = {}
    for point in points:
        groups.setdefault((point.card, point.regime), set()).add(point.shape)
    chosen = set()
    for (card, _), shapes in sorted(groups.items()):
        order = sorted(shapes)
        dice.shuffle(order)
        half = (len(order) + dice.randrange(2)) // 2  # of an odd number one more or one less
        chosen |= {(card, shape) for shape in order[:half]}
    return chosen
