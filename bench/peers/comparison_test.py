"""What is made of the figures: useful work, sums over launches, goals, page and picture. No compiler, no GPU."""

from __future__ import annotations

import unittest
import xml.etree.ElementTree as ElementTree
from dataclasses import replace
from typing import Any

import plot
import report
from comparison import FLASH_ATTENTION, FLASHINFER, OURS, SIDES, Comparison, Goal, Instance, Row
from compile_cost import CompileCost, macros_of
from executed import CannotRunError, summarise
from problems import DECODE, PREFILL, PROBLEMS, Problem, flash_attention_instance, flashinfer_instance
from tensor_use import MainLoop


def launch(kernel: str, **metrics: float) -> dict[str, Any]:
    values = {
        "launch__grid_size": 12, "launch__block_size": 128, "launch__shared_mem_per_block": 32768,
        "vgpu__ptx_inst_executed.sum": 1000, "vgpu__coalescing_efficiency.pct": 100.0, **metrics,
    }  # fmt: skip
    return {
        "kernel": kernel, "registers": 168, "spill_store_bytes": 0, "spill_load_bytes": 4, "ctas_per_sm": 3,
        "occupancy_percent": 25.0, "metrics": [{"name": name, "value": value} for name, value in values.items()],
    }  # fmt: skip


EXECUTED = summarise(
    [
        launch(
            "merge",
            **{"vgpu__async_copy_requests_mem_global.sum": 2, "vgpu__async_copy_sectors_mem_global.sum": 8},
        ),
        launch(
            "attention",
            **{
                "vgpu__ptx_inst_executed_pipe_tensor.sum": 4096,
                "l1tex__t_requests_pipe_lsu_mem_global_op_st.sum": 2,
                "l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum": 32,
            },
        ),
    ],
    right=True,
)


def loop_of(instructions: int, use: float, shared_port: float, beside: int = 0) -> MainLoop:
    whole = instructions + beside
    busy = {"tensor": 2048}
    return MainLoop(instructions, whole, 0, 128, 128, use, shared_port, use, 2048, busy, 0, 0, {"HMMA": 128})


def comparison_of(ours: MainLoop, flashinfer: MainLoop, flash_attention: MainLoop, hmmas: int = 4096) -> Comparison:
    """The same loops for every problem; ours executes `hmmas`, the others 4096."""
    rows = []
    for problem in PREFILL:
        for side, loop in ((OURS, ours), (FLASHINFER, flashinfer), (FLASH_ATTENTION, flash_attention)):
            instance = Instance(side, f"{side} {problem.head_dim}", problem.head_dim, loop, CompileCost(1.0, 10**8))
            rows.append(Row(problem, instance, replace(EXECUTED, hmmas=hmmas if side == OURS else 4096)))
    return Comparison(rows)


def reached(comparison: Comparison) -> list[bool | None]:
    return [goal.reached for goal in comparison.goals()]


class Problems(unittest.TestCase):
    def test_useful_work_counts_visible_pairs(self) -> None:
        self.assertEqual(Problem(2, 2, 4, 4, 8).useful_flops, 4 * 2 * 16 * 8)
        self.assertEqual(Problem(2, 2, 4, 4, 8, causal=True).useful_flops, 4 * 2 * 10 * 8)
        self.assertEqual(Problem(1, 1, 2, 4, 8, causal=True).visible_pairs, 3 + 4)

    def test_compulsory_bytes(self) -> None:
        self.assertEqual(Problem(8, 2, 1, 100, 64).compulsory_bytes, 2 * (2 * 8 * 64 + 2 * 2 * 100 * 64))

    def test_what_is_asked_for(self) -> None:
        lengths = {(p.len_q, p.head_dim, p.causal) for p in PREFILL}
        self.assertEqual(len(lengths), 20)
        self.assertEqual({length for length, _, _ in lengths}, {32, 64, 128, 512, 2048})
        self.assertEqual([(p.len_kv, p.heads_q // p.heads_kv) for p in DECODE], [(4096, 4)])
        self.assertEqual(len({p.name for p in PROBLEMS}), len(PROBLEMS))

    def test_the_peers_instances_fit_their_tiles(self) -> None:
        self.assertEqual(flashinfer_instance(Problem(1, 1, 64, 64, 64, True)), "fi_prefill_hd64_causal_q64")
        self.assertEqual(flashinfer_instance(Problem(1, 1, 65, 65, 128)), "fi_prefill_hd128")
        self.assertEqual(flash_attention_instance(Problem(1, 1, 64, 64, 64)), "fa2_fwd_hd64_uneven")
        self.assertEqual(flash_attention_instance(Problem(1, 1, 64, 64, 128, True)), "fa2_fwd_hd128_causal")
        self.assertEqual(flash_attention_instance(Problem(1, 1, 128, 96, 128)), "fa2_fwd_hd128")


class Reports(unittest.TestCase):
    def test_launches_are_added_and_the_main_one_is_described(self) -> None:
        self.assertEqual(EXECUTED.kernels, ["attention", "merge"])
        self.assertEqual((EXECUTED.hmmas, EXECUTED.ptx_instructions), (4096, 2000))
        self.assertEqual(EXECUTED.sectors_per_request, 10)
        self.assertEqual((EXECUTED.registers, EXECUTED.spill_load_bytes, EXECUTED.ctas_per_sm), (168, 4, 3))

    def test_macros_of_an_instance(self) -> None:
        self.assertEqual(
            macros_of("forward_bf16_d128_large_paged"),
            {"FMS_NAME": "forward_bf16_d128_large_paged", "FMS_ELEMENT": "BFloat16", "FMS_DIM": "128",
             "FMS_TILE_CLASS": "large", "FMS_PAGED": "1", "FMS_MODIFIED": "0"},
        )  # fmt: skip
        with self.assertRaises(CannotRunError):
            macros_of("some_other_kernel")


class Goals(unittest.TestCase):
    def test_all_reached(self) -> None:
        good = comparison_of(loop_of(512, 0.95, 0.90), loop_of(1200, 0.8, 0.7), loop_of(1100, 0.9, 0.8))
        self.assertEqual(reached(good), [True] * 7)

    def test_each_charge_must_be_above(self) -> None:
        low = comparison_of(loop_of(512, 0.95, 0.79), loop_of(1200, 0.8, 0.7), loop_of(1100, 0.9, 0.8))
        self.assertEqual(reached(low), [True, False, True, False, True, True, True])

    def test_tensor_use_has_a_limit_for_each_head_size(self) -> None:
        between = comparison_of(loop_of(512, 0.915, 0.9), loop_of(1200, 0.8, 0.7), loop_of(1100, 0.9, 0.8))
        self.assertEqual(reached(between)[:4], [False, True, True, True])

    def test_executed_work_is_compared_with_padding(self) -> None:
        padded = comparison_of(loop_of(512, 0.95, 0.9), loop_of(1200, 0.8, 0.7), loop_of(1100, 0.9, 0.8), hmmas=8192)
        # 1024 instructions' worth: below 1200, at most 1.35 x 1100, but above 0.5 x 1100.
        self.assertEqual(reached(padded)[4:], [True, True, False])

    def test_one_problem_that_misses_is_enough(self) -> None:
        rows = comparison_of(loop_of(512, 0.95, 0.9), loop_of(1200, 0.8, 0.7), loop_of(1100, 0.9, 0.8)).rows
        first = replace(rows[0], executed=replace(rows[0].executed, hmmas=3 * 4096))
        goal = Comparison([first, *rows[1:]]).goals()[4]
        self.assertEqual(goal.reached, False)
        self.assertIn("19 of 20 problems", goal.figure)
        self.assertIn("worst 1.28 times (prefill S=32 D=64)", goal.figure)

    def test_equal_is_not_below(self) -> None:
        equal = comparison_of(loop_of(512, 0.95, 0.9), loop_of(512, 0.8, 0.7), loop_of(1024, 0.9, 0.8))
        self.assertEqual(reached(equal)[4:], [False, True, True])

    def test_the_shortest_round_decides_and_whole_loops_are_told(self) -> None:
        theirs = loop_of(500, 0.8, 0.7, beside=100)
        goal = comparison_of(loop_of(512, 0.95, 0.9), theirs, loop_of(1024, 0.9, 0.8)).goals()[4]
        self.assertEqual(goal.reached, False)
        self.assertIn("0 of 20 problems, 20 by whole loops", goal.figure)

    def test_nothing_to_judge_by(self) -> None:
        rows = comparison_of(loop_of(512, 0.95, 0.9), loop_of(512, 0.8, 0.7), loop_of(1024, 0.9, 0.8)).rows
        alone = Comparison([row for row in rows if row.instance.side != OURS])
        self.assertEqual(reached(alone), [None] * 7)


class Pages(unittest.TestCase):
    def setUp(self) -> None:
        self.comparison = comparison_of(loop_of(512, 0.95, 0.9), loop_of(600, 0.8, 0.7), loop_of(1024, 0.9, 0.8))

    def test_every_problem_and_kernel_is_in_the_tables(self) -> None:
        page = report.explanation(self.comparison)
        for row in self.comparison.rows:
            self.assertIn(f"| {row.problem.name} | {row.instance.side} |", page)
            self.assertIn(f"`{row.instance.name}`", page)

    def test_tables_have_as_many_cells_in_every_line(self) -> None:
        of_instances = (report.instances_table, report.rounds_table, report.opcodes_table)
        for make in (report.goals_table, report.rows_table, *of_instances):
            lines = make(self.comparison).splitlines()
            self.assertEqual({line.count("|") for line in lines}, {lines[0].count("|")}, make.__name__)

    def test_a_wrong_result_is_shown(self) -> None:
        row = self.comparison.rows[0]
        wrong = Comparison([replace(row, executed=replace(row.executed, right=False))])
        self.assertIn("| NO |", report.rows_table(wrong))

    def test_a_kernel_without_products_has_its_row(self) -> None:
        instance = Instance(FLASHINFER, "decode", 128, None, None)
        rows = [Row(DECODE[0], instance, replace(EXECUTED, hmmas=0))]
        page = report.explanation(Comparison(rows))
        self.assertIn("no HMMA", page)
        self.assertEqual(Comparison(rows).to_json()["rows"][0]["instructions_per_kiloflop"], None)

    def test_the_picture_has_a_bar_for_each_row(self) -> None:
        picture = ElementTree.fromstring(plot.svg(self.comparison))
        titles = [element.text for element in picture.iter() if element.tag.endswith("title")]
        self.assertEqual(len(titles), len(PREFILL) * len(SIDES))

    def test_verdicts(self) -> None:
        words = [report.verdict(Goal("", "", reached)) for reached in (True, False, None)]
        self.assertEqual(words, ["reached", "missed", "nothing to judge by"])


if __name__ == "__main__":
    unittest.main()
