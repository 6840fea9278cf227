"""Is the library as exact as PyTorch? Random problems over all features, on every ISA of this machine.

For each problem the fp64 oracle and PyTorch answer once, and every ISA is compared with both. Held are, per ISA:

* set      for each dtype, the RMS error against the oracle over all problems is at most 1.2 x PyTorch's own. Also with
           each problem's errors divided by the RMS of its result, so that no problem drowns in another.
* problem  on every single problem the RMS error is at most 2 x PyTorch's. Where PyTorch was lucky (its error is zero,
           or below what rounding alone makes of an exact result) the comparison is with that rounding error instead:
           the RMS of round_to_dtype(oracle) - oracle on the same problem. Nobody who returns this dtype can do better.
* lse      within 1e-4 of the oracle; rows without keys are exactly 0 and -inf (or the sink).
* max      fp16 on N(0,1) inputs: the largest difference to the oracle is below 0.01.

PyTorch is scaled_dot_product_attention where that has the feature (masks, bias, GQA by repetition), else (softcap,
sinks) the same formula in eager PyTorch; both in the problem's dtype.

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
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

SET_LIMIT, PROBLEM_LIMIT, LSE_LIMIT, FP16_MAX_LIMIT = 1.2, 2.0, 1e-4, 0.01
ROOT = Path(__file__).resolve().parents[2]


@dataclass
class IsaError:
    """One ISA on one problem."""

    squared: float = 0.0
    largest: float = 0.0
    lse: float = 0.0
    complaint: str = ""


@dataclass
class Record:
    """One problem."""

    index: int
    dtype: str
    plain_normal: bool
    summary: str
    elements: int = 0
    result_squared: float = 0.0
    torch_squared: float = 0.0
    rounding_squared: float = 0.0
    isas: dict[str, IsaError] = field(default_factory=dict)

    def rms(self, squared: float) -> float:
        return math.sqrt(squared / max(self.elements, 1))

    def ratio(self, isa: str) -> float:
        """RMS error in units of PyTorch's, or of the rounding error where PyTorch was luckier than that."""
        baseline = max(self.torch_squared, self.rounding_squared)
        mine = self.isas[isa].squared
        return math.sqrt(mine / baseline) if baseline > 0 else (0.0 if mine == 0 else math.inf)


class Comparer:
    """Lives in a worker process: the libraries, loaded once."""

    def __init__(self, library: str, oracle: str, isas: list[str], seed: int) -> None:
        import fms_abi
        import torch

        torch.set_num_threads(1)
        self.oracle = fms_abi.Oracle(Path(oracle))
        self.libraries = {isa: fms_abi.Library(Path(library), isa) for isa in isas}
        self.seed = seed

    def compare(self, index: int) -> Record:
        import fms_abi
        import random_attention
        import torch

        one = random_attention.draw(self.seed, index)
        p = one.problem
        shape = (int(p.batch), int(p.q_heads), int(p.q_len), int(p.head_dim))
        oracle_o = torch.full(shape, math.nan, dtype=torch.float64)
        oracle_lse = torch.full(shape[:3], math.nan, dtype=torch.float64)
        self.oracle.attention(p, one.args, oracle_o.data_ptr(), oracle_lse.data_ptr())

        record = Record(index, one.dtype, one.plain_normal, one.summary())
        sees_a_key = [one.visible(b).any(dim=1) for b in range(shape[0])]
        expected_o = [oracle_o[b, :, : rows.numel()] for b, rows in enumerate(sees_a_key)]
        expected_lse = [oracle_lse[b, :, : rows.numel()] for b, rows in enumerate(sees_a_key)]
        for b, rows in enumerate(sees_a_key):
            expected = expected_o[b][:, rows]
            rounded = expected.to(random_attention.TORCH_DTYPES[one.dtype]).double()
            record.elements += expected.numel()
            record.result_squared += float(expected.square().sum())
            record.rounding_squared += float((rounded - expected).square().sum())
            torch_o = random_attention.torch_attention(one, b)[:, rows].double()
            record.torch_squared += float((torch_o - expected).square().sum())
        for isa, library in self.libraries.items():
            one.o.fill_(math.nan)
            one.lse.fill_(math.nan)
            result = record.isas[isa] = IsaError()
            try:
                library.attention(p, one.args, one.threads)
            except fms_abi.FlashmoeError as error:
                result.complaint = str(error)
                continue
            for b, rows in enumerate(sees_a_key):
                self._add(result, *one.output_of(b), expected_o[b], expected_lse[b], rows)
        return record

    @staticmethod
    def _add(result: IsaError, o: Any, lse: Any, expected_o: Any, expected_lse: Any, rows: Any) -> None:
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
        lse_holds = (empty_lse == empty_expected) | ((empty_lse - empty_expected).abs() <= LSE_LIMIT)
        if bool((o[:, ~rows] != 0).any()) or not bool(lse_holds.all()):
            result.complaint = "a row without keys is not 0 and -inf (or the sink)"


_comparer: Comparer | None = None


def _start_worker(library: str, oracle: str, isas: list[str], seed: int) -> None:
    global _comparer
    _comparer = Comparer(library, oracle, isas, seed)


def _compare(index: int) -> Record:
    assert _comparer is not None
    return _comparer.compare(index)


@dataclass
class Row:
    """One line of the table: an ISA in a dtype."""

    isa: str
    dtype: str
    problems: int
    rms: float
    torch_rms: float
    set_ratio: float
    relative_set_ratio: float
    worst_problem_ratio: float
    worst_problem: str
    lse_error: float
    worst_lse_problem: str
    fp16_normal_max_diff: float | None
    failures: list[str] = field(default_factory=list)


def judge(records: list[Record], isa: str, dtype: str) -> Row:
    mine = [r for r in records if r.dtype == dtype and r.elements > 0]
    elements = sum(r.elements for r in mine)
    rms = math.sqrt(sum(r.isas[isa].squared for r in mine) / elements)
    torch_rms = math.sqrt(sum(r.torch_squared for r in mine) / elements)
    relative = sum(r.isas[isa].squared / r.result_squared for r in mine)
    torch_relative = sum(r.torch_squared / r.result_squared for r in mine)
    worst = max(mine, key=lambda r: r.ratio(isa))
    worst_lse = max(mine, key=lambda r: r.isas[isa].lse)
    plain = [r.isas[isa].largest for r in mine if r.plain_normal]
    row = Row(
        isa=isa,
        dtype=dtype,
        problems=len(mine),
        rms=rms,
        torch_rms=torch_rms,
        set_ratio=rms / torch_rms,
        relative_set_ratio=math.sqrt(relative / torch_relative),
        worst_problem_ratio=worst.ratio(isa),
        worst_problem=f"problem {worst.index}: {worst.summary}",
        lse_error=worst_lse.isas[isa].lse,
        worst_lse_problem=f"problem {worst_lse.index}: {worst_lse.summary}",
        fp16_normal_max_diff=max(plain, default=0.0) if dtype == "fp16" else None,
    )
    row.failures += [f"problem {r.index}: {r.isas[isa].complaint} ({r.summary})" for r in mine if r.isas[isa].complaint]
    if not row.set_ratio <= SET_LIMIT:
        row.failures.append(f"RMS over the set is {row.set_ratio:.3f} x PyTorch's, allowed {SET_LIMIT}")
    if not row.relative_set_ratio <= SET_LIMIT:
        row.failures.append(
            f"relative RMS over the set is {row.relative_set_ratio:.3f} x PyTorch's, allowed {SET_LIMIT}"
        )
    for r in mine:
        if not r.ratio(isa) <= PROBLEM_LIMIT:
            row.failures.append(f"problem {r.index} is {r.ratio(isa):.2f} x PyTorch's RMS, allowed 2 ({r.summary})")
    if not row.lse_error <= LSE_LIMIT:
        row.failures.append(
            f"lse is {row.lse_error:.2e} from the oracle, allowed {LSE_LIMIT} ({row.worst_lse_problem})"
        )
    if row.fp16_normal_max_diff is not None and not row.fp16_normal_max_diff < FP16_MAX_LIMIT:
        row.failures.append(f"max_diff on N(0,1) is {row.fp16_normal_max_diff:.4f}, allowed below {FP16_MAX_LIMIT}")
    return row


def print_table(rows: list[Row], seconds: float) -> None:
    print("RMS error against the fp64 oracle, measured on this machine; x: in units of PyTorch's own")
    print(
        f"{'isa':8}{'dtype':7}{'problems':>9}{'RMS':>11}{'torch RMS':>11}{'set x':>8}{'rel. x':>8}"
        f"{'worst x':>9}{'lse':>10}{'max_diff':>10}  holds"
    )
    for row in rows:
        max_diff = "" if row.fp16_normal_max_diff is None else f"{row.fp16_normal_max_diff:.5f}"
        print(
            f"{row.isa:8}{row.dtype:7}{row.problems:9}{row.rms:11.3e}{row.torch_rms:11.3e}{row.set_ratio:8.3f}"
            f"{row.relative_set_ratio:8.3f}{row.worst_problem_ratio:9.2f}{row.lse_error:10.1e}{max_diff:>10}"
            f"  {'no' if row.failures else 'yes'}"
        )
    for row in rows:
        for failure in row.failures[:10]:
            print(f"{row.isa} {row.dtype}: {failure}")
        if len(row.failures) > 10:
            print(f"{row.isa} {row.dtype}: and {len(row.failures) - 10} more")
    print(f"{seconds:.0f} s")


def available_isas(library: Path) -> list[str]:
    import fms_abi

    names = []
    for isa in fms_abi.ISAS:
        try:
            fms_abi.Library(library, isa)
        except fms_abi.FlashmoeError:
            continue
        names.append(isa)
    return names


def parse_arguments() -> argparse.Namespace:
    description = (__doc__ or "").split("\n\n")
    parser = argparse.ArgumentParser(description=description[0], epilog=description[-1])
    parser.add_argument("--problems", type=int, default=2000, help="random problems, a third in each dtype (2000)")
    parser.add_argument("--first", type=int, default=0, help="index of the first problem, to replay one")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--isa", action="append", help="only this ISA; may be repeated (default: all of this machine)")
    build_dir = ROOT / "build/release"
    parser.add_argument("--build-dir", type=Path, default=build_dir, help="where CMake built (build/release)")
    parser.add_argument("--library", type=Path, help="libflashmoe.so (default: from the build directory)")
    parser.add_argument("--oracle", type=Path, help="libfms_oracle.so (default: from the build directory)")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--json", action="store_true", help="print JSON instead of the table")
    arguments = parser.parse_args()
    arguments.library = arguments.library or arguments.build_dir / "src" / "libflashmoe.so"
    arguments.oracle = arguments.oracle or arguments.build_dir / "src/kernels/reference/libfms_oracle.so"
    if arguments.problems < 3:
        parser.error("--problems must be at least 3: one in each dtype")
    return arguments


def compare_all(arguments: argparse.Namespace, isas: list[str]) -> list[Record]:
    # Spinning OpenMP threads of two processes would starve each other.
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")
    context = multiprocessing.get_context("spawn")  # torch does not survive a fork
    start = (str(arguments.library), str(arguments.oracle), isas, arguments.seed)
    records: list[Record] = []
    begin = said = time.monotonic()
    with context.Pool(arguments.processes, initializer=_start_worker, initargs=start) as pool:
        indices = range(arguments.first, arguments.first + arguments.problems)
        for record in pool.imap_unordered(_compare, indices, chunksize=4):
            records.append(record)
            now = time.monotonic()
            if now - said >= 10 or len(records) == arguments.problems:
                said = now
                print(f"{len(records)}/{arguments.problems} problems, {now - begin:.0f} s", file=sys.stderr)
    return sorted(records, key=lambda record: record.index)


def main() -> int:
    arguments = parse_arguments()
    for path in (arguments.library, arguments.oracle):
        if not path.exists():
            print(f"{path} does not exist; build first, or name another place with --build-dir", file=sys.stderr)
            return 3
    try:
        import torch
    except ImportError as error:
        print(f"PyTorch is needed as the baseline: {error}", file=sys.stderr)
        return 3
    isas = arguments.isa or available_isas(arguments.library)
    if not isas:
        print("the library offers no ISA on this machine", file=sys.stderr)
        return 3
    begin = time.monotonic()
    records = compare_all(arguments, isas)
    rows = [judge(records, isa, dtype) for isa in isas for dtype in ("fp16", "bf16", "fp32")]
    if arguments.json:
        report = {"torch": torch.__version__, "seed": arguments.seed, "problems": len(records)}
        print(json.dumps({**report, "rows": [asdict(row) for row in rows]}, indent=1))
    else:
        print_table(rows, time.monotonic() - begin)
    return 1 if any(row.failures for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
