"""What a report of the virtual GPU (`cudadent run --report`) says, one launch a line, in words and sums."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

COUNTERS = {
    "warp instructions": ("vgpu__ptx_inst_executed.sum",),
    "bank conflicts": ("vgpu__shared_bank_conflicts.sum",),
    "DRAM bytes (modelled)": ("vgpu__dram_bytes_read.sum", "vgpu__dram_bytes_written.sum"),
}


def told_findings(launches: Iterable[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Without memory that was never freed: many libraries leave that to the end of the process."""
    for launch in launches:
        yield from (finding for finding in launch.get("findings", ()) if finding["cause"] != "leak")


def totals(launches: list[dict[str, Any]]) -> dict[str, float]:
    sums: dict[str, float] = {"launches": len(launches)}
    for launch in launches:
        metrics = {metric["name"]: metric["value"] for metric in launch.get("metrics", ())}
        for name, parts in COUNTERS.items():
            sums[name] = sums.get(name, 0) + sum(metrics.get(part, 0) for part in parts)
    return sums


def place(party: dict[str, Any]) -> str:
    """As editors and terminals make a link of it."""
    if "source_line" in party:
        return f"{party['source_file']}:{party['source_line']}"
    return f"PTX line {party['ptx_line']}: {party['instruction']}"


def runner(party: dict[str, Any]) -> str:
    return f"block {party['block']} thread {party['thread']}"


def finding_text(finding: dict[str, Any]) -> str:
    """The first line is what pytest repeats in its summary."""
    head = f"{finding['check']}: {finding['message']}"
    at = finding.get("at")
    lines = [f"{place(at)}: {head}", f"  in {finding['kernel']}, {runner(at)}"] if at else [head]
    if other := finding.get("other"):
        lines.append(f"  against {other['what']} at {place(other)}, {runner(other)}")
    if buffer := finding.get("buffer"):
        lines.append(f"  {buffer['what']} + {buffer['offset']} bytes")
    if advice := finding.get("advice"):
        lines.append(f"  {advice}")
    return "\n".join(lines)
