"""The lead of docs/kernel-comparison.md: its arithmetic; it is what its table says, and the kernels still do it.

whole_calls_test.py [BUILD]     without a build tree nothing is executed
"""

from __future__ import annotations

import json
import sys
import tempfile
import unittest
from dataclasses import replace
from pathlib import Path
from typing import ClassVar

import whole_calls
from comparison import FLASH_ATTENTION, FLASHINFER, OURS
from executed import CannotRunError, first_launch, launches_of
from predict_map import DOCS, PAGE, Row, read
from predicted import (
    HEAD_AXIS,
    Recorded,
    heads_in_turns,
    instructions_by_cta,
    there_and_back,
    tiles_in_heads,
    with_more_heads,
)
from problems import Problem

BUILD: Path | None = None
# Of our kernels, seconds each: what is executed again.
CHEAPEST = [("prefill", head_dim, causal, length, 1) for head_dim in (64, 128) for causal in (False, True)
            for length in (32, 128)]  # fmt: skip


def row(side: str, instructions: int, busiest: int, **changes: object) -> Row:
    base = Row("l4", 128, 1, 64, False, side, 1000.0, 20.0, 64, 1, "", 0, "prefill", 1, instructions, busiest)
    return replace(base, **changes)


class Arithmetic(unittest.TestCase):
    def test_the_better_peer_is_another_one_by_each_measure(self) -> None:
        rows = [row(OURS, 300, 30), row(FLASHINFER, 200, 60), row(FLASH_ATTENTION, 400, 40)]
        (call,) = whole_calls.calls(rows)
        self.assertEqual(call.ratio(whole_calls.total), 1.5)
        self.assertEqual(call.ratio(whole_calls.busiest), 0.75)

    def test_a_peer_that_nobody_counted_gives_no_ratio(self) -> None:
        (call,) = whole_calls.calls([row(OURS, 300, 30), row(FLASHINFER, 200, 60)])
        self.assertIsNone(call.ratio(whole_calls.total))
        missing = whole_calls.left_out([call], [whole_calls.USER_CASE])
        self.assertIn("1 problems 0 have", missing)
        self.assertIn("not yet: prefill, D=64: S = 128 with B x H = 1\n", missing)

    def test_a_refusal_is_no_figure(self) -> None:
        (call,) = whole_calls.calls([row(side, 1, 1) for side in (OURS, FLASHINFER)]
                                    + [row(FLASH_ATTENTION, 1, 1, refusal="L2")])  # fmt: skip
        self.assertIsNone(call.ratio(whole_calls.cycles))
        self.assertEqual(call.ratio(whole_calls.total), 1)

    def test_goals_are_missed_and_reached(self) -> None:
        peers = [row(FLASHINFER, 50_000, 50_000), row(FLASH_ATTENTION, 60_000, 60_000)]
        at_limit = whole_calls.goals([row(OURS, whole_calls.USER_CASE_LIMIT, 45_000), *peers])
        self.assertEqual([goal.reached for goal in at_limit[:4]], [True, True, None, True])
        above = whole_calls.goals([row(OURS, whole_calls.USER_CASE_LIMIT + 1, 60_001), *peers])
        self.assertEqual([goal.reached for goal in above[:4]], [False, False, None, False])

    def test_the_total_counts_where_there_is_much_to_do(self) -> None:
        large = [row(side, count, 1, length=1024, heads=8)
                 for side, count in ((OURS, 131), (FLASHINFER, 100), (FLASH_ATTENTION, 100))]  # fmt: skip
        self.assertFalse(whole_calls.goals(large)[2].reached)
        self.assertTrue(whole_calls.goals([replace(large[0], instructions=130), *large[1:]])[2].reached)

    def test_heads_are_added_along_their_axis(self) -> None:
        # Two tiles of a head, then the second split of both.
        self.assertEqual(with_more_heads([1, 2, 3, 4], [2, 1, 2], HEAD_AXIS[OURS], 2), [1, 2, 1, 2, 3, 4, 3, 4])
        self.assertEqual(with_more_heads([1, 2, 3, 4], [2, 2, 1], 0, 2), [1, 2, 1, 2, 3, 4, 3, 4])
        self.assertEqual(with_more_heads([1, 2, 3, 4], [2, 2, 1], 2, 2), [1, 2, 3, 4, 1, 2, 3, 4])


class Order(unittest.TestCase):
    """Two splits of three tiles of one head, the longest tile first: its splits do 1 and 2, the next one's 3 and 4, the
    last one's 5 and 5. Four SMs that hold two each: the first of two rounds goes back."""

    LAUNCH: ClassVar = {
        "grid": [1, 2, 3],
        "sms": 4,
        "ctas_per_sm": 2,
        "paths": {
            "totals_by_cta": [[1, 4, 0, 0], [1, 3, 0, 0], [1, 2, 0, 0], [1, 1, 0, 0], [2, 5, 0, 0]],
            "ctas": [{"cta": 0, "inst_executed": 4}],
        },
    }

    def ordered(self, whole: list[int], times: int) -> tuple[Recorded, tuple[int, int]]:
        with tempfile.TemporaryDirectory() as scratch:
            report = Path(scratch) / "report.jsonl"
            report.write_text(json.dumps(self.LAUNCH) + "\n")
            run = Recorded(OURS, "l4", report, [], HEAD_AXIS[OURS]).ordered_as(whole, times)
            return run, run.counts(times)

    def test_of_the_other_order(self) -> None:
        launch = tiles_in_heads(self.LAUNCH)
        self.assertEqual(launch["grid"], [3, 1, 2])
        self.assertEqual(instructions_by_cta(launch), [1, 3, 5, 2, 4, 5])
        self.assertEqual(launch["paths"]["ctas"], [{"cta": 4, "inst_executed": 4}])

    def test_heads_within_tiles(self) -> None:
        run, counts = self.ordered([2, 2, 3], 2)
        self.assertEqual(run.head_axis, 0)
        self.assertEqual(counts, (40, 2 + 3 + 5))  # back 2 2 1 1, 3 3 4 4, and behind them 5 5 5 5

    def test_there_and_back(self) -> None:
        self.assertEqual(there_and_back(3, 4, 2), [0, 1, 2])
        self.assertEqual(there_and_back(4, 4, 2), [0, 1, 2, 3])
        self.assertEqual(there_and_back(6, 4, 1), [0, 1, 2, 3, 4, 5])
        self.assertEqual(there_and_back(6, 4, 2), [3, 2, 1, 0, 4, 5])
        self.assertEqual(there_and_back(9, 4, 2), [3, 2, 1, 0, 4, 5, 6, 7, 8])
        self.assertEqual(there_and_back(13, 4, 2), list(range(13)))
        self.assertEqual(there_and_back(9, 4, 3), [0, 1, 2, 3, 7, 6, 5, 4, 8])

    def test_as_few_heads_as_know_their_turn(self) -> None:
        with tempfile.TemporaryDirectory() as scratch:
            report = Path(scratch) / "report.jsonl"
            report.write_text(json.dumps({"sms": 58, "ctas_per_sm": 2}) + "\n")
            run = Recorded(OURS, "l4", report, [], 0)
            self.assertEqual(run.fewest_in_turns([8, 1, 4], 8), 1, "one round")
            self.assertEqual(run.fewest_in_turns([16, 1, 4], 16), 16)
            self.assertEqual(run.fewest_in_turns([16, 2, 4], 16), 8)
            self.assertEqual(run.fewest_in_turns([2, 1, 64], 2), 1)
            self.assertEqual(run.fewest_in_turns([64, 1, 4], 64), 1, "many rounds")

    def test_samples_stay_what_they_were(self) -> None:
        launch = heads_in_turns(self.LAUNCH, 2)
        self.assertEqual(launch["grid"], [2, 2, 3])
        self.assertEqual(instructions_by_cta(launch), [2, 2, 1, 1, 3, 3, 4, 4, 5, 5, 5, 5])
        (cta,) = launch["paths"]["ctas"]
        self.assertEqual(instructions_by_cta(launch)[cta["cta"]], cta["inst_executed"])

    def test_tiles_within_heads(self) -> None:
        run, counts = self.ordered([3, 2, 2], 2)
        self.assertEqual(run.head_axis, 1)
        self.assertEqual(counts, (40, 5 + 2 + 4))  # 1 3 5 1, 3 5 2 4, 5 2 4 5

    def test_another_plan_is_refused(self) -> None:
        with self.assertRaises(CannotRunError):
            self.ordered([3, 2, 1], 2)


class Page(unittest.TestCase):
    def test_it_is_what_its_table_says(self) -> None:
        text = (DOCS / "kernel-comparison.md").read_text()
        wanted = whole_calls.with_lead(text, whole_calls.lead(read(DOCS / "predict-map.csv"), PAGE))
        self.assertEqual(text, wanted, "bench/peers/predict_map.py --draw writes it anew")

    def test_either_half_can_be_written_without_the_other(self) -> None:
        both = "lead\n" + whole_calls.EXPLANATION + "\nwhy"
        self.assertEqual(whole_calls.with_lead(both, "new\n"), "new\n" + whole_calls.EXPLANATION + "\nwhy")
        self.assertEqual(whole_calls.with_explanation(both, "other"), "lead\nother")


class Kernels(unittest.TestCase):
    def test_ours_execute_what_the_page_says(self) -> None:
        if BUILD is None:
            self.skipTest("no build tree is given")
        stated = {call.problem: call.of[OURS] for call in whole_calls.calls(read(DOCS / "predict-map.csv"))
                  if OURS in call.of}  # fmt: skip
        for kind, head_dim, causal, length, heads in CHEAPEST:
            row = stated.get((kind, head_dim, causal, length, heads))
            with self.subTest(head_dim=head_dim, causal=causal, length=length):
                self.assertIsNotNone(row, "the table has no row of ours")
                found = self.count(BUILD, Problem(heads, heads, length, length, head_dim, causal))
                self.assertEqual(
                    found, (row.instructions, row.busiest_sm),
                    "the kernels changed: bench/peers/predict_map.py --side ours --write-docs",
                )  # fmt: skip

    def test_few_heads_stand_for_all_in_either_order(self) -> None:
        if BUILD is None:
            self.skipTest("no build tree is given")
        # Keys of all heads fit into L2 or not: so tiles of all heads begin by their length, or head after head.
        for gpu, heads, length, axis in (("l4", 8, 256, 0), ("l4", 16, 256, 0), ("l4", 8, 64, 0), ("a10", 64, 128, 1)):
            whole = Problem(heads, heads, length, length, 128, causal=True)
            with self.subTest(whole=whole), tempfile.TemporaryDirectory() as scratch:
                _, grid = first_launch(*self.harness(BUILD), whole, Path(scratch), VGPU_DEVICE=gpu)
                one = self.run_of(BUILD, whole._replace(heads_q=1, heads_kv=1), Path(scratch), gpu, f"heads={heads}")
                ran = one.fewest_in_turns(grid, heads) if axis == 0 else 1
                some = whole._replace(heads_q=ran, heads_kv=ran)
                (apart := Path(scratch) / "some").mkdir()
                run = self.run_of(BUILD, some, apart, gpu, f"heads={heads}").ordered_as(grid, heads // ran)
                self.assertEqual(run.head_axis, axis)
                found, wanted = run.counts(heads // ran), self.count(BUILD, whole, gpu)
                if axis == 0:
                    self.assertEqual(found, wanted)
                for one, exact in zip(found, wanted, strict=True):  # in the other order a head knew its turn
                    self.assertTrue(exact <= one <= 1.01 * exact, (one, exact))

    @staticmethod
    def harness(build: Path) -> tuple[Path, Path, Path]:
        return (
            build / "tests" / "peers" / "peers_host", build / "vgpu" / "libcuda.so.1",
            build / "bench" / "peers" / "flashmoe_peer.so",
        )  # fmt: skip

    def run_of(self, build: Path, problem: Problem, scratch: Path, gpu: str, plan: str = "") -> Recorded:
        report = scratch / "report.jsonl"
        settings = {"VGPU_DEVICE": gpu, "VGPU_PATHS": "1", "VGPU_PTXAS": "off", "FLASHMOE_PEER_PLAN": plan}
        launches_of(*self.harness(build), problem, report, judged=False, **settings)
        return Recorded(OURS, gpu, report, [], HEAD_AXIS[OURS])

    def count(self, build: Path, problem: Problem, gpu: str = "l4") -> tuple[int, int]:
        with tempfile.TemporaryDirectory() as scratch:
            return self.run_of(build, problem, Path(scratch), gpu).counts(1)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        BUILD = Path(sys.argv.pop(1))
    unittest.main()
