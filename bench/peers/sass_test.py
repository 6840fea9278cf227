"""The analyser itself, on SASS small enough to count by hand."""

from __future__ import annotations

import unittest

from gpu_pipes import Pipes
from sass import Function, innermost, loops, parse, register_number
from tensor_use import (
    busy_clocks,
    is_useful,
    longest_stretch_without_hmma,
    main_loop,
    pipe_clocks,
    round_clocks,
    tensor_clocks_share,
)


def listing(*lines: str, name: str = "kernel") -> str:
    """As nvdisasm -c prints it: labels end with a colon, everything else is an instruction."""
    text = [f'\t.section\t.text.{name},"ax",@progbits', f".text.{name}:"]
    address = 0
    for line in lines:
        if line.endswith(":"):
            text.append(line)
        else:
            text.append(f"        /*{address:04x}*/                   {line} ;")
            address += 16
    return "\n".join(text)


def function_of(*lines: str) -> Function:
    (function,) = parse(listing(*lines))
    return function


L4 = Pipes(architecture="sm_89", hmma_16816_f32=16, transcendental=8, fp32=1, alu=2)
HMMA = "HMMA.16816.F32 R4, R20.reuse, R24, R4"


class Parsing(unittest.TestCase):
    def test_instructions_labels_and_functions(self) -> None:
        text = listing("MOV R1, c[0x0][0x28]", ".L_x_1:", "@!P0 BRA `(.L_x_1)", name="one")
        one, two = parse(text + "\n" + listing("EXIT", name="two"))
        self.assertEqual([one.name, two.name], ["one", "two"])
        self.assertEqual(one.labels, {".L_x_1": 1})
        self.assertEqual(one.code[0].operands, ("R1", "c[0x0][0x28]"))
        self.assertEqual((one.code[1].guard, one.code[1].base, one.code[1].target), ("@!P0", "BRA", ".L_x_1"))

    def test_register_numbers(self) -> None:
        operands = ("R12", "-R3.reuse", "|R7|", "RZ", "PT", "0x3f", "[R2+0x10]")
        numbers = [register_number(operand) for operand in operands]
        self.assertEqual(numbers, [12, 3, 7, None, None, None, None])


class Loops(unittest.TestCase):
    def test_a_nested_loop_is_the_inner_one(self) -> None:
        function = function_of(
            "MOV R0, RZ",
            ".L_x_0:",
            "IADD3 R0, R0, 0x1, RZ",
            ".L_x_1:",
            HMMA,
            "@P0 BRA `(.L_x_1)",
            "@P1 BRA `(.L_x_0)",
            "EXIT",
        )
        found = loops(function)
        self.assertEqual(sorted(sorted(loop.indices) for loop in found), [[1, 2, 3, 4], [2, 3]])
        self.assertEqual([loop.indices for loop in innermost(found)], [[2, 3]])

    def test_a_branch_backward_alone_is_no_loop(self) -> None:
        # Code out of line, before the place that leads to it: nothing is executed twice.
        function = function_of("BRA `(.L_x_1)", ".L_x_0:", HMMA, "EXIT", ".L_x_1:", "NOP", "BRA `(.L_x_0)")
        self.assertEqual(loops(function), [])

    def test_code_out_of_line_belongs_to_the_loop_but_not_to_its_shortest_round(self) -> None:
        function = function_of(
            "BRA `(.L_x_1)",
            ".L_x_0:",  # the block beside: a copy of the next keys
            "LDGSTS.E.128 [R1], [R2.64]",
            "BRA `(.L_x_2)",
            ".L_x_1:",
            HMMA,
            "@P0 BRA `(.L_x_0)",
            ".L_x_2:",
            HMMA,
            "@P1 BRA `(.L_x_1)",
            "EXIT",
        )
        (loop,) = loops(function)
        self.assertEqual(sorted(loop.indices), [1, 2, 3, 4, 5, 6])
        self.assertEqual(loop.shortest_round(function, "HMMA"), [3, 4, 5, 6])

    def test_a_round_with_all_products_is_taken_over_a_shorter_one(self) -> None:
        function = function_of(
            ".L_x_0:", HMMA, "@P0 BRA `(.L_x_1)", HMMA, HMMA, ".L_x_1:", "NOP", "@P1 BRA `(.L_x_0)", "EXIT"
        )
        (loop,) = loops(function)
        self.assertEqual(loop.shortest_round(function, "HMMA"), [0, 1, 2, 3, 4, 5])

    def test_products_add_up_along_a_round(self) -> None:
        # Two products and then a block without one, or a single product: the first way has more.
        function = function_of(
            ".L_x_0:", "@P0 BRA `(.L_x_2)", HMMA, HMMA, "@P1 BRA `(.L_x_1)", "NOP", ".L_x_1:", "BRA `(.L_x_3)",
            ".L_x_2:", HMMA, ".L_x_3:", "@P2 BRA `(.L_x_0)", "EXIT",
        )  # fmt: skip
        (loop,) = loops(function)
        self.assertEqual(loop.shortest_round(function, "HMMA"), [0, 1, 2, 3, 5, 7])

    def test_the_path_of_a_diverged_warp_is_not_followed(self) -> None:
        function = function_of(
            ".L_x_0:", HMMA, "BRA.DIV ~URZ, `(.L_x_1)", "@P1 BRA `(.L_x_0)", "EXIT", ".L_x_1:", "NOP", "BRA `(.L_x_0)"
        )
        (loop,) = loops(function)
        self.assertEqual(loop.indices, [0, 1, 2])

    def test_reconvergence_is_an_edge(self) -> None:
        function = function_of(
            ".L_x_0:", "BSSY B0, `(.L_x_2)", "@P0 BRA `(.L_x_1)", "BSYNC B0", ".L_x_1:", "NOP", "BSYNC B0", ".L_x_2:",
            HMMA, "@P1 BRA `(.L_x_0)", "EXIT",
        )  # fmt: skip
        (loop,) = loops(function)
        self.assertEqual(sorted(loop.indices), [0, 1, 2, 3, 4, 5, 6])
        self.assertEqual(loop.shortest_round(function, "HMMA"), [0, 1, 2, 5, 6])


class Products(unittest.TestCase):
    def round_of(self, *lines: str) -> tuple[Function, list[int]]:
        function = function_of(*lines)
        return function, list(range(len(function.code)))

    def test_data_by_data_is_useful(self) -> None:
        function, indices = self.round_of("LDSM.16.M88.4 R20, [R1]", "LDSM.16.M88.4 R24, [R2]", HMMA)
        self.assertTrue(is_useful(function, indices, 2))

    def test_a_product_with_ones_is_not(self) -> None:
        ones = ("IMAD.MOV.U32 R24, RZ, RZ, 0x3c003c00", "HFMA2.MMA R25, -RZ, RZ, 1, 1")
        function, indices = self.round_of("LDSM.16.M88.4 R20, [R1]", *ones, HMMA)
        self.assertFalse(is_useful(function, indices, 3))

    def test_ones_that_are_set_above_the_loop_or_later_in_the_round_are_found(self) -> None:
        above = function_of("MOV R24, 0x3c003c00", "MOV R25, 0x3c003c00", "LDSM.16.M88.4 R20, [R1]", HMMA)
        self.assertFalse(is_useful(above, [2, 3], 1))
        later = function_of("LDSM.16.M88.4 R20, [R1]", HMMA, "MOV R24, 0x3c003c00", "MOV R25, 0x3c003c00")
        self.assertFalse(is_useful(later, [0, 1, 2, 3], 1))

    def test_a_register_loaded_after_a_constant_is_data(self) -> None:
        function, indices = self.round_of(
            "MOV R24, 0x3c003c00", "MOV R25, 0x3c003c00", "LDSM.16.M88.4 R20, [R1]", "LDSM.16.M88.2 R24, [R2]", HMMA
        )
        self.assertTrue(is_useful(function, indices, 4))

    def test_zero_as_a_factor_is_not_useful(self) -> None:
        function, indices = self.round_of("HMMA.16816.F32 R4, R20, RZ, R4")
        self.assertFalse(is_useful(function, indices, 0))

    def test_a_constant_from_a_parameter_or_a_special_register_is_data(self) -> None:
        for source in ("MOV R24, c[0x0][0x160]", "S2R R24, SR_LANEID", "SHFL.BFLY PT, R24, R3, 0x1, 0x1f"):
            function, indices = self.round_of("LDSM.16.M88.4 R20, [R1]", source, "MOV R25, 0x0", HMMA)
            self.assertTrue(is_useful(function, indices, 3), source)


class Walk(unittest.TestCase):
    def share(self, *lines: str, ldsm_factor: int = 1) -> float:
        code = function_of(*lines).code
        return tensor_clocks_share(code, L4, sum(one.base == "HMMA" for one in code), ldsm_factor)

    def test_clocks_of_the_pipes(self) -> None:
        wanted = {
            HMMA: ("tensor", 16),
            "HMMA.1688.F32 R4, R20, R24, R4": ("tensor", 8),
            "MUFU.EX2 R1, R2": ("transcendental", 8),
            "FMNMX R1, R2, R3, PT": ("alu", 2),
            "FFMA R1, R2, R3, R4": ("fp32", 1),
            "IMAD R1, R2, R3, R4": ("fp32", 1),
            "LDSM.16.M88.4 R1, [R2]": ("shared", 4),
            "LDSM.16.MT88.2 R1, [R2]": ("shared", 2),
            "LDSM.16.M88 R1, [R2]": ("shared", 1),
            "LDGSTS.E.128 [R1], [R2.64]": None,
            "UIADD3 UR4, UR4, 0x1, URZ": None,
        }
        for line, clocks in wanted.items():
            self.assertEqual(pipe_clocks(function_of(line).code[0], L4, 1), clocks, line)
        self.assertEqual(pipe_clocks(function_of("LDSM.16.M88.4 R1, [R2]").code[0], L4, 4), ("shared", 16))

    def test_products_alone_fill_the_pipe(self) -> None:
        self.assertEqual(self.share(HMMA, HMMA), 1.0)

    def test_what_fits_into_the_shade_of_a_product_is_free(self) -> None:
        self.assertEqual(self.share(HMMA, *["FADD R1, R2, R3"] * 15), 1.0)
        self.assertEqual(self.share(HMMA, *["FADD R1, R2, R3"] * 31), 0.5)

    def test_a_busy_pipe_holds_the_next_issue(self) -> None:
        # Eight ALU instructions hold their pipe 16 clocks, but the last is issued in the 15th and the product after it.
        self.assertEqual(self.share(HMMA, *["FMNMX R1, R2, R3, PT"] * 7), 1.0)
        self.assertAlmostEqual(self.share(HMMA, *["FMNMX R1, R2, R3, PT"] * 16), 16 / 32)
        self.assertAlmostEqual(self.share(HMMA, *["MUFU.EX2 R1, R2"] * 4), 16 / 32)

    def test_the_second_charge_of_ldsm(self) -> None:
        lines = (HMMA, *["LDSM.16.M88.4 R1, [R2]"] * 3)
        self.assertEqual(self.share(*lines), 1.0)
        self.assertAlmostEqual(self.share(*lines, ldsm_factor=4), 16 / 48)

    def test_what_holds_a_round_back(self) -> None:
        code = function_of("FADD R1, R2, R3", HMMA, "MUFU.EX2 R1, R2", "MUFU.EX2 R1, R2", HMMA, "FADD R1, R2, R3").code
        self.assertEqual(busy_clocks(code, L4), {"fp32": 2, "tensor": 32, "transcendental": 16})
        self.assertEqual(round_clocks(code, L4, 1), 32)
        self.assertEqual(longest_stretch_without_hmma(code), 2)
        self.assertEqual(longest_stretch_without_hmma([*code, *code[-1:] * 3]), 5)  # on into the next round

    def test_only_counted_products_count(self) -> None:
        code = function_of(HMMA, HMMA).code
        self.assertEqual(tensor_clocks_share(code, L4, 1, 1), 0.5)


class MainLoops(unittest.TestCase):
    def test_the_loop_with_the_most_products_then_the_shortest(self) -> None:
        load = ("MUFU.EX2 R9, R8", "LDSM.16.M88.4 R20, [R1]", "LDSM.16.M88.4 R24, [R2]")
        function = function_of(
            ".L_x_0:", *load, HMMA, "@P0 BRA `(.L_x_0)",
            ".L_x_1:", *load, HMMA, HMMA, "FSEL R4, R4, -INF, P1", "@P0 BRA `(.L_x_1)",
            ".L_x_2:", *load, HMMA, HMMA, "@P0 BRA `(.L_x_2)", "EXIT",
        )  # fmt: skip
        loop = main_loop(function, L4)
        assert loop is not None
        self.assertEqual((loop.instructions, loop.hmmas, loop.useful_hmmas, loop.inner_loops), (6, 2, 2, 0))
        self.assertEqual(loop.instructions_per_useful_hmma, 3)
        self.assertEqual(loop.opcodes, {"LDSM": 2, "HMMA": 2, "MUFU": 1, "BRA": 1})

    def test_a_loop_over_keys_is_not_mistaken_for_the_products_inside_it(self) -> None:
        load = ("LDSM.16.M88.4 R20, [R1]", "LDSM.16.M88.4 R24, [R2]")
        function = function_of(
            ".L_x_0:", "NOP", ".L_x_1:", *load, HMMA, HMMA, HMMA, "@P0 BRA `(.L_x_1)", "MUFU.EX2 R9, R8", HMMA,
            "@P1 BRA `(.L_x_0)", "EXIT",
        )  # fmt: skip
        loop = main_loop(function, L4)
        assert loop is not None
        self.assertEqual((loop.instructions, loop.hmmas, loop.inner_loops), (10, 4, 1))

    def test_a_kernel_without_products_has_none(self) -> None:
        self.assertIsNone(main_loop(function_of(".L_x_0:", "FADD R1, R2, R3", "@P0 BRA `(.L_x_0)", "EXIT"), L4))
        self.assertIsNone(main_loop(function_of(HMMA, "EXIT"), L4))


if __name__ == "__main__":
    unittest.main()
