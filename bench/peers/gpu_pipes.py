"""How long an instruction holds its pipe in an SM's sub-partition, of any GPU in the table of src/devices.

The table is asked through `cudadent doctor --devices --json`: there is no second list of such figures here.
"""

from __future__ import annotations

import json
import subprocess
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Pipes:
    """Clocks for one instruction of a warp."""

    architecture: str  # "sm_89"
    hmma_16816_f32: float
    transcendental: float
    fp32: float
    alu: float


def all_gpus(cudadent: Path) -> dict[str, Pipes]:
    """In the table's order, by name ("l4")."""
    printed = subprocess.run(
        [str(cudadent), "doctor", "--devices", "--json"], check=True, capture_output=True, text=True, timeout=60
    )
    table = {}
    for gpu in json.loads(printed.stdout)["devices"]:
        rates = gpu["per_clock_and_sm"]
        table[gpu["id"]] = Pipes(
            architecture=gpu["architecture"],
            hmma_16816_f32=gpu["mma_sync_clocks"]["value"],
            transcendental=rates["transcendental"]["clocks_a_warp"],
            fp32=rates["fp32_multiply_add"]["clocks_a_warp"],
            alu=rates["int32_logic"]["clocks_a_warp"],
        )
    return table
