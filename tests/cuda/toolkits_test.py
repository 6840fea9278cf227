"""The shipped PTX and the device code under the assemblers and runtime compilers of CUDA 12.0 to 13.

    toolkits_test.py BUILD_DIR [--all]

Every shipped PTX says a version that CUDA 12.0 knows, and assembles with each ptxas for each architecture that it
knows; the newest one spills nothing. NVRTC of each compiles the device code, and what it makes becomes PTX for ptxas
12.0. Without --all, two kernels and three architectures.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from toolkits import ARCHITECTURES, NEWEST, WHEELS, CompileError, Toolkit, instance_options, kernel_options, toolkit

ROOT = Path(__file__).resolve().parents[2]
FEW_KERNELS = ("forward_f16_d64_decode", "merge_states")
FEW_ARCHITECTURES = (80, 90, 120)
FEW_INSTANCES = (("BFloat16", 64, "decode", 1, 1),)
ALL_INSTANCES = (
    ("BFloat16", 64, "decode", 1, 1),
    ("Half", 128, "large", 0, 0),
    ("Half", 48, "small", 1, 0),
    ("BFloat16", 128, "wide", 0, 0),
    ("Half", 256, "large", 0, 1),
)
CORES = 2


def version_of(ptx: str) -> tuple[int, int]:
    found = re.search(r"^\.version (\d+)\.(\d+)$", ptx, re.MULTILINE)
    return (int(found[1]), int(found[2])) if found else (99, 0)


def assembled(one: Toolkit, ptx: Path, architecture: int, scratch: Path) -> str:
    """A complaint, or nothing."""
    options = (
        ("--warn-on-spills", "--warn-on-local-memory-usage", "--warning-as-error") if one.version == NEWEST else ()
    )
    cubin = scratch / f"{ptx.stem}.{one.version}.sm_{architecture}.cubin"
    done = one.assemble(ptx, architecture, cubin, *options)
    cubin.unlink(missing_ok=True)
    return "" if done.returncode == 0 else f"ptxas {one.version}, sm_{architecture}, {ptx.name}: {done.stderr[:400]}"


def compiled(
    one: Toolkit, portable: Path, oldest: Toolkit, instance: tuple[str, int, str, int, int] | None, scratch: Path
) -> str:
    """An instance, or without one the merge; a complaint, or nothing."""
    name = "_".join(["jit", *map(str, instance)]) if instance else "jit_merge_states"
    source = ROOT / "src/kernels/cuda" / ("instance.cu" if instance else "merge.cu")
    options = instance_options(ROOT / "src", name, *instance) if instance else kernel_options(ROOT / "src")
    try:
        text = one.compile(source, options)
    except CompileError as problem:
        return f"NVRTC {one.version}, {name}: {str(problem)[:400]}"
    made, ptx = scratch / f"{name}.{one.version}.made.ptx", scratch / f"{name}.{one.version}.ptx"
    made.write_text(text)
    subprocess.run([str(portable), str(made), str(ptx)], check=True)
    return assembled(oldest, ptx, 80, scratch)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=Path)
    parser.add_argument("--all", action="store_true")
    options = parser.parse_args()
    images = options.build / "src/kernels/cuda/images"
    kernels = sorted(images.glob("*.ptx")) if options.all else [images / f"{name}.ptx" for name in FEW_KERNELS]
    listed = (ROOT / "src/kernels/cuda/instances.def").read_text()
    shipped = len(re.findall(r"^FMS_(?:VALUES_)?INSTANCE\(", listed, re.MULTILINE)) + 1  # and the merge
    if options.all and len(kernels) != shipped:
        print(f"{len(kernels)} PTX files for {shipped} kernels: build the target cuda_images", file=sys.stderr)
        return 1
    problems = [
        f"{ptx.name} says .version {version_of(ptx.read_text())}, newer than CUDA 12.0's 8.0"
        for ptx in kernels
        if version_of(ptx.read_text()) > (8, 0)
    ]
    toolkits = [toolkit(version) for version in WHEELS]
    wanted = ARCHITECTURES if options.all else FEW_ARCHITECTURES
    portable = options.build / "src/kernels/cuda/jit/portable_ptx"
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(CORES) as pool:
        scratch = Path(folder)
        known = {one.version: [sm for sm in wanted if one.knows(sm)] for one in toolkits}
        for one in toolkits:
            if not set(known[one.version]) >= {sm for sm in wanted if sm <= 90}:
                problems.append(f"ptxas {one.version} knows only {known[one.version]}")
        work = [(one, ptx, sm, scratch) for one in toolkits for ptx in kernels for sm in known[one.version]]
        problems += [said for said in pool.map(lambda item: assembled(*item), work) if said]
        instances = (*(ALL_INSTANCES if options.all else FEW_INSTANCES), None)
        compilations = [(one, portable, toolkits[0], instance, scratch) for one in toolkits for instance in instances]
        problems += [said for said in pool.map(lambda item: compiled(*item), compilations) if said]
    for one in toolkits:
        print(f"CUDA {one.version}: {len(kernels)} kernels for {known[one.version]}, {len(instances)} by NVRTC")
    print(f"{len(work)} cubins, {len(compilations)} compilations, {len(problems)} problems")
    for problem in problems:
        print(problem, file=sys.stderr)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
