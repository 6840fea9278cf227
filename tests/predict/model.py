"""The model of src/predict, asked for the points: cycles of launches, and how busy an SM is."""

from __future__ import annotations

import json
import subprocess
from dataclasses import dataclass, field
from itertools import pairwise
from types import TracebackType
from typing import Any

from declared_paths import DeclaredKernel, Groups, read_all
from measured_programs import Programs
from published import Card, Point

# Blocks of keys, beyond the fewest, of the CTAs that are simulated.
ANCHORS = (0, 1, 2, 3, 5, 8, 16, 64)


class ModelError(Exception):
    pass


def kernel_name(point: Point, card: Card) -> str:
    """The kernel that answers: torch chooses tiles by D, mask and architecture."""
    name = f"{point.kernel}_d{point.head_dim}_{'causal' if point.causal else 'full'}"
    return name + "_sm80" if point.kernel == "fa2" and point.head_dim == 128 and card.sass == "sm_80" else name


def between(curve: list[tuple[int, float, float]], blocks: int) -> list[float]:
    """On the line through the two nearest points, beyond the last ones too."""
    low, high = next(((a, b) for a, b in pairwise(curve) if blocks <= b[0]), (curve[-2], curve[-1]))
    share = (blocks - low[0]) / (high[0] - low[0])
    return [low[i] + share * (high[i] - low[i]) for i in (1, 2)]


@dataclass
class Model:
    program: str  # predict_points
    programs: Programs
    declared: dict[str, DeclaredKernel] = field(default_factory=read_all)
    _process: subprocess.Popen[str] | None = None
    _known: dict[tuple[str, str, int, int], float] = field(default_factory=dict)
    _curves: dict[tuple[str, str], list[tuple[int, float, float]]] = field(default_factory=dict)

    def __enter__(self) -> Model:
        self._process = subprocess.Popen([self.program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self._process is not None:
            self._process.communicate()

    def ask(self, request: dict[str, Any]) -> dict[str, Any]:
        process = self._process
        if process is None or process.stdin is None or process.stdout is None:
            raise ModelError("the model is not open")
        process.stdin.write(json.dumps(request) + "\n")
        process.stdin.flush()
        line = process.stdout.readline()
        if not line:
            raise ModelError(f"{self.program} ended with {process.wait()}")
        answer: dict[str, Any] = json.loads(line)
        if "error" in answer:
            raise ModelError(answer["error"])
        return answer

    def request(self, kernel: str, card: Card, resident: int, paths: list[Groups]) -> dict[str, Any]:
        return {
            "sass": str(self.programs[kernel, card.sass]),
            "gpu": card.gpu(),
            "threads": 32 * self.declared[kernel].warps,
            "resident": resident,
            "paths": paths,
        }

    def _curve(self, name: str, card: Card) -> list[tuple[int, float, float]]:
        """Cycles of a CTA alone and beside others, by its blocks of keys: they are affine in them but for the first."""
        if (name, card.name) not in self._curves:
            declared = self.declared[name]
            first = declared.paths[0][0]
            blocks = [first + more for more in ANCHORS]
            paths = [declared.groups(number) for number in blocks]
            answer = self.ask(self.request(name, card, declared.resident_on(card.sass), paths))
            self._curves[name, card.name] = [
                (number, cta["alone"], cta["shared"]) for number, cta in zip(blocks, answer["ctas"], strict=True)
            ]
        return self._curves[name, card.name]

    def cycles(self, point: Point, card: Card) -> float:
        """Of the launch, by the SM's clock."""
        name = kernel_name(point, card)
        heads = point.batch * point.heads
        key = (name, card.name, point.seqlen, heads)
        if key not in self._known:
            declared = self.declared[name]
            blocks = declared.key_blocks(point.seqlen)
            kinds = sorted(set(blocks))
            request = {
                "gpu": card.gpu(),
                "resident": declared.resident_on(card.sass),
                "kinds": [between(self._curve(name, card), number) for number in kinds],
                "grid": {"pattern": [kinds.index(number) for number in blocks], "times": heads},
            }
            self._known[key] = self.ask(request)["launch_cycles"]
        return self._known[key]
