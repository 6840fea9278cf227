"""Command line: arguments -> jobs -> rows -> verdicts -> exit code."""

from __future__ import annotations

import argparse
import json
import math
import os
import sys
from collections.abc import Callable, Sequence

from .cells import DTYPES, all_cells, select
from .ctypes_side import CLibrary
from .implementation import Implementation, NotAvailable
from .intervals import FULL_LOOKS, QUICK_LOOKS
from .limits import SHARED_TILES, find_meter
from .peers import BEFORE, PEER_NAMES, make_peer
from .runner import Job, Row, Runner, make_jobs
from .sampling import SamplingPolicy
from .targets import EXIT_CODES, EXIT_USAGE, THREADS, Outcome, goal_verdicts, must_verdicts, overall

EXIT_INTERRUPTED = 130
PACKAGE_NAME = "flashmoe_science"  # other sides (ctypes) are not a Python call as a user makes it

EPILOG = """\
--check: the musts are the prefill means, 1.1 in every prefill cell and in every fp16 decode cell, and for biases,
padding, masks, mixed lengths and the cells against vLLM what was reached before; what is aimed at there, and 1.1 in
bf16 decode cells, are goals: printed, and never in the exit code.
exit codes: 0 done (--check: every must holds), 1 a must fails or a result is wrong, 2 usage, 3 inconclusive,
130 interrupted (what was measured is still reported; with --check: 3).
cells are named <kind>.b<B>h<H>s<S>d<D>[.causal][.gqa4][.window128][.sinks][.shared]; --list prints them.
"""


def _list_of(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]


def _choices(allowed: Sequence[str]) -> Callable[[str], list[str]]:
    def parse(text: str) -> list[str]:
        chosen = _list_of(text)
        for name in chosen:
            if name not in allowed:
                raise argparse.ArgumentTypeError(f"{name!r} is not one of {', '.join(allowed)}")
        return chosen

    return parse


def _thread_counts(text: str) -> list[int]:
    try:
        counts = [int(part) for part in _list_of(text)]
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{text!r} is not a list of numbers") from error
    available = os.cpu_count() or 1
    for count in counts:
        if not 1 <= count <= available:
            raise argparse.ArgumentTypeError(f"{count} threads: this machine has {available}")
    return counts


def parser() -> argparse.ArgumentParser:
    result = argparse.ArgumentParser(
        prog="python -m flashmoe_science.bench",
        description="Times the attention library against torch's scaled_dot_product_attention and other peers, "
        "interleaved in one process, each cell only after its result was checked.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    result.add_argument("--check", action="store_true", help="judge the musts; fp16 and bf16 unless --dtypes says else")
    result.add_argument("--margin", type=float, default=1.0, metavar="F",
                        help="with --check: judge the musts with every threshold times F; for a gate on a shared "
                        "machine, whose tile unit comes and goes with its neighbours; default: %(default)s")
    result.add_argument("--quick", action="store_true", help="one short look per cell: a glance, with wide intervals")
    result.add_argument("--cells", type=_list_of, action="extend", default=[], metavar="PATTERN,...",
                        help="only cells whose name contains, or matches with wildcards, one of these")
    result.add_argument("--dtypes", type=_choices(DTYPES), metavar="|".join(DTYPES), help="default: all three")
    result.add_argument("--threads", type=_thread_counts, metavar="N,...", help="default: 1,2")
    result.add_argument("--peers", type=_choices(PEER_NAMES), metavar=",".join(PEER_NAMES),
                        help="whom to run against; default: torch, and vllm where its wheel is installed")
    result.add_argument("--impl", default="package", metavar="package|ctypes:PATH|torch",
                        help="our side: the installed package, a libflashmoe.so by itself, or torch again (an A/A test "
                        "of this program: every ratio should be 1)")
    result.add_argument("--before", metavar="PATH", help="another build of libflashmoe.so as the peer: what a change "
                        "costs or gains; our side best --impl ctypes:PATH, then nothing but the library differs")
    result.add_argument("--seconds", type=float, default=4.0, metavar="S",
                        help="begin no further look at a cell after this long; default: %(default)s")
    result.add_argument("--precision", type=float, metavar="P",
                        help="go on until the interval's relative width is below P (within --seconds); default: 0.05, "
                        "with --check or --quick only until it is clear of the threshold")
    result.add_argument("--limits", metavar="PATH", help="libflashmoe_machine_limits.so; default: beside this package, "
                        "or FLASHMOE_MACHINE_LIMITS")
    result.add_argument("--onednn", metavar="PATH", help="libdnnl.so of oneDNN 3, for the peer onednn; default: "
                        "the Python environment's, or FLASHMOE_ONEDNN")
    result.add_argument("--memory", action="store_true", help="also measure the peak extra memory of one large call")
    result.add_argument("--json", metavar="FILE", help="write everything as JSON; -: to stdout, the table to stderr")
    result.add_argument("--plot", metavar="FILE", help="draw the ratios (.png, .svg or .pdf; needs matplotlib)")
    result.add_argument("--list", action="store_true", help="print the cells' names and stop")
    return result  # fmt: skip


def make_ours(spec: str) -> Implementation:
    from .torch_side import Package, TorchSdpa

    if spec == "package":
        return Package()
    if spec == "torch":
        return TorchSdpa()
    if spec.startswith("ctypes:"):
        return CLibrary(spec.removeprefix("ctypes:"))
    raise NotAvailable(f"--impl {spec}: give package, ctypes:<path of libflashmoe.so> or torch")


def policy_for(options: argparse.Namespace) -> SamplingPolicy:
    precision = options.precision
    if precision is None:
        precision = math.inf if options.check or options.quick else 0.05
    if options.quick:
        return SamplingPolicy(
            QUICK_LOOKS, sample_seconds=1e-3, budget_seconds=min(1.0, options.seconds), precision=precision
        )
    return SamplingPolicy(FULL_LOOKS, budget_seconds=options.seconds, precision=precision)


def main(arguments: Sequence[str] | None = None) -> int:
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    options = parser().parse_args(arguments)
    cells = select(all_cells(), options.cells)
    if options.list:
        print("\n".join(cell.name for cell in cells))
        return 0
    if not cells:
        print(f"--cells {','.join(options.cells)} matches no cell; --list prints their names", file=sys.stderr)
        return EXIT_USAGE
    try:
        ours = make_ours(options.impl)
        peers = [make_peer(name, options.onednn) for name in options.peers or ([] if options.before else ["torch"])]
        if options.before:
            peers.append(CLibrary(options.before, name=BEFORE))
    except NotAvailable as error:
        print(error, file=sys.stderr)
        return EXIT_USAGE
    absent = []
    if options.peers is None and not options.before:
        try:
            peers.append(make_peer("vllm"))
        except NotAvailable as error:
            absent.append(str(error))
    meter, reason = find_meter(options.limits)
    if meter is None:
        print(reason, file=sys.stderr)
        if options.limits:
            return EXIT_USAGE
    dtypes = options.dtypes or (["fp16", "bf16"] if options.check else list(DTYPES))
    threads = options.threads or [count for count in THREADS if count <= (os.cpu_count() or 1)]
    jobs = make_jobs(cells, dtypes, threads, peers)
    if not jobs:
        print("nothing to measure with these options: no cell fits the peers and thread counts", file=sys.stderr)
        return EXIT_USAGE
    runner = Runner(ours, policy_for(options), meter)
    return measure_and_report(options, arguments, ours, runner, jobs, dtypes[0], threads, absent)


def measure_and_report(
    options: argparse.Namespace,
    arguments: Sequence[str],
    ours: Implementation,
    runner: Runner,
    jobs: Sequence[Job],
    memory_dtype: str,
    threads: Sequence[int],
    absent: Sequence[str],
) -> int:
    from . import memory, report
    from .torch_side import torch_has_fp16_tiles

    rows: list[Row] = []
    memory_figures = None
    complete = False
    try:
        runner.run(jobs, rows, second_pass=options.check)
        if options.memory:
            memory_figures = memory.measure(ours, memory_dtype, max(threads))
        complete = True
    except KeyboardInterrupt:
        print(f"\ninterrupted after {len(rows)} of {len(jobs)} rows; reporting those", file=sys.stderr)
    measured = [row.measured() for row in rows]
    peers = list(dict.fromkeys(job.peer.name for job in jobs))
    musts = must_verdicts(measured, options.margin, torch_has_fp16_tiles(), peers) if options.check else []
    verdicts = musts + goal_verdicts(measured, python_calls=ours.name == PACKAGE_NAME)
    out = sys.stderr if options.json == "-" else sys.stdout
    print(report.table(rows, ours, absent), file=out)
    print(file=out)
    for verdict in verdicts:
        print(report.verdict_text(verdict), file=out)
    if memory_figures is not None:
        print(memory.text(memory_figures), file=out)
    if options.json:
        document = json.dumps(report.as_json(rows, ours, verdicts, memory_figures, arguments, complete), indent=1)
        if options.json == "-":
            print(document)
        else:
            with open(options.json, "w", encoding="utf-8") as file:
                file.write(document + "\n")
    if options.plot:
        try:
            from . import plot

            plot.save(rows, ours, options.plot)
        except ImportError as error:
            print(f"--plot: {error}; pip install matplotlib", file=sys.stderr)
    if options.check:
        outcome = overall(musts)
        if outcome is Outcome.FAILS and ours.isa not in ("", "amx") and not any(row.wrong for row in rows):
            print("the musts are stated for a machine with AMX, which this one is not", file=out)
            outcome = Outcome.INCONCLUSIVE
        tiles = runner.tile_rates
        print(tiles.text(), file=out)
        if outcome is Outcome.FAILS and (tiles.share or 1.0) < SHARED_TILES and not any(row.wrong for row in rows):
            print("somebody else uses the tile unit too: the musts cannot be judged now", file=out)
            outcome = Outcome.INCONCLUSIVE
        print(f"check: {outcome.value}", file=out)
        return EXIT_CODES[outcome]
    if not complete:
        return EXIT_INTERRUPTED
    return 1 if any(row.wrong for row in rows) else 0
