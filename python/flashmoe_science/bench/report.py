"""Results as a table for people and as JSON for programs."""

from __future__ import annotations

import math
import os
import platform
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from .implementation import Implementation
from .intervals import geometric_mean_interval
from .limits import Limits
from .runner import Row
from .targets import Outcome, Verdict

SCHEMA = "flashmoe_science.bench/1"

COLUMNS = (
    ("cell", 56), ("peer", 11), ("peer us", 10), ("ours us", 10), ("ratio", 6), ("95 % interval", 15), ("n", 3),
    ("max_diff", 8), ("GFLOP/s", 8), ("limit us", 9), ("% limit", 7), ("AMX TF", 6), ("FMA GF", 6), ("Gexp/s", 6),
    ("GB/s", 6), ("others", 6),
)  # fmt: skip


def cpu_model() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    except OSError:
        pass
    return platform.processor() or "unknown"


def _scaled(value: float | None, scale: float, digits: int) -> str:
    return "" if value is None else f"{value * scale:.{digits}f}"


def _line(row: Row) -> list[str]:
    job = row.job
    head = [job.cell.name, job.peer.name]
    if row.skipped:
        return [*head, f"skipped: {row.skipped}"]
    if row.wrong:
        return [*head, f"NOT TIMED: {row.wrong}"]
    if not row.times.log_ratios:
        return [*head, "interrupted"]
    times, ratio, share = row.times, row.ratio, row.roofline_share
    limits = row.limits or Limits(None, None, None, None)
    return [
        *head,
        f"{times.baseline_median * 1e6:.1f}",
        f"{times.ours_median * 1e6:.1f}",
        f"{ratio.value:.2f}",
        f"[{ratio.low:.2f}, {ratio.high:.2f}]",
        str(len(times.log_ratios)),
        "" if row.agreement is None else f"{row.agreement.max_diff:.1e}",
        f"{job.cell.flops / times.ours_median * 1e-9:.1f}",
        _scaled(row.roofline_seconds, 1e6, 1),
        _scaled(share, 100, 0),
        _scaled(limits.amx_bf16_flops, 1e-12, 2),
        _scaled(limits.fma_fp32_flops, 1e-9, 0),
        _scaled(limits.exp2_per_second, 1e-9, 1),
        _scaled(limits.read_bytes_per_second, 1e-9, 0),
        _scaled(row.used_by_others, 1, 1) + ("!" if row.disturbed else ""),
    ]


def table(rows: Sequence[Row], ours: Implementation, absent: Sequence[str] = ()) -> str:
    """`absent`: why peers that would have been measured were not."""
    lines = [f"ours: {ours.name} {ours.version}; ratio = peer's time / ours, above 1 ours is faster"]
    groups: dict[tuple[str, int], list[Row]] = {}
    for row in rows:
        groups.setdefault((row.job.dtype, row.job.threads), []).append(row)
    for (dtype, threads), members in groups.items():
        lines.append("")
        lines.append(f"{dtype}, {threads} thread{'s' if threads > 1 else ''}")
        lines.append("  ".join(title.ljust(w) if i < 2 else title.rjust(w) for i, (title, w) in enumerate(COLUMNS)))
        for row in members:
            texts = _line(row)
            if len(texts) < len(COLUMNS):
                lines.append(f"{texts[0]:<{COLUMNS[0][1]}}  {texts[1]:<{COLUMNS[1][1]}}  {texts[2]}")
                continue
            pairs = enumerate(zip(texts, COLUMNS, strict=True))
            lines.append("  ".join(t.ljust(w) if i < 2 else t.rjust(w) for i, (t, (_, w)) in pairs).rstrip())
        for peer in dict.fromkeys(row.job.peer.name for row in members):
            for kind in dict.fromkeys(row.job.cell.kind for row in members if row.job.cell.kind != "call"):
                of_kind = [row for row in members if row.job.peer.name == peer and row.job.cell.kind == kind]
                timed = [row.times.log_ratios for row in of_kind if row.times.log_ratios and not row.wrong]
                if timed:
                    mean = geometric_mean_interval(timed)
                    lines.append(
                        f"geometric mean, {kind} against {peer}: {mean.value:.2f} "
                        f"[{mean.low:.2f}, {mean.high:.2f}] over {len(timed)} cells"
                    )
    lines += [f"\nnot measured: {reason}" for reason in absent]
    return "\n".join(lines)


WORDS = {
    True: {Outcome.HOLDS: "holds", Outcome.FAILS: "FAILS", Outcome.INCONCLUSIVE: "INCONCLUSIVE"},
    False: {Outcome.HOLDS: "reached", Outcome.FAILS: "missed", Outcome.INCONCLUSIVE: "open"},
}


def verdict_text(verdict: Verdict) -> str:
    max_cells = 100 if verdict.is_must else 4
    kind = "must" if verdict.is_must else "goal"
    figure = verdict.figure
    if figure is None:
        shown = "no figure"
    elif figure.low == figure.high:
        shown = f"{figure.value:.3f}"
    else:
        shown = f"{figure.value:.3f} [{figure.low:.3f}, {figure.high:.3f}]"
    word = WORDS[verdict.is_must][verdict.outcome]
    lines = [f"{kind}  {word:<12} {verdict.title}: {shown}, at least {verdict.threshold:.4g}"]
    lines += [f"        {cell}" for cell in verdict.cells[:max_cells]]
    if len(verdict.cells) > max_cells:
        lines.append(f"        and {len(verdict.cells) - max_cells} more")
    if verdict.missing:
        more = f" and {len(verdict.missing) - 1} more" if len(verdict.missing) > 1 else ""
        lines.append(f"        not measured: {verdict.missing[0]}{more}")
    return "\n".join(lines)


def row_json(row: Row) -> dict[str, Any]:
    job, times, ratio = row.job, row.times, row.ratio
    result: dict[str, Any] = {
        "cell": job.cell.name,
        "kind": job.cell.kind,
        "batch": job.cell.batch,
        "q_heads": job.cell.q_heads,
        "kv_heads": job.cell.kv_heads,
        "q_len": job.cell.q_len,
        "kv_len": job.cell.kv_len,
        "head_dim": job.cell.head_dim,
        "causal": job.cell.causal,
        "lengths": job.cell.sequences,
        "window": job.cell.window,
        "sinks": job.cell.sinks,
        "bias_heads": job.cell.bias_heads,
        "dtype": job.dtype,
        "threads": job.threads,
        "peer": job.peer.name,
    }
    if row.skipped:
        return result | {"skipped": row.skipped}
    if row.agreement is not None:
        result |= {
            "max_diff": _finite(row.agreement.max_diff),
            "rms_error": _finite(row.agreement.rms_error),
            "peer_rms_error": _finite(row.agreement.baseline_rms_error),
        }
    if row.wrong:
        result["wrong"] = row.wrong
    if not times.log_ratios:
        return result
    result |= {
        "peer_seconds": times.baseline_median,
        "ours_seconds": times.ours_median,
        "ratio": ratio.value,
        "ratio_low": ratio.low,
        "ratio_high": _finite(ratio.high),
        "blocks": len(times.log_ratios),
        "looks": times.looks,
        "interrupted_samples": times.interrupted_samples,
        "processors_used_by_others": row.used_by_others,
        "disturbed": row.disturbed,
        "log_ratios": times.log_ratios,
        "peer_samples_seconds": times.baseline_seconds,
        "ours_samples_seconds": times.ours_seconds,
        "ours_processors": times.ours_cpu_per_wall,
        "flops": job.cell.flops,
        "plan": row.note,
    }
    if row.limits is not None:
        result |= {
            "amx_bf16_flops": row.limits.amx_bf16_flops,
            "fma_fp32_flops": row.limits.fma_fp32_flops,
            "exp2_per_second": row.limits.exp2_per_second,
            "read_bytes_per_second": row.limits.read_bytes_per_second,
            "roofline_seconds": row.roofline_seconds,
            "roofline_share": row.roofline_share,
        }
    return result


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def as_json(
    rows: Sequence[Row],
    ours: Implementation,
    verdicts: Sequence[Verdict],
    memory: dict[str, Any] | None,
    arguments: Sequence[str],
    complete: bool,
) -> dict[str, Any]:
    versions = {row.job.peer.name: row.job.peer.version for row in rows}
    return {
        "schema": SCHEMA,
        "label": "measured",
        "finished": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "complete": complete,
        "arguments": list(arguments),
        "machine": {"cpu": cpu_model(), "processors": os.cpu_count(), "system": platform.platform()},
        "versions": {"python": platform.python_version(), "torch": str(torch.__version__), **versions},
        "ours": {"name": ours.name, "version": ours.version},
        "memory": memory,
        "rows": [row_json(row) for row in rows],
        "verdicts": [verdict.as_json() for verdict in verdicts],
    }
