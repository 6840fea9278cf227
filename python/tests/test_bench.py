"""The bench's statistics and verdicts, on synthetic times. No cell is really timed here."""

from __future__ import annotations

import ctypes
import dataclasses
import importlib
import importlib.util
import json
import math
import random
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

torch = pytest.importorskip("torch")

BENCH_FOLDER = Path(__file__).resolve().parents[1] / "flashmoe_science" / "bench"
PACKAGE = "flashmoe_science.bench"
Capture = pytest.CaptureFixture[str]


def bench_module(name: str) -> ModuleType:
    """A module of the bench: of the installed package, or of the folder alone where that is not built."""
    if importlib.util.find_spec("flashmoe_science") is not None:
        try:
            return importlib.import_module(f"{PACKAGE}.{name}")
        except ImportError:
            pass
    if "flashmoe_bench" not in sys.modules:
        spec = importlib.util.spec_from_file_location(
            "flashmoe_bench", BENCH_FOLDER / "__init__.py", submodule_search_locations=[str(BENCH_FOLDER)]
        )
        assert spec is not None and spec.loader is not None
        package = importlib.util.module_from_spec(spec)
        sys.modules["flashmoe_bench"] = package
        spec.loader.exec_module(package)
    return importlib.import_module(f"flashmoe_bench.{name}")


cells = bench_module("cells")
cli = bench_module("cli")
contention = bench_module("contention")
correctness = bench_module("correctness")
ctypes_side = bench_module("ctypes_side")
implementation = bench_module("implementation")
intervals = bench_module("intervals")
limits = bench_module("limits")
report = bench_module("report")
rows_module = bench_module("rows")
runner = bench_module("runner")
sampling = bench_module("sampling")
targets = bench_module("targets")
torch_side = bench_module("torch_side")


# ---- cells --------------------------------------------------------------------------------------------------------


def test_the_cells_are_those_of_the_promise() -> None:
    names = [cell.name for cell in cells.all_cells()]
    assert len(names) == len(set(names))
    assert sum(cell.kind == "prefill" for cell in cells.all_cells()) == 10 * 2 + 5 * 2  # GQA where there are 4 heads
    assert "decode.b1h32s1x4096d128.gqa4" in names
    assert "prefill.b1h16s2048d64.causal.gqa4" in names
    assert not any(cell.causal for cell in cells.all_cells() if cell.kind == "decode")


def test_the_bench_in_c_plus_plus_has_the_same_shapes() -> None:
    text = (Path(__file__).parents[2] / "bench" / "attention_bench.cpp").read_text()
    listed = text.split("kPrefillShapes[][4] = {", 1)[1].split("};", 1)[0]
    shapes = [tuple(map(int, shape.split(", "))) for shape in re.findall(r"\{(\d[\d, ]*)\}", listed)]
    assert tuple(shapes) == cells.PREFILL_SHAPES


@pytest.mark.parametrize("q_len, kv_len", [(1, 1), (5, 5), (3, 8)])
def test_scores_counts_the_visible_pairs(q_len: int, kv_len: int) -> None:
    visible = sum(j <= i + kv_len - q_len for i in range(q_len) for j in range(kv_len))
    assert cells.Cell("prefill", 2, 3, 3, q_len, kv_len, 64, True).scores == 6 * visible
    assert cells.Cell("prefill", 2, 3, 3, q_len, kv_len, 64, False).scores == 6 * q_len * kv_len


SMALL_MODIFIED = [
    cells.Cell("mask", 2, 2, 2, 40, 40, 32, False, lengths=((40, 40), (40, 17))),
    cells.Cell("mask", 2, 2, 2, 40, 40, 32, True, lengths=((40, 40), (17, 17))),
    cells.Cell("bias", 2, 4, 2, 9, 9, 64, True, bias_heads=4),
    cells.Cell("bias", 2, 4, 2, 5, 9, 64, False, bias_heads=1),
    cells.Cell("padding", 3, 2, 2, 7, 11, 64, False, lengths=((7, 11), (7, 4), (7, 1))),
    cells.Cell("lengths", 3, 2, 1, 7, 11, 64, False, lengths=((7, 11), (4, 4), (1, 9))),
    cells.Cell("paged-mixed", 3, 4, 2, 6, 300, 64, True, lengths=((1, 300), (6, 6), (2, 129))),
    cells.Cell("paged-window", 2, 4, 2, 5, 40, 64, True, window=8, sinks=True),
]
SMALL_IDS = [cell.name for cell in SMALL_MODIFIED]


@pytest.mark.parametrize("cell", SMALL_MODIFIED, ids=SMALL_IDS)
def test_scores_counts_what_the_mask_shows(cell: Any) -> None:
    in_sequence = sum(
        int(implementation.visible(cell)[b, 0, :q_len].sum()) for b, (q_len, _) in enumerate(cell.sequences)
    )
    assert cell.scores == cell.q_heads * in_sequence


@pytest.mark.parametrize("cell", SMALL_MODIFIED, ids=SMALL_IDS)
def test_the_oracle_knows_biases_lengths_windows_and_sinks(cell: Any) -> None:
    inputs = implementation.make_inputs(cell, "fp32")
    call = torch_side.TorchSdpa().prepare(cell, "fp32", inputs, 1)
    output = call.to_tensor(call.run())
    error = correctness.compare(cell, inputs, output, output).rms_error
    for less in ({"bias_heads": 0}, {"lengths": ()}, {"window": 0}, {"sinks": False}):
        other = dataclasses.replace(cell, **less)
        if other == cell:
            continue
        other_inputs = dataclasses.replace(
            inputs, bias=inputs.bias if other.bias_heads else None, sinks=inputs.sinks if other.sinks else None
        )
        assert correctness.compare(other, other_inputs, output, output).rms_error > 1000 * error, less


def test_pages_hold_every_key_of_each_sequence() -> None:
    cell = next(cell for cell in SMALL_MODIFIED if cell.kind == "paged-mixed")
    inputs = implementation.make_inputs(cell, "fp32")
    k_pages, v_pages, table = rows_module.paged(cell, inputs.k, inputs.v)
    for b, (q_len, kv_len) in enumerate(cell.sequences):
        for pages, dense in ((k_pages, inputs.k), (v_pages, inputs.v)):
            read = torch.cat([pages[page] for page in table[b]], dim=1)[:, :kv_len]
            assert torch.equal(read, dense[b, :, :kv_len])
        slots = rows_module.slots_of_new_keys(cell, table)[rows_module.row_starts(cell, 0)[b] :][:q_len]
        flat = k_pages.transpose(1, 2).flatten(0, 1)
        assert torch.equal(flat[slots].transpose(0, 1), inputs.k[b, :, kv_len - q_len : kv_len])


@pytest.mark.parametrize("cell", SMALL_MODIFIED, ids=SMALL_IDS)
def test_the_package_solves_them(cell: Any) -> None:
    try:
        package = torch_side.Package()
    except implementation.NotAvailable:
        pytest.skip("the compiled package is not installed")
    inputs = implementation.make_inputs(cell, "fp32")
    torch_call = torch_side.TorchSdpa().prepare(cell, "fp32", inputs, 1)
    call = package.prepare(cell, "fp32", inputs, 1)
    expected = torch_call.to_tensor(torch_call.run())
    assert correctness.compare(cell, inputs, expected, call.to_tensor(call.run())).right


def test_select_takes_parts_of_names_and_wildcards() -> None:
    everything = cells.all_cells()
    assert cells.select(everything, []) == everything
    assert {cell.kind for cell in cells.select(everything, ["decode"])} == {"decode", "paged-decode"}
    assert {cell.kind for cell in cells.select(everything, ["decode.*"])} == {"decode"}
    assert [cell.name for cell in cells.select(everything, ["*s32d64"])] == ["prefill.b1h1s32d64"]
    assert cells.select(everything, ["no such cell"]) == []


# ---- intervals ----------------------------------------------------------------------------------------------------


def test_order_statistic_rank_is_exact() -> None:
    # The extremes of 6 values miss the median with probability 2 / 2^6 = 0.031, those of 5 with 0.0625.
    assert intervals.order_statistic_rank(6, 0.05) == 1
    assert intervals.order_statistic_rank(5, 0.05) == 0
    assert intervals.order_statistic_rank(8, 0.0125) == 1
    assert intervals.ratio_interval([0.1] * 5).high == math.inf


@pytest.mark.parametrize("error_probability", [0.05, 0.0125])
def test_the_interval_holds_the_true_ratio_as_often_as_it_says(error_probability: float) -> None:
    rng = random.Random(3)
    misses = 0
    trials = 2000
    for _ in range(trials):
        # Skewed noise with rare spikes on both sides, as timings have; its ratio's median is 1.7 by symmetry.
        log_ratios = [math.log(1.7) + rng.expovariate(30) - rng.expovariate(30) for _ in range(16)]
        interval = intervals.ratio_interval(log_ratios, error_probability)
        misses += not interval.low <= 1.7 <= interval.high
    assert misses / trials <= error_probability * 1.3


def test_geometric_mean_interval_finds_the_mean() -> None:
    rng = random.Random(5)
    true_ratios = [1.2, 2.0, 4.5, 3.0]
    blocks = [[math.log(ratio) + rng.gauss(0, 0.03) for _ in range(16)] for ratio in true_ratios]
    interval = intervals.geometric_mean_interval(blocks)
    assert interval.low <= intervals.geometric_mean(true_ratios) <= interval.high
    assert interval.relative_width < 0.05


# ---- sampling on a simulated clock -----------------------------------------------------------------------------------


class Machine:
    """A clock that only advances when one of its calls runs; it drifts, and its noise only ever adds time."""

    def __init__(self, noise: float = 0.02, drift_per_second: float = 0.0, seed: int = 1) -> None:
        self.now_ns = 0.0
        self.noise, self.drift_per_second = noise, drift_per_second
        self.random = random.Random(seed)
        self.order: list[str] = []

    def clock(self) -> int:
        return int(self.now_ns)

    def call(self, name: str, seconds: float) -> Callable[[], None]:
        def run() -> None:
            if not self.order or self.order[-1] != name:
                self.order.append(name)
            slowdown = 1 + self.drift_per_second * self.now_ns * 1e-9 + self.random.expovariate(1 / self.noise)
            self.now_ns += seconds * 1e9 * slowdown

        return run


def sample(machine: Machine, baseline: float, ours: float, threshold: float = 1.1, **policy: float) -> tuple[Any, Any]:
    settings = sampling.SamplingPolicy(intervals.FULL_LOOKS, **policy)
    sampler = sampling.PairSampler(machine.call("A", baseline), machine.call("B", ours), settings, machine.clock)
    return sampler, sampler.run(threshold)


@pytest.fixture(autouse=True)
def _no_neighbours(monkeypatch: pytest.MonkeyPatch) -> None:
    """Simulated samples are never repeated because of what the real machine does."""
    monkeypatch.setattr(sampling, "involuntary_switches", lambda: 0)


@pytest.mark.parametrize("baseline, ours", [(20e-6, 8e-6), (3e-3, 2e-3), (0.2, 0.05)])
def test_a_known_ratio_is_recovered(baseline: float, ours: float) -> None:
    _, interval = sample(Machine(), baseline, ours)
    assert interval.low <= baseline / ours <= interval.high
    assert interval.value == pytest.approx(baseline / ours, rel=0.02)


def test_drift_of_the_machine_cancels() -> None:
    # The machine slows down by half per second of simulated time: unpaired medians would be far off.
    sampler, interval = sample(Machine(noise=0.001, drift_per_second=0.5), 2e-3, 1e-3, precision=0.001)
    assert len(sampler.times.log_ratios) == 32
    assert interval.value == pytest.approx(2.0, rel=0.01)


def test_blocks_are_interleaved_and_balanced() -> None:
    machine = Machine()
    sampler, _ = sample(machine, 1e-3, 1e-3)
    assert len(sampler.times.baseline_seconds) == len(sampler.times.ours_seconds)
    # Never more than two samples of one side in a row, beyond the warm-up of the two sides.
    assert len(machine.order) >= len(sampler.times.log_ratios) * 2


def test_sampling_stops_when_the_interval_is_clear_and_goes_on_when_it_is_not() -> None:
    clear, _ = sample(Machine(), 3e-3, 1e-3)
    assert len(clear.times.log_ratios) == 8
    unclear, _ = sample(Machine(noise=0.2), 1.1e-3, 1e-3)
    assert len(unclear.times.log_ratios) == 32  # the last look is kept for the second pass
    unclear.run(1.1, second_pass=True)
    assert len(unclear.times.log_ratios) == 64


def test_the_budget_ends_the_sampling() -> None:
    sampler, _ = sample(Machine(noise=0.2), 1.1e-3, 1e-3, budget_seconds=1e-3)
    assert len(sampler.times.log_ratios) == 8  # the first look is always taken


def test_interrupted_samples_are_taken_again(monkeypatch: pytest.MonkeyPatch) -> None:
    counts = iter(range(10**9))
    monkeypatch.setattr(sampling, "involuntary_switches", lambda: next(counts))  # every attempt is disturbed
    sampler, _ = sample(Machine(), 3e-3, 1e-3)
    samples = len(sampler.times.baseline_seconds) + len(sampler.times.ours_seconds)
    assert sampler.times.interrupted_samples == samples * (1 + sampling.MAX_RETRIES)


# ---- verdicts --------------------------------------------------------------------------------------------------------


def synthetic_results(change: dict[str, float] | None = None, spread: float = 0.01, blocks: int = 16) -> list[Any]:
    """Every cell of the musts with the ratio 4, except those that `change` names by key."""
    # Evenly spread around the ratio, two spreads to either side: no luck in it.
    noise = [spread * 4 * (i / (blocks - 1) - 0.5) for i in range(blocks)]
    rows = []
    for dtype in ("fp16", "bf16"):
        for threads in (1, 2):
            for cell in cells.all_cells():
                key = f"{dtype}/t{threads}/{cell.name}"
                ratio = (change or {}).get(key, 4.0)
                logs = [math.log(ratio) + value for value in noise]
                rows.append(targets.Measured(cell, dtype, threads, "torch", intervals.ratio_interval(logs), logs))
    return rows


SLOW_KEY = "bf16/t2/prefill.b1h1s64d64.causal"


def outcome_of(rows: list[Any]) -> Any:
    return targets.overall(targets.must_verdicts(rows))


def test_all_musts_hold() -> None:
    assert outcome_of(synthetic_results()) is targets.Outcome.HOLDS
    assert targets.EXIT_CODES[targets.Outcome.HOLDS] == 0


def test_one_slow_cell_fails_the_check_and_is_named() -> None:
    rows = synthetic_results({SLOW_KEY: 1.05})
    assert outcome_of(rows) is targets.Outcome.FAILS
    assert targets.EXIT_CODES[targets.Outcome.FAILS] == 1
    blamed = [cell for verdict in targets.must_verdicts(rows) for cell in verdict.cells]
    assert len(blamed) == 1 and blamed[0].startswith(SLOW_KEY)


def test_a_slow_fp16_decode_cell_fails_the_check_too() -> None:
    assert outcome_of(synthetic_results({"fp16/t1/decode.b1h32s1x4096d128": 1.0})) is targets.Outcome.FAILS


def test_a_slow_bf16_decode_cell_is_a_goal_missed_not_a_must() -> None:
    rows = synthetic_results({"bf16/t1/decode.b1h32s1x4096d128": 1.0})
    assert outcome_of(rows) is targets.Outcome.HOLDS
    goal = next(verdict for verdict in targets.goal_verdicts(rows) if verdict.title.startswith("slowest decode cell"))
    assert not goal.is_must and goal.outcome is targets.Outcome.FAILS and goal.threshold == 1.1
    assert goal.cells[0].startswith("bf16/t1/decode.b1h32s1x4096d128")
    text = report.verdict_text(goal)
    assert text.startswith("goal  missed") and "1.000" in text and "not in the exit code" in text
    reached = next(v for v in targets.goal_verdicts(synthetic_results()) if v.title == goal.title)
    assert report.verdict_text(reached).startswith("goal  reached")


def test_a_noisy_cell_at_the_threshold_is_inconclusive() -> None:
    rows = synthetic_results({SLOW_KEY: 1.1}, spread=0.05)
    assert outcome_of(rows) is targets.Outcome.INCONCLUSIVE
    assert targets.EXIT_CODES[targets.Outcome.INCONCLUSIVE] == 3


def test_a_low_mean_fails_without_any_slow_cell() -> None:
    rows = synthetic_results({row.key: 2.0 for row in synthetic_results() if row.dtype == "fp16"})
    failing = [verdict.title for verdict in targets.must_verdicts(rows) if verdict.outcome is targets.Outcome.FAILS]
    assert failing == ["prefill geometric mean, fp16, 1 and 2 threads"]


def test_where_tiles_multiply_fp16_prefill_may_not_be_slower_than_torch() -> None:
    def results(ratio: float) -> list[Any]:
        rows = synthetic_results()
        return synthetic_results({row.key: ratio for row in rows if row.dtype == "fp16" and row.cell.kind == "prefill"})

    def outcome(ratio: float) -> Any:
        return targets.overall(targets.must_verdicts(results(ratio), fp16_tiles=True))

    assert outcome(1.05) is targets.Outcome.HOLDS
    assert outcome(0.9) is targets.Outcome.FAILS
    assert outcome_of(results(1.05)) is targets.Outcome.FAILS


def test_a_margin_lowers_every_must() -> None:
    rows = synthetic_results({row.key: 2.0 for row in synthetic_results() if row.dtype == "fp16"})
    assert targets.overall(targets.must_verdicts(rows, margin=0.75)) is targets.Outcome.HOLDS


def test_a_missing_cell_is_inconclusive() -> None:
    rows = [row for row in synthetic_results() if row.key != SLOW_KEY]
    assert outcome_of(rows) is targets.Outcome.INCONCLUSIVE
    assert any(SLOW_KEY in verdict.missing for verdict in targets.must_verdicts(rows))


def test_a_cell_measured_on_a_busy_machine_is_no_evidence() -> None:
    rows = synthetic_results()
    index = next(i for i, row in enumerate(rows) if row.key == SLOW_KEY)
    rows[index] = dataclasses.replace(rows[index], disturbed=True)
    assert outcome_of(rows) is targets.Outcome.INCONCLUSIVE


def test_a_wrong_result_fails() -> None:
    rows = synthetic_results()
    index = next(i for i, row in enumerate(rows) if row.key == SLOW_KEY)
    rows[index] = dataclasses.replace(rows[index], log_ratios=[], wrong="max_diff 4.72")
    assert outcome_of(rows) is targets.Outcome.FAILS


def test_other_peers_do_not_count_for_the_musts() -> None:
    rows = synthetic_results()
    peer_rows = [dataclasses.replace(row, peer="openvino") for row in rows]
    assert outcome_of(peer_rows) is targets.Outcome.INCONCLUSIVE


def against_vllm(change: dict[str, float] | None = None) -> list[Any]:
    return [
        dataclasses.replace(row, peer="vllm")
        for row in synthetic_results(change)
        if row.cell.kind in cells.PAGED_KINDS
    ]


def test_what_was_reached_against_vllm_is_held_and_what_is_aimed_at_printed() -> None:
    key = "bf16/t1/paged-decode.b4h32s1x2048d128.causal.gqa4"
    held = next(h for h in targets.HELD if h.peer == "vllm" and "paged-decode" in h.kinds and h.dtype == "bf16")
    assert held.held < held.promised == 1.0

    def outcome(ratio: float) -> Any:
        return targets.overall(targets.must_verdicts(against_vllm({key: ratio}), peers=["vllm"]))

    assert outcome(1.02) is targets.Outcome.HOLDS
    assert outcome(held.held * 1.05) is targets.Outcome.HOLDS
    assert outcome(held.held * 0.95) is targets.Outcome.FAILS
    below = against_vllm({key: held.held * 1.05})
    must = next(v for v in targets.must_verdicts(below, peers=["vllm"]) if "paged-decode" in v.title)
    assert "(aim: 1.0)" in report.verdict_text(must)
    missed = [v for v in targets.goal_verdicts(below) if v.outcome is targets.Outcome.FAILS and "paged-" in v.title]
    assert [goal.cells[0].split(":")[0] for goal in missed] == [key]


def test_a_run_without_vllm_is_not_judged_by_it() -> None:
    assert not any("vllm" in verdict.title for verdict in targets.must_verdicts(synthetic_results()))
    assert targets.overall(targets.must_verdicts([], peers=["vllm"])) is targets.Outcome.INCONCLUSIVE


def test_the_table_says_that_vllm_is_not_there(monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    arguments = ["--impl", "torch", "--quick", "--cells", "*h1s32d64", "--threads", "1", "--dtypes", "fp32"]
    assert cli.main(arguments) == 0
    assert "not measured: --peers vllm: no package vllm here" in capsys.readouterr().out
    assert cli.main([*arguments, "--peers", "vllm"]) == 2


def test_goals_of_what_was_not_measured_are_left_out() -> None:
    titles = [verdict.title for verdict in targets.goal_verdicts(synthetic_results())]
    assert any("fp16" in title for title in titles)
    assert not any("fp32" in title or "openvino" in title for title in titles)


# ---- limits and neighbours -------------------------------------------------------------------------------------------


def test_the_roofline_adds_products_and_exponentials() -> None:
    cell = cells.Cell("prefill", 1, 16, 16, 2048, 2048, 64, False)
    rates = limits.Limits(2e12, 2e11, 1e10, 1e12)
    assert limits.roofline_seconds(cell, "bf16", rates) == pytest.approx(cell.flops / 2e12 + cell.scores / 1e10)
    assert limits.roofline_seconds(cell, "fp16", rates) == pytest.approx(3 * cell.flops / 2e12 + cell.scores / 1e10)
    assert limits.roofline_seconds(cell, "fp32", rates) == pytest.approx(6 * cell.flops / 2e12 + cell.scores / 1e10)
    slow_tiles = limits.Limits(1e12, 2e11, 1e10, 1e12)
    assert limits.roofline_seconds(cell, "fp32", slow_tiles) == pytest.approx(cell.flops / 2e11 + cell.scores / 1e10)
    assert limits.roofline_seconds(cell, "bf16", limits.Limits(None, 2e11, 1e10, 1e12)) == pytest.approx(
        cell.flops / 2e11 + cell.scores / 1e10
    )
    assert limits.roofline_seconds(cell, "bf16", limits.Limits(2e12, 2e11, None, 1e12)) is None


def test_decode_is_limited_by_memory() -> None:
    cell = next(cell for cell in cells.all_cells() if cell.name == "decode.b1h32s1x4096d128")
    rates = limits.Limits(2e12, 2e11, 1e10, 1e10)
    assert limits.roofline_seconds(cell, "bf16", rates) == pytest.approx(cell.bytes_touched(2) / 1e10)


def test_a_shared_tile_unit_is_told() -> None:
    rates = limits.TileRates()
    rates.note(None, 1)
    assert rates.share is None and "not measured" in rates.text()
    for flops, threads in ((4e12, 1), (4e12, 2), (4e12, 2)):
        rates.note(limits.Limits(flops, None, None, None), threads)
    assert rates.share == pytest.approx(0.5) and rates.share < limits.SHARED_TILES
    assert "4.00 TFLOP/s a thread at best, 2.00 in the median (50%)" in rates.text()


def test_threads_without_a_processor_each_are_disturbed() -> None:
    assert contention.is_disturbed(threads=2, used_by_others=1.0, processors=2)
    assert not contention.is_disturbed(threads=2, used_by_others=1.0, processors=4)
    assert not contention.is_disturbed(threads=2, used_by_others=0.1, processors=2)
    assert not contention.is_disturbed(threads=1, used_by_others=2.0, processors=2)
    assert not contention.is_disturbed(threads=2, used_by_others=None, processors=2)
    assert contention.busy_seconds("cpu 100 10 20 5000 7 3 4 50 0 0\ncpu0 1 2", 100) == pytest.approx(1.87)


# ---- correctness and the runner, with stand-ins for the library ------------------------------------------------------


Change = Callable[[torch.Tensor], torch.Tensor]


class StandIn:
    """torch's own result, changed; only tests have such a side."""

    name = "stand-in"
    isa = ""
    version = "0"

    def __init__(self, change: Change = lambda output: output) -> None:
        self.change = change

    def prepare(self, cell: Any, dtype: str, inputs: Any, threads: int) -> Any:
        call = torch_side.TorchSdpa().prepare(cell, dtype, inputs, threads)
        return implementation.PreparedCall(lambda: self.change(call.to_tensor(call.run())), torch_side.as_tensor)


QUICK_POLICY = dict(sample_seconds=2e-4, lead_in_seconds=1e-5)


def run_one(ours: StandIn, name: str = "prefill.b1h1s32d64.causal", dtype: str = "fp16") -> Any:
    cell = next(cell for cell in cells.all_cells() if cell.name == name)
    policy = sampling.SamplingPolicy(intervals.QUICK_LOOKS, **QUICK_POLICY)
    rows: list[Any] = []
    jobs = runner.make_jobs([cell], [dtype], [1], [torch_side.TorchSdpa()])
    runner.Runner(ours, policy, None, progress=lambda text: None).run(jobs, rows)
    return rows[0]


@pytest.mark.parametrize("dtype", cells.DTYPES)
def test_a_right_result_is_timed(dtype: str) -> None:
    row = run_one(StandIn(), dtype=dtype)
    assert row.wrong == "" and len(row.times.log_ratios) == 6
    assert 0.02 < row.ratio.value < 50  # the same work on both sides; a stalled machine is no wrong unit


def one_wrong_value(output: torch.Tensor) -> torch.Tensor:
    output[0, 0, 3, 5] += 0.25
    return output


@pytest.mark.parametrize(
    "change",
    [one_wrong_value, lambda o: o * 1.02, lambda o: o.roll(1, dims=2), lambda o: o * math.nan],
    ids=["one value", "scaled", "shifted rows", "nan"],
)
def test_a_wrong_result_is_not_timed(change: Change) -> None:
    row = run_one(StandIn(change))
    assert row.wrong != "" and row.times.log_ratios == []


@pytest.mark.parametrize(("over_a_long_row", "accused"), [(1.0, False), (2.9, True)])
def test_only_a_long_row_of_calls_accuses_of_threads(
    monkeypatch: pytest.MonkeyPatch, over_a_long_row: float, accused: bool
) -> None:
    started = iter(range(1_000_000))
    # A processor clock that runs away over short samples, as one did.
    monkeypatch.setattr(sampling.time, "process_time_ns", lambda: next(started) * 1_000_000_000)
    monkeypatch.setattr(runner, "processors_used", lambda call: over_a_long_row)
    row = run_one(StandIn())
    assert ("uses 2.9 processors" in row.wrong) is accused


def test_gqa_and_decode_agree_with_the_oracle() -> None:
    for name in ("prefill.b2h8s128d64.causal.gqa4", "decode.b1h32s1x4096d128.gqa4"):
        cell = next(cell for cell in cells.all_cells() if cell.name == name)
        inputs = implementation.make_inputs(cell, "fp32")
        call = torch_side.TorchSdpa().prepare(cell, "fp32", inputs, 1)
        output = call.to_tensor(call.run())
        assert correctness.compare(cell, inputs, output, output).right


def test_an_interrupt_keeps_the_rows(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: Capture) -> None:
    real_run = runner.Runner.run

    def interrupted(self: Any, jobs: list[Any], rows: list[Any], second_pass: bool = False) -> None:
        real_run(self, jobs[:1], rows)
        raise KeyboardInterrupt

    monkeypatch.setattr(runner.Runner, "run", interrupted)
    file = tmp_path / "result.json"
    arguments = ["--impl", "torch", "--quick", "--cells", "s32d64", "--threads", "1", "--json", str(file)]
    assert cli.main(arguments) == cli.EXIT_INTERRUPTED
    document = json.loads(file.read_text())
    assert document["complete"] is False and len(document["rows"]) == 1
    assert "prefill.b1h1s32d64" in capsys.readouterr().out
    # With a margin, because this is about rows that are missing, not about the speed of the one that is there.
    assert cli.main([*arguments, "--check", "--margin", "0.01"]) == 3


def test_json_goes_to_stdout_alone(capsys: Capture) -> None:
    arguments = ["--impl", "torch", "--quick", "--cells", "*h1s32d64", "--threads", "1", "--dtypes", "fp32"]
    assert cli.main([*arguments, "--json", "-"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["schema"] == "flashmoe_science.bench/1" and document["complete"] is True
    assert document["rows"][0]["ratio_low"] <= document["rows"][0]["ratio"] <= document["rows"][0]["ratio_high"]


def test_a_must_that_fails_is_the_exit_code(capsys: Capture) -> None:
    # torch against itself cannot be 1.1 times faster than torch.
    arguments = ["--impl", "torch", "--check", "--quick", "--cells", "*h1s32d64", "--threads", "1", "--dtypes", "bf16"]
    assert cli.main(arguments) in (1, 3)  # 3: on a busy machine the interval may hold 1.1
    assert "bf16/t1/prefill.b1h1s32d64" in capsys.readouterr().out


@pytest.mark.parametrize(
    "arguments",
    [
        ["--cells", "nonesuch"], ["--impl", "ctypes:/no/such.so"], ["--impl", "what"], ["--limits", "/no/such.so"],
        ["--before", "/no/such.so"],
    ],
)  # fmt: skip
def test_usage_errors_are_named(arguments: list[str], capsys: Capture) -> None:
    assert cli.main(["--impl", "torch", *arguments]) == 2
    assert capsys.readouterr().err != ""


@pytest.mark.parametrize("arguments", [["--dtypes", "fp8"], ["--threads", "0"], ["--threads", "two"], ["--peers", "x"]])
def test_bad_values_are_refused_by_the_parser(arguments: list[str]) -> None:
    with pytest.raises(SystemExit) as error:
        cli.main(arguments)
    assert error.value.code == 2


def test_the_folder_runs_without_the_package() -> None:
    if not BENCH_FOLDER.exists():
        pytest.skip("only in a checkout")
    result = subprocess.run(
        [sys.executable, str(BENCH_FOLDER), "--list"], capture_output=True, text=True, timeout=600, check=False
    )
    assert result.returncode == 0 and "decode.b1h32s1x4096d128" in result.stdout


def test_a_build_of_the_library_is_compared_with_another(tmp_path: Path, capsys: Capture) -> None:
    package = importlib.util.find_spec("flashmoe_science")
    library = Path(package.origin).parent / "libflashmoe.so.0" if package and package.origin else None
    if library is None or not library.exists():
        pytest.skip("only with the package")
    before = tmp_path / "libflashmoe.so.0"
    before.write_bytes(library.read_bytes())
    patterns = "prefill.b1h1s64d64,decode.*gqa4,paged-decode.b1h8*,paged-window.b4*sinks"
    arguments = ["--impl", f"ctypes:{library}", "--before", str(before), "--quick", "--threads", "1"]
    assert cli.main([*arguments, "--dtypes", "bf16", "--cells", patterns, "--json", "-"]) == 0
    rows = json.loads(capsys.readouterr().out)["rows"]
    assert {row["cell"].split(".")[0] for row in rows} == {"prefill", "decode", "paged-decode", "paged-window"}
    assert all(row["peer"] == "before" and row["ratio"] > 0 for row in rows), rows


def test_the_mirrored_structs_have_the_header_s_layout(tmp_path: Path) -> None:
    header = BENCH_FOLDER.parents[2] / "include"
    if not (header / "flashmoe" / "flashmoe.h").exists():
        pytest.skip("only in a checkout")
    structs = {
        "fms_error": ctypes_side.Error,
        "fms_attention_problem": ctypes_side.Problem,
        "fms_plan_options": ctypes_side.PlanOptions,
        "fms_attention_plan": ctypes_side.Plan,
        "fms_attention_args": ctypes_side.Args,
    }
    lines = []
    for name, mirror in structs.items():
        lines.append(f'_Static_assert(sizeof({name}) == {ctypes.sizeof(mirror)}, "size of {name}");')
        for field, *_ in mirror._fields_:
            offset = getattr(mirror, field).offset
            lines.append(f'_Static_assert(offsetof({name}, {field}) == {offset}, "{name}.{field}");')
    source = tmp_path / "layout.c"
    source.write_text("#include <flashmoe/flashmoe.h>\n" + "\n".join(lines) + "\n")
    try:
        compiled = subprocess.run(
            ["cc", "-fsyntax-only", "-I", str(header), str(source)], capture_output=True, text=True, check=False
        )
    except FileNotFoundError:
        pytest.skip("no C compiler")
    assert compiled.returncode == 0, compiled.stderr


def test_the_second_pass_repeats_disturbed_rows_and_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runner.Row, "disturbed", property(lambda row: True))
    cell = cells.all_cells()[0]
    jobs = runner.make_jobs([cell], ["fp16", "bf16"], [1], [torch_side.TorchSdpa()])
    texts: list[str] = []
    policy = sampling.SamplingPolicy(intervals.Looks((6, 7)), budget_seconds=0.0, **QUICK_POLICY)
    bench = runner.Runner(StandIn(), policy, None, progress=texts.append)
    rows: list[Any] = []
    bench.run(jobs, rows, second_pass=True)
    assert sum(text.startswith("[again") for text in texts) == 2
    assert all(len(row.times.log_ratios) == 6 for row in rows)  # begun anew, not continued
    monkeypatch.setattr(runner, "SECOND_PASS_SECONDS", -1)
    texts.clear()
    bench.run(jobs, [], second_pass=True)
    assert texts[-1] == "the second pass ends here: 2 rows stay unclear"
