"""The same points through the whole pipeline: FlashAttention-2 built afresh, its path from the virtual GPU.

What ran on the cards was an older build (measured_programs.py), whose path nobody can record; what is recorded here is
2.8.3 by today's compiler. One head of each length runs, unsplit, and the grid of all heads is predicted from it.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

from measured_programs import find_nvdisasm
from model import Model
from published import Card, Point

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "peers"))
from build_peers import build

MOST_TOKENS = 8192  # longer ones take the virtual GPU minutes each, and grow as these do
DEVICES = {"sm_80": "a100", "sm_86": "a10"}  # virtual GPUs that run a cubin's architecture


def is_covered(point: Point) -> bool:
    return point.kernel == "fa2" and point.use == "split" and point.seqlen <= MOST_TOKENS


@dataclass
class Pipeline:
    model: Model
    host: Path  # peers_host
    driver: Path  # the virtual libcuda.so.1
    scratch: Path
    unmatched: float = 0.0  # the most of all
    _runs: dict[tuple[str, int, bool, int], tuple[Path, Path]] = field(default_factory=dict)
    _known: dict[tuple[str, int, bool, int, int], float] = field(default_factory=dict)

    def cycles(self, point: Point, card: Card) -> float:
        heads = point.batch * point.heads
        key = (card.name, point.head_dim, point.causal, point.seqlen, heads)
        if key not in self._known:
            report, sass = self._run(point, card.sass)
            grid = json.loads(report.read_text())["grid"]
            grid[2] *= heads
            answer = self.model.ask({"report": str(report), "sass": str(sass), "gpu": card.gpu(), "grid": grid})
            if answer["refusals"]:
                raise RuntimeError(f"{point}: {answer['refusals'][0]}")
            self.unmatched = max(self.unmatched, answer["unmatched_weight"])
            self._known[key] = answer["launch_cycles"]
        return self._known[key]

    def _run(self, point: Point, architecture: str) -> tuple[Path, Path]:
        key = (architecture, point.head_dim, point.causal, point.seqlen)
        if key not in self._runs:
            folder = Path(tempfile.mkdtemp(dir=self.scratch))
            mask = "_causal" if point.causal else ""
            plugin = build(f"fa2_fwd_hd{point.head_dim}{mask}_{architecture.replace('_', '')}")
            report, sass = folder / "report.jsonl", folder / "kernel.sass"
            command = [str(self.host), "--plugin", str(plugin / "peer.so"), "--driver", str(self.driver)]
            command += ["--shape", f"1,1,1,{point.seqlen},{point.seqlen},{point.head_dim}", "--judge", "none"]
            command += ["--workspace-mb", "0", *(["--causal"] if point.causal else [])]
            settings = {"VGPU_DEVICE": DEVICES[architecture], "VGPU_CHECK": "none", "VGPU_PATHS": "1"}
            environment = {**os.environ, **settings, "VGPU_REPORT": str(report)}
            subprocess.run(command, env=environment, capture_output=True, check=True)
            printed = subprocess.run(
                [find_nvdisasm(), "-c", "-hex", "-gp", str(plugin / "kernel.cubin")], capture_output=True, check=True
            )
            sass.write_bytes(printed.stdout)
            self._runs[key] = (report, sass)
        return self._runs[key]
