"""The model as it was validated: every figure that it gave, so that it cannot change unnoticed.

frozen.json holds them and the number of the version. Cycles and uses are the model's own: published times, clocks and
fits are no part of them. docs/predict.md has a row for each version; predict_data_test.py holds that.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from published import HERE, Point

FILE = HERE / "frozen.json"
MOST = 0.001  # relative; compilers may order a sum in another way

Figures = dict[str, float]


def use_key(kernel: str, card: str, pipe: str) -> str:
    return f"{pipe} use of {kernel} on {card}"


def point_key(point: Point) -> str:
    mask = "causal" if point.causal else "full"
    heads = point.batch * point.heads
    return f"{point.kernel} D={point.head_dim} {mask} S={point.seqlen} heads={heads} on {point.card}"


def moved(frozen: Figures, now: Figures, whole: bool) -> list[str]:
    """What differs, in words. `whole`: `now` has all figures, so that one that it lacks has gone."""
    found = []
    for key, figure in now.items():
        if key not in frozen:
            found.append(f"{key}: {figure:.6g}, which was not there")
        elif abs(figure - frozen[key]) > MOST * abs(frozen[key]):
            found.append(f"{key}: {figure:.6g}, frozen is {frozen[key]:.6g}")
    if whole:
        found += [f"{key}: gone" for key in frozen if key not in now]
    return found


@dataclass(frozen=True)
class Frozen:
    version: int
    figures: Figures

    @staticmethod
    def read(file: Path = FILE) -> Frozen:
        if not file.exists():
            return Frozen(0, {})
        kept = json.loads(file.read_text())
        return Frozen(kept["version"], kept["figures"])

    def write(self, file: Path = FILE) -> None:
        figures = {key: float(f"{value:.6g}") for key, value in sorted(self.figures.items())}
        file.write_text(json.dumps({"version": self.version, "figures": figures}, indent=1) + "\n")
