"""docs/first-light-results.md: what cards measured beside what was predicted.

    measured.py             writes the page
    measured.py --check     exit code 1 where it is not what would be written
    measured.py --root DIR  another tree's docs/

Predictions are docs/predictions/<gpu>.json, bundles of `cudadent first-light` docs/measured/<gpu>/<bundle>/. A bundle
is refused, and nothing is written, when a virtual GPU made it, when a file is not as its MANIFEST.sha256 says, when it
is another card's or another bundle again. A time of another kernel, or of another plan, than was predicted is stale: it
is listed and compared with nothing.

Exit code 0: written, or as it should be; 1: refused, or not as it should be.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import re
import statistics
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
PAGE = Path("docs") / "first-light-results.md"
NEVER = "never run on a card"
OURS = "flashmoe"
# What makes a time one of the predicted launch (bench/card/predictions.py).
IDENTITY = ("kernel", "image", "image_sha256", "q_tile", "kv_splits", "ctas")

Row = dict[str, Any]


class RefusedError(Exception):
    """A bundle that no page may show, and why."""


# ---- bundles -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Bundle:
    place: str
    sha256: str  # of its manifest: by it the bundle is known
    card: str
    driver: str
    time: str
    lines: list[Row]

    def line(self, problem: str, side: str) -> Row | None:
        return next((one for one in self.lines if (one.get("problem"), one.get("side")) == (problem, side)), None)


def check_manifest(folder: Path, place: str) -> str:
    """The manifest's own SHA-256."""
    manifest = folder / "MANIFEST.sha256"
    if not manifest.is_file():
        raise RefusedError(f"{place}: no MANIFEST.sha256")
    listed: dict[str, str] = {}
    for line in manifest.read_text().splitlines():
        digest, gap, name = line[:64], line[64:66], line[66:]
        if gap != "  " or not re.fullmatch("[0-9a-f]{64}", digest) or not name or ".." in Path(name).parts:
            raise RefusedError(f"{place}: no line of a manifest: {line}")
        listed[name] = digest
    there = {str(file.relative_to(folder)) for file in folder.rglob("*") if file.is_file()} - {manifest.name}
    for name in sorted(there ^ listed.keys()):
        raise RefusedError(f"{place}: {name} is {'not listed' if name in there else 'not there'}")
    for name, digest in listed.items():
        if hashlib.sha256((folder / name).read_bytes()).hexdigest() != digest:
            raise RefusedError(f"{place}: {name} was changed")
    if "results.json" not in listed:
        raise RefusedError(f"{place}: no results.json")
    return hashlib.sha256(manifest.read_bytes()).hexdigest()


def is_card(name: str, gpu: str) -> bool:
    """Whether "NVIDIA GeForce RTX 4090" is rtx4090: words side by side spell it."""
    words = re.findall("[a-z0-9]+", name.lower())
    return any(
        "".join(words[first:last]) == gpu for first in range(len(words)) for last in range(first, len(words) + 1)
    )


def read_bundle(folder: Path, gpu: str, root: Path) -> Bundle:
    place = folder.relative_to(root).as_posix()
    try:
        digest = check_manifest(folder, place)
        results = json.loads((folder / "results.json").read_text())
        card, lines = results["card"], results["times"]
        name = str(card["name"])
        rehearsals = [results["rehearsal"], *(line.get("rehearsal", False) for line in lines)]
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise RefusedError(f"{place}: results.json is not that of a bundle: {error!r}") from error
    if any(one is not False for one in rehearsals) or "virtual" in name.lower():
        raise RefusedError(f"{place}: a rehearsal, not a measurement")
    if not is_card(name, gpu):
        raise RefusedError(f"{place}: measured on {name}, which is not {gpu}")
    return Bundle(place, digest, name, str(card.get("driver", "?")), str(results.get("time", "?")), lines)


def bundles_of(root: Path, gpu: str) -> list[Bundle]:
    folder = root / "docs" / "measured" / gpu
    found = [read_bundle(one, gpu, root) for one in sorted(folder.glob("*")) if one.is_dir()]
    known: dict[str, str] = {}
    for bundle in found:
        if bundle.sha256 in known:
            raise RefusedError(f"{bundle.place}: the same bundle as {known[bundle.sha256]}")
        known[bundle.sha256] = bundle.place
    return found


# ---- beside the predictions ----------------------------------------------------------------------------------------


@dataclass
class Measured:
    """Of one problem: a median a bundle, and what was left out."""

    times: list[float] = field(default_factory=list)
    spreads: list[list[float]] = field(default_factory=list)
    stale: list[str] = field(default_factory=list)  # why, a bundle each

    @property
    def mean(self) -> float:
        return statistics.mean(self.times)

    @property
    def text(self) -> str:
        if not self.times:
            return "stale" if self.stale else NEVER
        low = min(spread[0] for spread in self.spreads)
        high = max(spread[1] for spread in self.spreads)
        text = f"{self.mean:.2f} ({low:.2f} to {high:.2f})"
        if len(self.times) > 1:
            percent = 100 * (max(self.times) - min(self.times)) / self.mean
            text += f", {len(self.times)} bundles {percent:.1f} % apart"
        return text


def measured(prediction: Row, bundles: list[Bundle]) -> Measured:
    found = Measured()
    for bundle in bundles:
        line = bundle.line(prediction["problem"], OURS)
        if line is None or "kernel_us" not in line:
            continue
        other = [key for key in IDENTITY if line.get(key) != prediction.get(key)]
        if other:
            found.stale.append(f"{prediction['problem']} in {bundle.place}: another {other[0]} than was predicted")
        else:
            found.times.append(line["kernel_us"])
            found.spreads.append(line["kernel_us_spread"])
    return found


def predicted_text(prediction: Row) -> str:
    if "not_predicted" in prediction:
        return f"not predicted: {prediction['not_predicted']} |"
    boost, sustained = prediction["boost"], prediction["sustained"]
    slower = f"{sustained['us']:.2f} (up to {sustained['most_us']:.2f})" if sustained else "unknown"
    return f"{boost['us']:.2f} (from {boost['least_us']:.2f}) | {slower}"


def ratio_text(prediction: Row, found: Measured) -> str:
    if not found.times or "not_predicted" in prediction:
        return ""
    boost, sustained = prediction["boost"], prediction["sustained"] or prediction["boost"]
    inside = boost["least_us"] <= found.mean <= sustained["most_us"]
    return f"{found.mean / boost['us']:.2f}{'' if inside else ', outside the interval'}"


def table(predictions: Row, bundles: list[Bundle]) -> tuple[list[str], list[str]]:
    """Its lines, and what is stale."""
    lines = [
        "| problem | predicted at boost, us | at the sustained clock, us | measured, us | measured / predicted at boost"
        " | virtual: instructions | mma | DRAM, MB |",
        "|" + " --- |" * 8,
    ]
    stale: list[str] = []
    for row in predictions["rows"]:
        found = measured(row, bundles)
        stale += found.stale
        counters = row["counters"]
        lines.append(
            f"| {row['problem']} | {predicted_text(row)} | {found.text} | {ratio_text(row, found)} "
            f"| {counters['ptx_instructions']:,} | {counters['mma']:,} | {counters['dram_bytes'] / 1e6:.2f} |"
        )
    return lines, stale


def peers(predictions: Row, bundles: list[Bundle]) -> Iterator[str]:
    """Everybody's kernels, measured; nothing without a bundle."""
    sides = sorted({str(line["side"]) for bundle in bundles for line in bundle.lines if "kernel_us" in line})
    if not sides:
        return
    yield "| problem | " + " | ".join(sides) + " |"
    yield "|" + " --- |" * (len(sides) + 1)
    for row in predictions["rows"]:
        cells = []
        for side in sides:
            lines = [bundle.line(row["problem"], side) for bundle in bundles]
            times = [(line["kernel_us"], line["whole_us"]) for line in lines if line and "kernel_us" in line]
            cells.append(" / ".join(f"{statistics.mean(one):.2f}" for one in zip(*times, strict=True)))
        yield f"| {row['problem']} | " + " | ".join(cells) + " |"


# ---- the page ------------------------------------------------------------------------------------------------------

INTRODUCTION = """\
# First light: measured beside predicted

Written by the target `measured` (`tools/pages/measured.py`) from the predictions in `docs/predictions` and the bundles
of `cudadent first-light`, each in a folder `docs/measured/<gpu>/<bundle>`. A bundle that a virtual GPU made, or that
was changed, is refused; a time of another kernel or plan than was predicted is stale and compared with nothing.
Predictions come first: each carries the SHA-256 of its kernel, and the version of [the model](predict.md).

S: queries and keys, BH: heads times batch, B: batch, H: query and KV heads, K: keys, D: head size, paged: keys in pages
of so many; fp16. *Predicted*: one launch alone, with the model's own interval. *Measured*: a graph of calls divided by
their number, so that what lies between two launches is in it (0.94 us on an L40, published by RRZE-HPC), with the
shortest and the longest round. *Virtual*: counted by the virtual GPU, all heads, PTX instructions, caches modelled and
cold.
"""


def section(root: Path, file: Path) -> str:
    predictions = json.loads(file.read_text())
    gpu = predictions["gpu"]
    bundles = bundles_of(root, gpu)
    lines, stale = table(predictions, bundles)
    text = f"\n## {gpu.upper()}\n"
    if bundles:
        text += "\nMeasured by\n"
        for one in bundles:
            text += f"- {one.card}, driver {one.driver}, {one.time}: `{one.place}`, SHA-256 `{one.sha256}`\n"
    else:
        text += f'\nNo card has run it: every cell below says "{NEVER}".\n'
    text += f"\nModel version {predictions['model']}.\n\n" + "\n".join(lines) + "\n"
    if stale:
        text += "\nStale, not compared:\n" + "".join(f"- {one}\n" for one in stale)
    beside = list(peers(predictions, bundles))
    if beside:
        text += (
            f"\n### {gpu.upper()}: everybody, measured\nKernel time / whole call, us.\n\n" + "\n".join(beside) + "\n"
        )
    return text


def page(root: Path) -> str:
    predictions = sorted((root / "docs" / "predictions").glob("*.json"))
    known = {file.stem for file in predictions}
    for folder in sorted((root / "docs" / "measured").glob("*")):
        if folder.is_dir() and folder.name not in known:
            raise RefusedError(f"docs/measured/{folder.name}: there are no predictions for it in docs/predictions")
    return INTRODUCTION + "".join(section(root, file) for file in predictions)


def main(words: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--root", type=Path, default=ROOT)
    options = parser.parse_args(words)
    try:
        text = page(options.root)
    except RefusedError as refusal:
        print(f"measured: refused: {refusal}", file=sys.stderr)
        return 1
    file = options.root / PAGE
    if not options.check:
        file.write_text(text)
    elif not file.is_file() or file.read_text() != text:
        print(f"{PAGE} is not what the target measured makes", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
