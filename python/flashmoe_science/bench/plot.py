"""A picture of the ratios with their intervals. Needs matplotlib."""

from __future__ import annotations

import importlib
import math
from collections.abc import Sequence
from dataclasses import replace

from .implementation import Implementation
from .report import cpu_model
from .runner import Row
from .targets import CELL_THRESHOLDS


def save(rows: Sequence[Row], ours: Implementation, path: str) -> None:
    """One panel per data type and thread count, one line per cell; the format follows the file name's ending."""
    importlib.import_module("matplotlib").use("Agg")  # no display needed
    plt = importlib.import_module("matplotlib.pyplot")

    timed = [row for row in rows if row.times.log_ratios and not row.wrong]
    panels: dict[tuple[str, int], list[Row]] = {}
    for row in timed:
        panels.setdefault((row.job.dtype, row.job.threads), []).append(row)
    cells = list(dict.fromkeys(row.job.cell.name for row in timed))
    peers = list(dict.fromkeys(row.job.peer.name for row in timed))
    figure, axes = plt.subplots(
        1, max(1, len(panels)), figsize=(3 + 3.2 * max(1, len(panels)), 1.8 + 0.24 * len(cells)), sharey=True,
        squeeze=False, layout="constrained",
    )  # fmt: skip
    for axis, ((dtype, threads), members) in zip(axes[0], panels.items(), strict=False):
        for index, peer in enumerate(peers):
            mine = [row for row in members if row.job.peer.name == peer]
            if not mine:
                continue
            values = [row.ratio.value for row in mine]
            # Without bounds (too few blocks) the point stands alone.
            bounds = [row.ratio if math.isfinite(row.ratio.high) else replace(row.ratio, low=v, high=v)
                      for row, v in zip(mine, values, strict=True)]  # fmt: skip
            errors = [[b.value - b.low for b in bounds], [b.high - b.value for b in bounds]]
            heights = [cells.index(row.job.cell.name) + 0.16 * index for row in mine]
            label = f"{peer} / ours"
            drawn = axis.errorbar(values, heights, xerr=errors, fmt="o", markersize=3.5, linewidth=1, label=label)
            busy = [(value, height) for row, value, height in zip(mine, values, heights, strict=True) if row.disturbed]
            color = drawn.lines[0].get_color()
            for value, height in busy:
                axis.plot(value, height, "o", markersize=3.5, color="white", markeredgecolor=color, zorder=5)
        axis.axvline(1.0, color="0.5", linewidth=0.8)
        axis.axvline(CELL_THRESHOLDS[dtype], color="tab:red", linewidth=0.8, linestyle=":")
        axis.set_xscale("log", base=2)
        axis.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
        axis.tick_params(axis="x", labelsize=7)
        axis.set_title(f"{dtype}, {threads} thread{'s' if threads > 1 else ''}", fontsize=9)
        axis.grid(axis="x", alpha=0.3)
        axis.set_yticks(range(len(cells)), cells, fontsize=7)
        axis.set_xlabel("time ratio, peer / ours (right: ours is faster)", fontsize=7)
    axes[0][0].invert_yaxis()
    if timed:
        axes[0][0].legend(fontsize=7)
    note = "; hollow: the machine was busy" if any(row.disturbed for row in timed) else ""
    figure.suptitle(f"measured on {cpu_model()}; {ours.name} {ours.version}{note}", fontsize=9)
    figure.savefig(path, dpi=120)
    plt.close(figure)
