"""Static tensor use of our main loops on every GPU of the table: what the planner's tuning policies rest on.

    python3 bench/peers/loop_shares.py [--build build/release] [--nvdisasm PATH] [--json]

For each GPU the fp16 kernels of one head size, by rows of a tile, read from the cubins of its architecture and walked
with its pipes (tensor_use.py). Static, of one warp alone: an upper bound, and no GPU ran anything.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

import gpu_pipes
from compare import find_nvdisasm
from executed import CannotRunError
from peer_builds import ROOT
from sass import disassemble
from tensor_use import main_loop

TILES = {16: "decode", 32: "small", 64: "large", 128: "wide"}


def shares(build: Path, nvdisasm: str, head_dim: int) -> dict[str, dict[int, float]]:
    """By GPU, then by rows of a tile."""
    cudadent = build / "bin" / "cudadent"
    images = build / "src" / "kernels" / "cuda" / "images"
    found: dict[str, dict[int, float]] = {}
    for gpu, clocks in gpu_pipes.all_gpus(cudadent).items():
        for rows, tile in TILES.items():
            name = f"forward_f16_d{head_dim}_{tile}"
            cubin = images / f"{name}.{clocks.architecture}.cubin"
            if not cubin.exists():
                raise CannotRunError(f"{cubin} is not there: build the target flashmoe")
            (function,) = (one for one in disassemble(nvdisasm, cubin) if one.name == name)
            loop = main_loop(function, clocks)
            if loop is None:
                raise CannotRunError(f"{cubin} has no main loop that could be read")
            found.setdefault(gpu, {})[rows] = loop.tensor_use
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=Path, default=ROOT / "build" / "release")
    parser.add_argument("--nvdisasm")
    parser.add_argument("--head-dim", type=int, default=64)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    try:
        found = shares(options.build, find_nvdisasm(options.nvdisasm), options.head_dim)
    except CannotRunError as error:
        print(f"loop_shares: {error}", file=sys.stderr)
        return 4
    if options.json:
        print(json.dumps(found, indent=2))
    else:
        print(f"{'rows of a tile':10}" + "".join(f"{rows:>8}" for rows in TILES))
        for gpu, by_rows in found.items():
            print(f"{gpu:14}" + "".join(f"{share:>8.1%}" for share in by_rows.values()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
