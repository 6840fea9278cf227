"""What compiling the kernels costs: runs the build's own commands again, in a directory of its own.

    image_build_test.py BUILD_DIR [--all] [--json]

Judged in processor time, because a shared machine's wall time is somebody else's too: an instance (its PTX and one
cubin) takes at most 2 s and 0.3 GB; the images of one architecture at most 60 s on 2 cores, those of all at most
5 minutes. Also compares the code of two instances with that of their twins with line information: it must be the same.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shlex
import struct
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

CORES = 2
SECONDS_PER_INSTANCE = 2.0
BYTES_PER_INSTANCE = 0.3e9
SECONDS_ONE_ARCHITECTURE = 60.0
SECONDS_ALL = 300.0
TWINS = ("forward_f16_d64_large", "forward_bf16_d128_decode_paged")


@dataclass
class Cost:
    seconds: float = 0.0  # of processors: the PTX and the dearest cubin
    rss_bytes: int = 0
    cubins: dict[str, float] = field(default_factory=dict)


def build_commands(build: Path, target: str) -> list[str]:
    listed = subprocess.run(
        ["ninja", "-C", str(build), "-t", "commands", target], check=True, capture_output=True, text=True
    ).stdout.splitlines()
    return [line for line in listed if "/images/" in line and ("-arch=" in line or "/portable_ptx " in line)]


@dataclass(frozen=True)
class Instance:
    name: str
    commands: tuple[str, str, str]  # its PTX, that for older drivers, one of its cubins


def commands_by_name(ptx: list[str], portable: list[str], cubins: list[str]) -> list[Instance]:
    def name_of(command: str) -> str:
        return Path(shlex.split(command)[-1]).name.split(".")[0]

    first_cubin = {name_of(command): command for command in reversed(cubins)}
    by_name = {name_of(command): command for command in portable}
    return [
        Instance(name, (command, by_name[name], first_cubin[name])) for command in ptx for name in [name_of(command)]
    ]


def run_measured(command: str) -> tuple[float, int]:
    """Processor seconds and peak memory of a command and its children, the compiler's and not the cache's."""
    compiles = re.sub(r"\S*cmake -DCACHE=.*CachedCommand\.cmake -- ", "", command)
    process = subprocess.Popen(["bash", "-c", compiles], stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    assert process.stdout is not None
    output = process.stdout.read()
    _, status, usage = os.wait4(process.pid, 0)
    if status != 0:
        sys.exit(f"failed: {command}\n{output.decode(errors='replace')}")
    return usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024


def text_sections(cubin: bytes) -> dict[str, bytes]:
    """The code of a cubin, by section name (64-bit ELF)."""
    section_table, entry_size, count, names_index = struct.unpack_from("<Q", cubin, 0x28)[0], *struct.unpack_from(
        "<HHH", cubin, 0x3A
    )
    headers = [struct.unpack_from("<IIQQQQIIQQ", cubin, section_table + i * entry_size) for i in range(count)]
    names = headers[names_index][4]
    sections = {}
    for header in headers:
        start = names + header[0]
        name = cubin[start : cubin.index(b"\0", start)].decode()
        if name.startswith(".text."):
            sections[name] = cubin[header[4] : header[4] + header[5]]
    return sections


def compare_twins(build: Path) -> list[str]:
    images = build / "src/kernels/cuda/images"
    problems = []
    for name in TWINS:
        twin = images / "lineinfo" / f"{name}.sm_89.cubin"
        subprocess.run(["ninja", "-C", str(build), str(twin.relative_to(build))], check=True, capture_output=True)
        shipped = (images / f"{name}.sm_89.cubin").read_bytes()
        if text_sections(shipped) != text_sections(twin.read_bytes()):
            problems.append(f"{name}: the twin with line information has other code")
        if b".debug_line" in shipped:
            problems.append(f"{name}: the shipped cubin carries line information")
    return problems


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=Path)
    parser.add_argument("--all", action="store_true", help="every architecture of the build, not only sm_89")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    build = options.build.resolve()

    commands = build_commands(build, "cuda_images")
    ptx = [c for c in commands if "-arch=compute_" in c]
    portable = [c for c in commands if "/portable_ptx " in c]
    cubins = [c for c in commands if "-arch=sm_" in c and (options.all or "-arch=sm_89" in c)]
    if not ptx or not cubins:
        print("the build has no commands for sm_89 images", file=sys.stderr)
        return 1
    images = str(build / "src/kernels/cuda/images")
    costs: defaultdict[str, Cost] = defaultdict(Cost)
    total = 0.0
    with tempfile.TemporaryDirectory() as scratch:
        (Path(scratch) / "compiled").mkdir()

        def measure(command: str) -> tuple[str, str, float, int]:
            seconds, rss = run_measured(command.replace(images, scratch))
            output = shlex.split(command)[-1]
            name, architecture = re.fullmatch(r".*/([^/.]+)\.(ptx|sm_\d+\.cubin)", output).groups()  # type: ignore[union-attr]
            return name, architecture, seconds, rss

        begin = time.monotonic()
        done = 0
        for stage in (ptx, portable, cubins):
            with ThreadPoolExecutor(CORES) as pool:
                for name, kind, seconds, rss in pool.map(measure, stage):
                    cost = costs[name]
                    cost.rss_bytes = max(cost.rss_bytes, rss)
                    if kind == "ptx":
                        cost.seconds += seconds
                    else:
                        cost.cubins[kind] = seconds
                    total += seconds
                    done += 1
                    if done % 24 == 0:
                        print(f"{done} of {len(ptx) + len(portable) + len(cubins)} commands", file=sys.stderr)
        wall = time.monotonic() - begin
        for cost in costs.values():
            cost.seconds += max(cost.cubins.values())
        # A neighbour on the machine only adds to a time: what is over the limit is measured again, alone.
        for instance in commands_by_name(ptx, portable, cubins):
            cost = costs[instance.name]
            for _ in range(3):
                if cost.seconds <= SECONDS_PER_INSTANCE:
                    break
                again = sum(run_measured(command.replace(images, scratch))[0] for command in instance.commands)
                cost.seconds = min(cost.seconds, again)

    problems = compare_twins(build)
    for name, cost in costs.items():
        if cost.seconds > SECONDS_PER_INSTANCE:
            problems.append(f"{name}: {cost.seconds:.2f} s of processor time, allowed {SECONDS_PER_INSTANCE}")
        if cost.rss_bytes > BYTES_PER_INSTANCE:
            problems.append(f"{name}: {cost.rss_bytes / 1e9:.2f} GB, allowed {BYTES_PER_INSTANCE / 1e9}")
    allowed = SECONDS_ALL if options.all else SECONDS_ONE_ARCHITECTURE
    if total / CORES > allowed:
        problems.append(f"all images: {total / CORES:.0f} s on {CORES} cores, allowed {allowed:.0f}")
    dearest = max(costs, key=lambda name: costs[name].seconds)
    figures = {
        "instances": len(costs),
        "cubins": len(cubins),
        "processor_seconds": round(total, 1),
        "seconds_on_2_cores": round(total / CORES, 1),
        "wall_seconds_here": round(wall, 1),
        "instances_within_limit": sum(cost.seconds <= SECONDS_PER_INSTANCE for cost in costs.values()),
        "dearest_instance": dearest,
        "dearest_seconds": round(costs[dearest].seconds, 2),
        "most_memory_gb": round(max(cost.rss_bytes for cost in costs.values()) / 1e9, 3),
        "problems": problems,
    }
    if options.json:
        print(json.dumps(figures, indent=1))
    else:
        for key, value in figures.items():
            print(f"{key}: {value}")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
