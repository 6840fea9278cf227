"""Attention on this machine's CUDA card, side by side: this library's operator, torch's backends, and the flash_attn
and flashinfer packages where they are installed.

    python -m flashmoe_science.card [--problems all|quick] [--limit SECONDS] [--rounds N]

The problems are those of flashmoe_card --time (card_problems.json), and so is the shape of the lines: a JSON object for
each problem and side, with three times in microseconds. ``kernel_us``: calls captured in a CUDA graph, between two
events; ``cold_us``: one call between two events after L2 was overwritten; ``whole_us``: by the host's clock, calls one
after another until the last has ended. Each is a median, with the shortest and the longest round as its spread. What
cannot run a problem says why in ``not_run``.

Exit code 0: every problem was asked of every side; 2: usage; 3: there is no CUDA card for torch, or --limit left
something out.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import importlib
import json
import math
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROUNDS = 7
MOST_CALLS = 200
LEAST_US = 2000.0  # of a graph: far above what an event resolves
SETTLE_S = 0.1
INCOMPLETE = 3

Call = Callable[[], Any]
Line = dict[str, Any]


class NotThereError(Exception):
    """A side that cannot run a problem, and why."""


@dataclass(frozen=True)
class Problem:
    """A row of card_problems.json; fp16."""

    name: str
    quick: bool
    batch: int
    q_heads: int
    kv_heads: int
    q_len: int
    kv_len: int
    head_dim: int
    causal: bool
    page_size: int  # 0: K and V are in one piece

    @property
    def pages_of_sequence(self) -> int:
        return math.ceil(self.kv_len / self.page_size)


def problems() -> list[Problem]:
    table = Path(__file__).with_name("card_problems.json")
    return [Problem(**row) for row in json.loads(table.read_text(encoding="utf-8"))]


@dataclass
class Tensors:
    """q: (batch, heads, rows, dim); k and v likewise, or pages: (pages, heads, page size, dim)."""

    q: Any
    k: Any
    v: Any
    block_table: Any
    kv_lengths: Any


def tensors_of(torch: Any, problem: Problem) -> Tensors:
    generator = torch.Generator(device="cuda").manual_seed(5)

    def normal(*shape: int) -> Any:
        return torch.randn(shape, device="cuda", dtype=torch.float16, generator=generator)

    q = normal(problem.batch, problem.q_heads, problem.q_len, problem.head_dim)
    if problem.page_size == 0:
        shape = (problem.batch, problem.kv_heads, problem.kv_len, problem.head_dim)
        return Tensors(q, normal(*shape), normal(*shape), None, None)
    pages = problem.batch * problem.pages_of_sequence
    shape = (pages, problem.kv_heads, problem.page_size, problem.head_dim)
    # In falling order, as flashmoe_card has them.
    table = torch.arange(pages - 1, -1, -1, device="cuda", dtype=torch.int32).view(problem.batch, -1)
    lengths = torch.full((problem.batch,), problem.kv_len, device="cuda", dtype=torch.int32)
    return Tensors(q, normal(*shape), normal(*shape), table, lengths)


# ---- the sides: a problem becomes a call, or NotThereError ---------------------------------------------------------


class Side:
    """Somebody's attention."""

    name = ""
    package = ""

    def version(self) -> str:
        return str(getattr(self.module(), "__version__", "unknown"))

    def module(self) -> Any:
        try:
            return importlib.import_module(self.package)
        except (ImportError, OSError, RuntimeError) as error:
            raise NotThereError(f"{self.package} cannot be imported: {error}") from error

    def call(self, torch: Any, problem: Problem, tensors: Tensors) -> Call:
        raise NotImplementedError

    @contextlib.contextmanager
    def setting(self, torch: Any) -> Iterator[None]:
        """What holds while its calls are made."""
        yield


class Ours(Side):
    name = "flashmoe operator"
    package = "flashmoe_science"

    def call(self, torch: Any, problem: Problem, tensors: Tensors) -> Call:
        attention = self.module().attention
        out = torch.empty_like(tensors.q)
        if problem.page_size != 0:
            return lambda: attention(
                tensors.q, tensors.k, tensors.v, block_table=tensors.block_table, kv_lengths=tensors.kv_lengths,
                max_kv=problem.kv_len, out=out,
            )  # fmt: skip
        return lambda: attention(tensors.q, tensors.k, tensors.v, causal=problem.causal, out=out)


class Sdpa(Side):
    package = "torch"

    def __init__(self, backend: str) -> None:
        self.backend = backend
        self.name = f"torch SDPA, {backend}"

    @contextlib.contextmanager
    def setting(self, torch: Any) -> Iterator[None]:
        attention = importlib.import_module("torch.nn.attention")
        with attention.sdpa_kernel(getattr(attention.SDPBackend, self.backend)):
            yield

    def call(self, torch: Any, problem: Problem, tensors: Tensors) -> Call:
        if problem.page_size != 0:
            raise NotThereError("SDPA has no pages")
        sdpa = torch.nn.functional.scaled_dot_product_attention
        grouped = problem.q_heads != problem.kv_heads
        return lambda: sdpa(tensors.q, tensors.k, tensors.v, is_causal=problem.causal, enable_gqa=grouped)


class FlashAttention(Side):
    name = "flash_attn"
    package = "flash_attn"

    def call(self, torch: Any, problem: Problem, tensors: Tensors) -> Call:
        module = self.module()
        q = tensors.q.transpose(1, 2)
        if problem.page_size != 0:
            k, v = (pages.transpose(1, 2).contiguous() for pages in (tensors.k, tensors.v))
            return lambda: module.flash_attn_with_kvcache(
                q, k, v, cache_seqlens=tensors.kv_lengths, block_table=tensors.block_table
            ).transpose(1, 2)
        k, v = tensors.k.transpose(1, 2), tensors.v.transpose(1, 2)
        return lambda: module.flash_attn_func(q, k, v, causal=problem.causal).transpose(1, 2)


class FlashInfer(Side):
    package = "flashinfer"

    def __init__(self, tensor_cores: bool) -> None:
        self.tensor_cores = tensor_cores  # of decoding, where it has both
        self.name = "flashinfer, tensor cores" if tensor_cores else "flashinfer"

    def call(self, torch: Any, problem: Problem, tensors: Tensors) -> Call:
        module = self.module()
        if problem.page_size != 0:
            return self._paged(module, torch, problem, tensors)
        if problem.batch != 1:
            raise NotThereError("flashinfer takes batches in pages or packed, not in one piece")
        k, v = tensors.k[0], tensors.v[0]  # (heads, rows, dim): its layout HND
        if problem.q_len == 1:
            q = tensors.q[0, :, 0]
            return lambda: module.single_decode_with_kv_cache(
                q, k, v, kv_layout="HND", use_tensor_cores=self.tensor_cores
            )[None, :, None]
        if self.tensor_cores:
            raise NotThereError("prefill is the same as flashinfer's")
        rows = tensors.q[0].transpose(0, 1).contiguous()
        return lambda: module.single_prefill_with_kv_cache(
            rows, k, v, causal=problem.causal, kv_layout="HND"
        ).transpose(0, 1)[None]

    def _paged(self, module: Any, torch: Any, problem: Problem, tensors: Tensors) -> Call:
        workspace = torch.zeros(128 << 20, device="cuda", dtype=torch.uint8)
        wrapper = module.BatchDecodeWithPagedKVCacheWrapper(workspace, "HND", use_tensor_cores=self.tensor_cores)
        pages = problem.pages_of_sequence
        begins = torch.arange(problem.batch + 1, device="cuda", dtype=torch.int32) * pages
        last = torch.full_like(tensors.kv_lengths, problem.kv_len - (pages - 1) * problem.page_size)
        wrapper.plan(
            begins, tensors.block_table.flatten(), last, problem.q_heads, problem.kv_heads, problem.head_dim,
            problem.page_size, q_data_type=torch.float16, kv_data_type=torch.float16,
        )  # fmt: skip
        q = tensors.q[:, :, 0].contiguous()
        return lambda: wrapper.run(q, (tensors.k, tensors.v))[:, :, None]


SIDES: list[Side] = [
    Ours(),
    *(Sdpa(backend) for backend in ("FLASH_ATTENTION", "EFFICIENT_ATTENTION", "CUDNN_ATTENTION", "MATH")),
    FlashAttention(),
    FlashInfer(tensor_cores=False),
    FlashInfer(tensor_cores=True),
]


# ---- times ---------------------------------------------------------------------------------------------------------


def summary(clock: str, microseconds: Sequence[float]) -> Line:
    """The median, and how far the rounds lie apart."""
    return {clock: statistics.median(microseconds), f"{clock}_spread": [min(microseconds), max(microseconds)]}


class Stopwatch:
    """The same three times as flashmoe_card's."""

    def __init__(self, torch: Any) -> None:
        self._torch = torch
        l2_bytes = torch.cuda.get_device_properties(0).L2_cache_size
        self._more_than_l2 = torch.empty(2 * l2_bytes, device="cuda", dtype=torch.uint8)

    def between_events(self, queue: Call) -> float:
        begin, end = (self._torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        queue()
        end.record()
        end.synchronize()
        return float(begin.elapsed_time(end)) * 1000

    def by_the_host(self, calls: int, queue: Call) -> float:
        begin = time.perf_counter()
        for _ in range(calls):
            queue()
        self._torch.cuda.synchronize()
        return (time.perf_counter() - begin) * 1e6

    def settle(self, queue: Call) -> None:
        """Again and again until an idle card's clocks have risen."""
        begin = time.perf_counter()
        while time.perf_counter() - begin < SETTLE_S:
            self.between_events(queue)

    def captured(self, calls: int, queue: Call) -> Call:
        graph = self._torch.cuda.CUDAGraph()
        with self._torch.cuda.graph(graph):
            for _ in range(calls):
                queue()
        replay: Call = graph.replay
        return replay

    def cold(self, queue: Call) -> float:
        self._more_than_l2.zero_()
        return self.between_events(queue)

    def times(self, queue: Call, rounds: int) -> Line:
        for _ in range(3):  # what is loaded, compiled or tuned at the first call
            queue()
        self._torch.cuda.synchronize()
        once = self.between_events(queue)
        calls = min(MOST_CALLS, max(1, math.ceil(LEAST_US / max(once, 1e-3))))
        line: Line = {"calls": calls, "rounds": rounds}
        try:
            batch = self.captured(calls, queue)
        except RuntimeError as error:  # it synchronises, or allocates where a capture may not
            line["not_captured"] = str(error).splitlines()[0]

            def batch() -> None:
                for _ in range(calls):
                    queue()

        self.settle(batch)
        line |= summary("kernel_us", [self.between_events(batch) / calls for _ in range(rounds)])
        line |= summary("cold_us", [self.cold(queue) for _ in range(rounds)])
        line |= summary("whole_us", [self.by_the_host(calls, queue) / calls for _ in range(rounds)])
        return line


# ---- the run -------------------------------------------------------------------------------------------------------


def is_virtual() -> bool:
    """Whether the driver in this process is the virtual GPU's, whose times mean nothing."""
    try:
        return hasattr(ctypes.CDLL("libcuda.so.1"), "vgpu_identity")
    except OSError:
        return False


def why_not(error: BaseException) -> str:
    text = str(error).strip()
    return f"{type(error).__name__}: {text.splitlines()[0]}" if text else type(error).__name__


def timed(torch: Any, watch: Stopwatch, problem: Problem, side: Side, ours: Any, rounds: int) -> tuple[Line, Any]:
    """The line, and the result; ``ours`` is this library's, to tell how far the other is from it."""
    line: Line = {"time": problem.name, "problem": problem.name, "side": side.name}
    try:
        line["version"] = side.version()
        queue = side.call(torch, problem, tensors_of(torch, problem))
        with side.setting(torch):
            result = queue()
            torch.cuda.synchronize()
            if ours is not None:
                line["largest_difference_to_ours"] = float((result.float() - ours.float()).abs().max())
            line.update(watch.times(queue, rounds))
        return line, result
    except NotThereError as error:
        line["not_run"] = f"not there: {error}"
    except Exception as error:  # a stranger's package may raise anything, and the others are to go on
        line["not_run"] = why_not(error)
    return line, None


def run(torch: Any, options: argparse.Namespace, say: Callable[[Line], None]) -> int:
    begin = time.monotonic()
    watch = Stopwatch(torch)
    left_out: list[str] = []
    for problem in problems():
        if options.problems == "quick" and not problem.quick:
            continue
        ours = None
        for side in SIDES:
            if options.limit is not None and time.monotonic() - begin >= options.limit:
                left_out.append(f"{problem.name}: {side.name}")
                continue
            line, result = timed(torch, watch, problem, side, ours, options.rounds)
            ours = result if isinstance(side, Ours) else ours
            say(line)
    if left_out:
        say({"left_out": left_out, "why": "--limit", "limit_s": options.limit})
    return INCOMPLETE if left_out else 0


def positive(kind: Callable[[str], float]) -> Callable[[str], float]:
    def read(text: str) -> float:
        value = kind(text)
        if not value > 0:
            raise argparse.ArgumentTypeError(f"{text}; allowed: more than 0")
        return value

    return read


def parse(words: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m flashmoe_science.card",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--problems", choices=("all", "quick"), default="all")
    parser.add_argument("--limit", type=positive(float), metavar="SECONDS")
    parser.add_argument("--rounds", type=positive(int), default=ROUNDS, metavar="N")
    return parser.parse_args(words)


def main(words: Sequence[str] | None = None) -> int:
    options = parse(words)
    rehearsal = is_virtual()

    def say(line: Line) -> None:
        print(json.dumps({**line, "rehearsal": rehearsal}), flush=True)

    try:
        torch = importlib.import_module("torch")
    except (ImportError, OSError) as error:
        print(json.dumps({"not_run": f"torch cannot be imported: {error}"}))
        return INCOMPLETE
    if not torch.cuda.is_available():
        reason = "was built without CUDA" if torch.version.cuda is None else "finds no CUDA card"
        print(json.dumps({"not_run": f"torch {torch.__version__} {reason}"}))
        return INCOMPLETE
    say({"card": torch.cuda.get_device_name(0), "torch": torch.__version__, "cuda": torch.version.cuda})
    return run(torch, options, say)


if __name__ == "__main__":
    sys.exit(main())
