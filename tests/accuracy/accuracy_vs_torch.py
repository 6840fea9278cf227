"""Is the library as exact as PyTorch? Random problems over all features, on every ISA of this machine or on a GPU.

For each problem the fp64 oracle and PyTorch answer once, and every target is compared with both. Held are, per target:

* set      for each dtype, the RMS error against the oracle over all problems is at most 1.2 x PyTorch's own. Also with
           each problem's errors divided by the RMS of its result, so that no problem drowns in another.
* problem  on every single problem the RMS error is at most 2 x PyTorch's. Where PyTorch was lucky (its error is zero,
           or below what rounding alone makes of an exact result) the comparison is with that rounding error instead:
           the RMS of round_to_dtype(oracle) - oracle on the same problem. Nobody who returns this dtype can do better.
* large    one CPU problem in seven has scores of 2^6 to 2^12, half of them over pairs of nearly equal keys. There the
           rounding of fp32 scores decides who gets the weight, and one problem's ratio is chance: the relative 1.2
           holds over all of them together, and they take no part in the lines above.
* lse      within 1e-4 of the oracle (GPU: 1e-3), or 2^-22 of the largest sum of |q k| in the problem where that is
           more; rows without keys are exactly 0 and -inf (or the sink).
* max      on N(0,1) inputs the largest difference to the oracle is below 0.01 in fp16 (GPU: and below 0.03 in bf16).
* checks   on a virtual GPU: every check is on and finds nothing.
* coverage on a GPU, from 600 problems on: the set holds every listed head size and others, lengths 1 to 257, every
           feature in both dtypes, every layout. Two thirds of the problems have their splits or tile forced.

PyTorch is scaled_dot_product_attention where that has the feature (masks, bias, GQA by repetition), else (softcap,
sinks) the same formula in eager PyTorch; both in the problem's dtype, on this machine's CPU.

Exit codes: 0 holds, 1 does not, 2 usage, 3 could not run. The table goes to stdout (--json: JSON), progress to stderr.
"""

from __future__ import annotations

import argparse
import json
import math
import multiprocessing
import os
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import judgement
from judgement import Record, Row, TargetError

if TYPE_CHECKING:  # torch takes seconds to import and may be missing; then main says so
    import torch
    from random_attention import Family

ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Setup:
    """What a worker process needs to begin."""

    library: Path
    oracle: Path
    driver: Path
    device: str
    isas: tuple[str, ...]
    seed: int

    @property
    def is_cpu(self) -> bool:
        return self.device == "cpu"

    @property
    def targets(self) -> tuple[str, ...]:
        return self.isas if self.is_cpu else (self.device,)

    @property
    def limits(self) -> judgement.Limits:
        return judgement.CPU_LIMITS if self.is_cpu else judgement.GPU_LIMITS

    def family(self) -> Family:
        from gpu_problems import GPU_PROBLEMS
        from random_attention import CPU_PROBLEMS

        return CPU_PROBLEMS if self.is_cpu else GPU_PROBLEMS


class Comparer:
    """Lives in a worker process: the libraries, loaded once."""

    def __init__(self, setup: Setup) -> None:
        import fms_abi
        import targets
        import torch

        torch.set_num_threads(1)
        self.setup = setup
        self.oracle = fms_abi.Oracle(setup.oracle)
        self.targets: dict[str, targets.CpuTarget | targets.GpuTarget] = {}
        for name in setup.targets:
            if setup.is_cpu:
                self.targets[name] = targets.CpuTarget(setup.library, name)
            else:
                self.targets[name] = targets.GpuTarget(setup.library, name, setup.driver)

    def compare(self, index: int) -> Record:
        import device_buffer
        import fms_abi
        import gpu_problems
        import random_attention
        import torch

        one = random_attention.draw(self.setup.family(), self.setup.seed, index)
        forced = gpu_problems.draw_forced(one, self.setup.seed, index)
        p = one.problem
        shape = (int(p.batch), int(p.q_heads), int(p.q_len), int(p.head_dim))
        oracle_o = torch.full(shape, math.nan, dtype=torch.float64)
        oracle_lse = torch.full(shape[:3], math.nan, dtype=torch.float64)
        self.oracle.attention(p, one.args, oracle_o.data_ptr(), oracle_lse.data_ptr())

        record = Record(
            index, one.dtype, one.plain_normal, bool(one.large_scores), one.summary(), gpu_problems.traits(one)
        )
        sees_a_key = [one.visible(b).any(dim=1) for b in range(shape[0])]
        expected_o = [oracle_o[b, :, : rows.numel()] for b, rows in enumerate(sees_a_key)]
        expected_lse = [oracle_lse[b, :, : rows.numel()] for b, rows in enumerate(sees_a_key)]
        for b, rows in enumerate(sees_a_key):
            expected = expected_o[b][:, rows]
            rounded = expected.to(random_attention.TORCH_DTYPES[one.dtype]).double()
            record.elements += expected.numel()
            record.largest_terms = max(record.largest_terms, one.largest_terms(b))
            record.result_squared += float(expected.square().sum())
            record.rounding_squared += float((rounded - expected).square().sum())
            torch_o = random_attention.torch_attention(one, b)[:, rows].double()
            record.torch_squared += float((torch_o - expected).square().sum())
        for name, target in self.targets.items():
            one.o.fill_(math.nan)
            one.lse.fill_(math.nan)
            result = record.targets[name] = TargetError()
            try:
                result.how = target.run(one, forced)
            except (fms_abi.FlashmoeError, device_buffer.DriverError) as error:
                result.complaint = str(error)
                continue
            for b, rows in enumerate(sees_a_key):
                self._add(result, *one.output_of(b), expected_o[b], expected_lse[b], rows)
        return record

    def _add(
        self,
        result: TargetError,
        o: torch.Tensor,
        lse: torch.Tensor,
        expected_o: torch.Tensor,
        expected_lse: torch.Tensor,
        rows: torch.Tensor,
    ) -> None:
        difference = o[:, rows].double() - expected_o[:, rows]
        lse_difference = (lse[:, rows].double() - expected_lse[:, rows]).abs()
        if not (bool(difference.isfinite().all()) and bool(lse_difference.isfinite().all())):
            result.complaint = "a result is not finite"
            return
        if difference.numel() > 0:
            result.squared += float(difference.square().sum())
            result.largest = max(result.largest, float(difference.abs().max()))
            result.lse = max(result.lse, float(lse_difference.max()))
        empty_lse, empty_expected = lse[:, ~rows].double(), expected_lse[:, ~rows]
        lse_holds = (empty_lse == empty_expected) | ((empty_lse - empty_expected).abs() <= self.setup.limits.lse)
        if bool((o[:, ~rows] != 0).any()) or not bool(lse_holds.all()):
            result.complaint = "a row without keys is not 0 and -inf (or the sink)"


_comparer: Comparer | None = None


def _start_worker(setup: Setup) -> None:
    global _comparer
    _comparer = Comparer(setup)


def _compare(index: int) -> Record:
    assert _comparer is not None
    return _comparer.compare(index)


def available_isas(library: Path) -> list[str]:
    import fms_abi

    names = []
    for isa in fms_abi.ISAS:
        try:
            fms_abi.Library(library, isa).close()
        except fms_abi.FlashmoeError:
            continue
        names.append(isa)
    return names


def check_gpu(setup: Setup) -> None:
    """Raises what a worker would raise when it begins; the pool would only begin another one."""
    import targets

    targets.GpuTarget(setup.library, setup.device, setup.driver)


def parse_arguments() -> argparse.Namespace:
    description = (__doc__ or "").split("\n\n")
    parser = argparse.ArgumentParser(description=description[0], epilog=description[-1])
    parser.add_argument("--device", default="cpu", help="cpu (default), virtual:<gpu>, cuda:<n>")
    parser.add_argument("--problems", type=int, default=2000, help="random problems, evenly in each dtype (2000)")
    parser.add_argument("--first", type=int, default=0, help="index of the first problem, to replay one")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--isa", action="append", help="only this ISA; may be repeated (default: all of this machine)")
    build_dir = ROOT / "build/release"
    parser.add_argument("--build-dir", type=Path, default=build_dir, help="where CMake built (build/release)")
    parser.add_argument("--library", type=Path, help="libflashmoe.so (default: from the build directory)")
    parser.add_argument("--oracle", type=Path, help="libfms_oracle.so (default: from the build directory)")
    parser.add_argument("--driver", type=Path, help="libvgpu.so (default: from the build directory)")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--json", action="store_true", help="print JSON instead of the table")
    arguments = parser.parse_args()
    arguments.library = arguments.library or arguments.build_dir / "src" / "libflashmoe.so"
    arguments.oracle = arguments.oracle or arguments.build_dir / "src/kernels/reference/libfms_oracle.so"
    arguments.driver = arguments.driver or arguments.build_dir / "src/vgpu/libvgpu.so"
    kind, _, name = arguments.device.partition(":")
    if arguments.device != "cpu" and not (kind in ("virtual", "cuda") and name):
        parser.error(f"--device {arguments.device}: cpu, virtual:<gpu> or cuda:<n>")
    if arguments.device != "cpu" and arguments.isa:
        parser.error("--isa is for --device cpu")
    if arguments.problems < 3:
        parser.error("--problems must be at least 3: one in each dtype")
    return arguments


def compare_all(arguments: argparse.Namespace, setup: Setup) -> list[Record]:
    # Spinning OpenMP threads of two processes would starve each other.
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")
    context = multiprocessing.get_context("spawn")  # torch does not survive a fork
    records: list[Record] = []
    begin = said = time.monotonic()
    with context.Pool(arguments.processes, initializer=_start_worker, initargs=(setup,)) as pool:
        indices = range(arguments.first, arguments.first + arguments.problems)
        for record in pool.imap_unordered(_compare, indices, chunksize=4):
            records.append(record)
            now = time.monotonic()
            if now - said >= 10 or len(records) == arguments.problems:
                said = now
                print(f"{len(records)}/{arguments.problems} problems, {now - begin:.0f} s", file=sys.stderr)
    return sorted(records, key=lambda record: record.index)


def missing_traits(setup: Setup, arguments: argparse.Namespace, records: list[Record]) -> list[str]:
    import gpu_problems

    if setup.is_cpu or arguments.first != 0 or len(records) < gpu_problems.COVERING:
        return []
    return sorted(gpu_problems.wanted_traits() - {trait for record in records for trait in record.traits})


def run(arguments: argparse.Namespace, setup: Setup) -> int:
    import torch

    begin = time.monotonic()
    records = compare_all(arguments, setup)
    rows: list[Row] = []
    for target in setup.targets:
        rows += [judgement.judge(records, target, dtype, setup.limits) for dtype in setup.family().dtypes]
    missing = missing_traits(setup, arguments, records)
    seconds = time.monotonic() - begin
    if arguments.json:
        report = {
            "torch": torch.__version__,
            "device": setup.device,
            "seed": setup.seed,
            "problems": len(records),
            "seconds": round(seconds, 1),
            "not_covered": missing,
            "rows": [asdict(row) for row in rows],
        }
        print(json.dumps(report, indent=1))
    else:
        virtual = setup.device.startswith("virtual:")
        judgement.print_table(rows, "virtual, every check on" if virtual else "measured on this machine", seconds)
        if missing:
            print(f"not covered by the set: {', '.join(missing[:20])}{' ...' if len(missing) > 20 else ''}")
    return 1 if missing or any(row.failures for row in rows) else 0


def main() -> int:
    arguments = parse_arguments()
    needed = [arguments.library, arguments.oracle]
    if arguments.device.startswith("virtual:"):
        needed.append(arguments.driver)
    for path in needed:
        if not path.exists():
            print(f"{path} does not exist; build first, or name another place with --build-dir", file=sys.stderr)
            return 3
    try:
        import device_buffer
        import fms_abi
        import torch  # noqa: F401
    except ImportError as error:
        print(f"PyTorch is needed as the baseline: {error}", file=sys.stderr)
        return 3
    isas: list[str] = []
    if arguments.device == "cpu":
        isas = arguments.isa or available_isas(arguments.library)
        if not isas:
            print("the library offers no ISA on this machine", file=sys.stderr)
            return 3
    setup = Setup(
        arguments.library.resolve(),
        arguments.oracle.resolve(),
        arguments.driver.resolve(),
        arguments.device,
        tuple(isas),
        arguments.seed,
    )
    if not setup.is_cpu:
        try:
            check_gpu(setup)
        except (fms_abi.FlashmoeError, device_buffer.DriverError) as error:
            print(f"{arguments.device} cannot run: {error}", file=sys.stderr)
            return 3
    return run(arguments, setup)


if __name__ == "__main__":
    sys.exit(main())
