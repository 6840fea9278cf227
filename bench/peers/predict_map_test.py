"""The map's parts that need no build: cells, what is hatched, the page, the picture, the table; seconds."""

from __future__ import annotations

import tempfile
import unittest
from dataclasses import dataclass, replace
from pathlib import Path

import affine
from comparison import FLASH_ATTENTION, FLASHINFER, OURS
from map_cells import cells
from map_page import page
from map_picture import picture
from predict_map import AFFINE, ONLY_COUNTED, RUN, Mapper, Row, read, with_known_prediction, write
from predicted import Predicted, busiest_sm
from problems import Problem, flash_attention_instance, flashinfer_instance


def row(side: str, microseconds: float, **changes: object) -> Row:
    base = Row("l4", 1024, 8, 64, False, side, 1000.0, microseconds, 64, 1, "", 0)
    return replace(base, **changes)


class Cells(unittest.TestCase):
    def test_the_better_peer_counts(self) -> None:
        ((cell,),) = cells([row(OURS, 20.0), row(FLASHINFER, 30.0), row(FLASH_ATTENTION, 25.0)]).values()
        self.assertAlmostEqual(cell.speedup, 1.25)
        self.assertEqual(cell.peer.side, FLASH_ATTENTION)
        self.assertTrue(cell.is_validated)

    def test_a_refusal_is_no_time(self) -> None:
        ((cell,),) = cells([row(OURS, 20.0), row(FLASHINFER, 5.0, refusal="L2"), row(FLASH_ATTENTION, 25.0)]).values()
        self.assertAlmostEqual(cell.speedup, 1.25)
        self.assertFalse(cell.is_validated)  # the better peer may be the one that is not predicted
        ((cell,),) = cells([row(OURS, 20.0, refusal="L2"), row(FLASH_ATTENTION, 25.0)]).values()
        self.assertIsNone(cell.speedup)
        self.assertIn("Not predicted: 1 cells", page([row(OURS, 20.0, refusal="L2"), row(FLASH_ATTENTION, 25.0)]))

    def test_what_nobody_validated_is_hatched(self) -> None:
        for changes in ({"microseconds": 9.9}, {"ctas": 57}, {"doubts": 1}):
            with self.subTest(changes=changes):
                rows = [replace(row(OURS, 20.0), **changes), row(FLASH_ATTENTION, 25.0)]
                ((cell,),) = cells(rows).values()
                self.assertFalse(cell.is_validated)
                self.assertIn('fill="url(#hatch)"', picture(rows))
        self.assertNotIn('fill="url(#hatch)"', picture([row(OURS, 20.0), row(FLASH_ATTENTION, 25.0)]))

    def test_the_page_counts_both_ways(self) -> None:
        rows = [row(OURS, 20.0), row(FLASHINFER, 30.0), row(OURS, 20.0, heads=16), row(FLASHINFER, 16.0, heads=16)]
        self.assertIn("| l4, D=64 | 2 | 2 | 1 | 1 | 1.10 | 0.80 at S=1024, B x H=16 |", page(rows))

    def test_the_table_comes_back(self) -> None:
        rows = [row(OURS, 20.5, causal=True), row(FLASHINFER, 30.25, refusal="a, b")]
        with tempfile.TemporaryDirectory() as folder:
            write(Path(folder) / "map.csv", rows)
            self.assertEqual(sorted(read(Path(folder) / "map.csv"), key=lambda one: one.key),
                             sorted(rows, key=lambda one: one.key))  # fmt: skip


@dataclass(frozen=True)
class StandIn:
    """Of so many heads; keys are split below 100 CTAs."""

    heads: int
    head_axis: int = 0
    is_in_turns: bool = False

    def ctas(self, times: int = 1) -> list[int]:
        ctas = [16 * self.heads * times]
        return ctas if ctas[0] >= 100 else [2 * ctas[0], 1]

    def has_whole_keys(self, least_ctas: int) -> bool:
        return len(self.ctas()) == 1 and self.ctas()[0] >= least_ctas

    def ordered_as(self, whole: list[int], times: int) -> StandIn:
        assert whole == [16, times, 1]
        return replace(self, head_axis=int(times >= 16))


class Standing(Mapper):
    def __init__(self) -> None:
        self.gpu, self.shorter = "l4", ()
        self.ran: list[int] = []
        self.stopped: list[int] = []
        self.predictor = self  # type: ignore[assignment]

    def _run(  # type: ignore[override]
        self, side: str, problem: Problem, scratch: Path, plan: str = "", split: bool = False
    ) -> StandIn:
        self.ran.append(problem.heads_q)
        return StandIn(problem.heads_q)

    @staticmethod
    def _folder(scratch: Path) -> Path:
        return scratch

    def own_launch(self, problem: Problem, gpu: str, scratch: Path, plan: str = "") -> tuple[str, list[int]]:
        if not plan:
            self.stopped.append(problem.heads_q)
        return "small" if plan == "heads=1" else "large", [16, problem.heads_q, 1]

    def predict_recorded(self, run: StandIn, times: int = 1) -> Predicted:
        launched = run.ctas(times)
        return Predicted(FLASHINFER, ["k"], launched, launched[0], 1.0, 1.0, "", [], [])


class Runs(unittest.TestCase):
    def test_few_heads_stand_for_many_once_keys_are_whole(self) -> None:
        mapper = Standing()
        found = list(mapper.peer(FLASHINFER, Problem(1, 1, 2048, 2048, 64), [1, 2, 4, 8, 16, 32], Path()))
        self.assertEqual(mapper.ran, [1, 2, 4, 8])
        self.assertEqual([one.ctas for one in found], [32, 64, 128, 128, 256, 512])

    def test_heads_that_the_page_leaves_out_are_tried_too(self) -> None:
        mapper = Standing()
        found = list(mapper.peer(FLASHINFER, Problem(1, 1, 2048, 2048, 64), [1, 16, 64], Path()))
        self.assertEqual(mapper.ran, [1, 4, 8])
        self.assertEqual([one.heads_run for one in found], [1, 8, 8])
        self.assertEqual([one.ctas for one in found], [32, 256, 1024])

    def test_one_head_of_ours_stands_for_all_in_their_order(self) -> None:
        for causal, stopped in ((False, []), (True, [8, 16])):
            mapper = Standing()
            found = list(mapper.ours(Problem(1, 1, 2048, 2048, 64, causal), [1, 8, 16, 64], Path()))
            self.assertEqual(mapper.ran, [1, 1], "one run of each plan")
            self.assertEqual(mapper.stopped, stopped, "beyond L2 the order is known")
            self.assertEqual([one.heads_run for one in found], [1, 1, 1, 1])
            self.assertEqual([one.ctas for one in found], [32, 128, 256, 1024])

    def test_a_count_leaves_a_peers_prediction_alone(self) -> None:
        known = row(FLASHINFER, 30.0)
        counted = replace(known, cycles=0.0, microseconds=0.0, refusal=ONLY_COUNTED, instructions=7, busiest_sm=3)
        self.assertEqual(with_known_prediction(counted, known), replace(known, instructions=7, busiest_sm=3))
        self.assertEqual(with_known_prediction(counted, None), counted)
        ours = replace(counted, side=OURS)
        self.assertEqual(with_known_prediction(ours, row(OURS, 30.0)), ours, "the kernel may be another one now")
        self.assertFalse(Standing().is_enough(counted), "who predicts does it again")
        self.assertTrue(Standing().is_enough(known))

    def test_instances(self) -> None:
        problem = Problem(1, 1, 2048, 2048, 128, True)
        self.assertEqual(flash_attention_instance(problem), "fa2_fwd_hd128_causal")
        self.assertEqual(flash_attention_instance(problem, 80), "fa2_fwd_hd128_causal_sm80")
        self.assertEqual(flash_attention_instance(problem, 80, split=True), "fa2_split_hd128_causal_even_sm80")
        self.assertEqual(flashinfer_instance(problem._replace(len_q=64), 80), "fi_prefill_hd128_causal_q64_sm80")


class Affine(unittest.TestCase):
    """Of 128 rows a tile: 10 a CTA and 3 for each tile of keys; under a mask 5 more in the first tile or the last."""

    @staticmethod
    def shorter(causal: bool, other: int = 0, step: int = 1) -> list[Row]:
        return [Affine.made(causal, length, 64, other, step) for length in affine.LENGTHS]

    @staticmethod
    def made(causal: bool, length: int, heads: int, other: int, step: int) -> Row:
        of_head = [10 + 3 * keys for keys in affine.tiles_seen(length // 128, causal)]
        of_head[other] += 5 if causal else 0
        ctas = of_head[::step] * heads
        counts = {"instructions": sum(ctas), "busiest_sm": busiest_sm(ctas, 58), "ctas": len(ctas)}
        return row(FLASHINFER, 1.0, length=length, heads=heads, causal=causal, **counts)

    def test_longer_ones_follow(self) -> None:
        for causal, other, step in ((False, 0, 1), (True, 0, 1), (True, 0, -1), (True, -1, 1), (True, -1, -1)):
            with self.subTest(causal=causal, other=other, step=step):
                mapper = Standing()
                mapper.shorter = self.shorter(causal, other, step)
                problem = Problem(1, 1, 8192, 8192, 64, causal)
                one, many = mapper.peer(FLASHINFER, problem, [1, 8], Path())
                self.assertEqual(mapper.ran, [1], "64 CTAs: a plan may split their keys")
                self.assertEqual((one.how, many.how, many.heads_run), (RUN, AFFINE, 0))
                wanted = self.made(causal, 8192, 8, other, step)
                self.assertEqual((many.instructions, many.busiest_sm, many.ctas),
                                 (wanted.instructions, wanted.busiest_sm, wanted.ctas))  # fmt: skip

    def test_one_that_leaves_the_line_is_refused(self) -> None:
        for causal in (False, True):
            good = self.shorter(causal)
            self.assertIsNotNone(affine.lengthened(good, 8192, 8, 58))
            for at, off in ((3, {"instructions": good[3].instructions + 64}), (3, {"busiest_sm": 1}),
                            (0, {"instructions": good[0].instructions + 64}), (2, {"launches": 2})):  # fmt: skip
                bad = [replace(one, **off) if i == at else one for i, one in enumerate(good)]
                with self.subTest(causal=causal, at=at, off=off):
                    self.assertIsNone(affine.lengthened(bad, 8192, 8, 58))
            self.assertIsNone(affine.lengthened(good[1:], 8192, 8, 58))


if __name__ == "__main__":
    unittest.main()
