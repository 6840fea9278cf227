"""The parts of the validation that need no download: labels, splits, declared paths, fits, tables; seconds."""

from __future__ import annotations

import itertools
import math
import re
import tomllib
import unittest
from dataclasses import replace

from declared_paths import PathError, faults, flat, read_all
from fits import fitted_clock_mhz, fitted_event_times, tensor_pipe_cycles
from frozen import Frozen, moved, point_key
from judgement import EFFICIENCY, MODEL, PIPE, Facts, held_out, never_fitted, ratios, signs
from published import HERE, REGIMES, SPLITS, USES, Point, fitted_shapes, read_cards, read_points
from sass_steps import steps

POINTS = read_points()
CARDS = read_cards()
BOOST = 2000.0
FACTS = {card: Facts(50, BOOST, 16, 300) for card in CARDS}


def point(**changes: object) -> Point:
    base = Point("a6000", "fa2", 64, False, 1, 8, 1024, 1.0, "ms", "sage", "split", "sustained", "")
    return replace(base, **changes)


class Labels(unittest.TestCase):
    def test_every_row_says_what_it_is_for(self) -> None:
        sources = tomllib.loads((HERE / "sources.toml").read_text())
        for row in POINTS:
            with self.subTest(row=row):
                self.assertIn(row.use, USES)
                self.assertIn(row.card, CARDS)
                self.assertIn(row.source, sources)
                self.assertEqual(row.use == "excluded", row.regime == "")
                if row.use == "excluded":
                    self.assertNotEqual(row.why, "")
                else:
                    self.assertIn(row.regime, REGIMES)

    def test_regimes_of_the_l4_follow_their_rule(self) -> None:
        for row in POINTS:
            if row.card != "l4" or row.use == "excluded":
                continue
            if row.seqlen >= 1024:
                self.assertEqual(row.regime, "throttled")
            elif row.dram_bytes > 48 * 2**20:
                self.assertEqual((row.regime, row.seqlen), ("dram", 512))
            else:
                self.assertEqual(row.regime, "boost")

    def test_host_time_is_never_validated_on(self) -> None:
        used = [row for row in POINTS if row.card == "l4" and row.use != "excluded"]
        self.assertTrue(used)
        self.assertGreaterEqual(min(row.ms for row in used), 0.08)  # twice the floor of a call, 0.043 ms

    def test_units(self) -> None:
        self.assertAlmostEqual(point(value=2.0).ms, 2.0)
        flop = 4 * 8 * 1024**2 * 64
        self.assertAlmostEqual(point(value=1.0, unit="TFLOPS").ms, flop / 1e9)
        self.assertAlmostEqual(point(value=1.0, unit="TFLOPS", causal=True).ms, flop / 2e9)


class Splits(unittest.TestCase):
    def test_they_are_halves_and_differ(self) -> None:
        rows = [row for row in POINTS if row.use == "split"]
        chosen = [fitted_shapes(rows, seed) for seed in SPLITS]
        self.assertEqual(len(chosen), 20)
        self.assertGreater(len({frozenset(one) for one in chosen}), 15)
        for one in chosen:
            for card in {row.card for row in rows}:
                shapes = {row.shape for row in rows if row.card == card}
                fitted = {shape for name, shape in one if name == card}
                self.assertTrue(fitted < shapes)
                self.assertLessEqual(abs(2 * len(fitted) - len(shapes)), 3)

    def test_they_are_the_same_every_time(self) -> None:
        rows = [row for row in POINTS if row.use == "split"]
        self.assertEqual(fitted_shapes(rows, 7), fitted_shapes(list(reversed(rows)), 7))

    def test_every_regime_is_fitted_and_held_out(self) -> None:
        rows = [row for row in POINTS if row.use == "split" and row.card == "l4"]
        for seed in SPLITS:
            one = fitted_shapes(rows, seed)
            for fitted in (True, False):
                regimes = {row.regime for row in rows if ((row.card, row.shape) in one) == fitted}
                self.assertEqual(regimes, {"boost", "dram", "throttled"})


SASS = """
.text.kernel:
.L_x_0:
        /*0000*/                   MOV R1, c[0x0][0x28] ;          /* 0x0 */
                                                                   /* 0x0 */
.L_x_1:
        /*0010*/                   HMMA.16816.F32 R4, R4, R8, R4 ; /* 0x0 */
        /*0020*/              @P0  BRA `(.L_x_1) ;                 /* 0x0 */
        /*0030*/                   BRA `(.L_x_2) ;                 /* 0x0 */
        /*0040*/                   MOV R2, R3 ;                    /* 0x0 */
.L_x_2:
        /*0050*/                   EXIT ;                          /* 0x0 */
"""


class Paths(unittest.TestCase):
    def setUp(self) -> None:
        self.code = steps(SASS)
        whole = read_all()["fa2_d64_full"]
        self.kernel = replace(whole, instructions=6)

    def faults(self, runs: list[tuple[int, int]]) -> list[str]:
        piece = replace(self.kernel.paths[0][2][0], ranges=runs)
        return faults(replace(self.kernel, paths=[(1, 1, [piece])]), self.code, 1)

    def test_all_are_read(self) -> None:
        kernels = read_all()
        self.assertEqual(len(kernels), 10)
        for kernel in kernels.values():
            first = kernel.paths[0][0]
            lengths = [
                sum(last - begin + 1 for begin, last in flat(kernel.groups(n))) for n in range(first + 3, first + 7)
            ]
            growth = {after - before for before, after in itertools.pairwise(lengths)}
            self.assertEqual(len(growth), 1, kernel.name)  # affine in the blocks of keys
        with self.assertRaises(PathError):
            kernels["fa2_d128_causal_sm80"].groups(1)

    def test_steps_are_read(self) -> None:
        self.assertEqual([step.opcode for step in self.code], ["MOV", "HMMA", "BRA", "BRA", "MOV", "EXIT"])
        self.assertEqual([step.target for step in self.code], [None, None, 1, 5, None, None])
        self.assertEqual([step.always for step in self.code], [True, True, False, True, True, True])

    def test_a_path_of_the_code_has_no_fault(self) -> None:
        self.assertEqual(self.faults([(0, 2), (1, 2), (1, 3), (5, 5)]), [])

    def test_faults_are_found(self) -> None:
        self.assertIn("leaves at 3", self.faults([(0, 5)])[0])  # past a branch that is always taken
        self.assertIn("does not follow", self.faults([(0, 2), (5, 5)])[0])
        self.assertIn("no EXIT", self.faults([(0, 3)])[0])
        self.assertIn("does not begin", self.faults([(1, 3), (5, 5)])[0])
        self.assertIn("no range", self.faults([(0, 9)])[0])
        self.assertIn("declared are", faults(read_all()["fa2_d64_full"], self.code, 1)[0])

    def test_causal_grids(self) -> None:
        kernels = read_all()
        self.assertEqual(kernels["fa2_d64_causal"].key_blocks(512), [1, 2, 3, 4])
        self.assertEqual(kernels["fa2_d128_causal_sm80"].key_blocks(256), [2, 4])
        self.assertEqual(kernels["fmha_d128_causal"].key_blocks(256), [1, 1, 2, 2])
        self.assertEqual(kernels["fa2_d128_full"].key_blocks(256), [8, 8])


class Fits(unittest.TestCase):
    """On rows that are made, so that what is to be found is known."""

    def test_a_clock_is_found(self) -> None:
        rows = [point(seqlen=s, value=s / 1500.0) for s in (1000, 3000, 9000)]
        self.assertAlmostEqual(fitted_clock_mhz(lambda p: p.seqlen * 1e3, rows), 1500)

    def test_three_terms_are_found(self) -> None:
        def made(regime: str, seqlen: int, heads: int) -> Point:
            cycles = seqlen * heads * 2.0
            kernel = cycles / (900e3 if regime == "throttled" else BOOST * 1e3)
            row = point(card="l4", regime=regime, seqlen=seqlen, heads=heads)
            if regime == "dram":
                kernel = max(kernel, row.dram_bytes / (0.7 * 300e6))
            return replace(row, value=0.03 + kernel)

        rows = [made("boost", 512, 2), made("boost", 512, 4), made("dram", 512, 512), made("throttled", 2048, 8)]
        found = fitted_event_times(lambda p: p.seqlen * p.heads * 2.0, rows, BOOST, 300)
        self.assertAlmostEqual(found.gap_ms, 0.03, places=5)
        self.assertAlmostEqual(found.dram_efficiency, 0.7, places=4)
        self.assertAlmostEqual(found.throttled_mhz, 900, places=1)

    def test_the_tensor_pipe_fills_whole_waves(self) -> None:
        kernel = read_all()["fa2_d64_full"]
        one = tensor_pipe_cycles(kernel, 128, 2, 1, 16)
        self.assertEqual(one, 2 * 256 * 16)  # two CTAs share the pipe: 256 HMMAs of each of four warps
        self.assertEqual(tensor_pipe_cycles(kernel, 128, 3, 1, 16), 2 * one)


class Tables(unittest.TestCase):
    def setUp(self) -> None:
        self.rows = [
            point(card=card, seqlen=s, heads=h, value=s * s * h / 1e6 * factor)
            for card, factor in (("a6000", 1.0), ("l20", 1.3))
            for s in (512, 1024, 2048)
            for h in (1, 2, 3)
        ]

    def test_a_perfect_model_has_no_error(self) -> None:
        result = held_out(self.rows, FACTS, lambda p: p.seqlen**2 * p.heads, lambda p: p.seqlen * p.heads)
        self.assertEqual(result.cards(), ["a6000", "l20"])
        self.assertLess(result.mean(MODEL, result.cards()), 1e-9)
        self.assertLess(result.mean(EFFICIENCY, result.cards()), 1e-9)
        self.assertGreater(result.mean(PIPE, result.cards()), 0.2)

    def test_a_card_that_was_never_fitted(self) -> None:
        def cycles(p: Point) -> float:
            return p.ms * 1e3 * BOOST * 0.8 * (1.25 if p.card == "l20" else 1)

        found = {one.card: one for one in never_fitted(self.rows, FACTS, cycles)}
        self.assertAlmostEqual(found["a6000"].at_boost, 0.2)
        self.assertAlmostEqual(found["l20"].at_boost, 0.0)
        self.assertAlmostEqual(found["l20"].at_share, 0.25)

    def test_ratios(self) -> None:
        rows = [point(value=1.0), point(kernel="fmha", use="ratio", value=3.0)]
        (found,) = ratios(rows, lambda p: 200.0 if p.kernel == "fmha" else 100.0)
        self.assertAlmostEqual(found.deviation, 2 / 3 - 1)

    def test_signs(self) -> None:
        rows = [point(seqlen=s, value=s * s / 1e6 / speed) for s, speed in ((512, 1.0), (1024, 1.08), (2048, 1.07))]
        predicted = {512: 1.0, 1024: 1.03, 2048: 1.12}
        found = signs(rows, lambda p: p.seqlen**2 / predicted[p.seqlen], same_shape=False)
        self.assertEqual([(row.pairs, row.right) for row in found], [(1, 1), (1, 0), (1, 1), (0, 0)])
        self.assertEqual(sum(row.pairs for row in signs(rows, lambda p: 1.0, same_shape=True)), 0)
        self.assertTrue(math.isinf(found[-1].most_gap))


class FrozenModel(unittest.TestCase):
    def test_the_page_tells_of_every_version(self) -> None:
        page = (HERE.parents[1] / "docs" / "predict.md").read_text()
        told = [int(number) for number in re.findall(r"^\| (\d+) \| `[0-9a-f]{7}` \|", page, re.MULTILINE)]
        self.assertEqual(told, list(range(1, Frozen.read().version + 1)))

    def test_every_row_that_is_used_has_its_figure(self) -> None:
        figures = Frozen.read().figures
        wanted = {point_key(row) for row in POINTS if row.use != "excluded"}
        self.assertEqual(wanted - figures.keys(), set())
        self.assertEqual(len(figures.keys() - wanted), 4)  # the uses that a profiler measured

    def test_a_model_that_moved_is_found(self) -> None:
        self.assertEqual(moved({"a": 100.0, "b": 1.0}, {"a": 100.05, "b": 1.0}, whole=True), [])
        self.assertEqual(len(moved({"a": 100.0}, {"a": 100.2}, whole=True)), 1)
        self.assertEqual(len(moved({"a": 100.0, "b": 1.0}, {"a": 100.0}, whole=True)), 1)
        self.assertEqual(moved({"a": 100.0, "b": 1.0}, {"a": 100.0}, whole=False), [])
        self.assertEqual(len(moved({"a": 100.0}, {"a": 100.0, "b": 1.0}, whole=False)), 1)


if __name__ == "__main__":
    unittest.main()
