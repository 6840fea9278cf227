"""No exponent of the kernels may depend on what an assembler makes of a product and a difference.

    rounded_exponents_test.py IMAGES_DIR

ptxas may make one instruction of `mul.f32` and `sub.f32` or `add.f32`, and the virtual GPU, which runs the PTX, cannot
show it: then exp2(top * scale - level) of a top that is the level is no longer 1. A rounding mode on either of the two
forbids it (PTX ISA, `mul`: "mul/add sequences with no rounding modifiers may be optimized to use fused-multiply-add").
"""

from __future__ import annotations

import re
import sys
import unittest
from collections import defaultdict
from pathlib import Path

INSTRUCTION = re.compile(r"(?:@!?%?\w+\s+)?([a-z][\w.:]*)\s+([%\w]+)\s*,\s*([^;]+);")
FUSIBLE_PRODUCT = re.compile(r"mul(\.ftz)?\.f32")
FUSIBLE_SUM = re.compile(r"(add|sub)(\.ftz)?\.f32")
SAME_VALUE = re.compile(r"(mov|neg(\.ftz)?)\.[bf]32")


Made = dict[str, list[tuple[str, list[str]]]]  # a register's instructions, with what they read


def makers(made: Made, register: str, met: frozenset[str] = frozenset()) -> list[tuple[str, list[str]]]:
    """What gives a register its value, through copies and changes of sign."""
    found = []
    for operation, operands in made[register] if register not in met else []:
        if SAME_VALUE.fullmatch(operation) and operands:
            found += makers(made, operands[0], met | {register})
        else:
            found.append((operation, operands))
    return found


def fusible_exponents(ptx: str) -> list[str]:
    """The sums without a rounding mode, of a product without one, that are the exponent of an ex2."""
    found, seen = [], 0
    for function in re.split(r"^\s*(?:\.visible\s+)?\.(?:entry|func)\b", ptx, flags=re.MULTILINE)[1:]:
        made: Made = defaultdict(list)
        for operation, to, operands in INSTRUCTION.findall(re.sub(r"//.*", "", function)):
            made[to].append((operation, re.findall(r"%\w+|\b[a-z]\w*\b", operands)))
        exponents = {of[0] for all_of in made.values() for operation, of in all_of if operation.startswith("ex2.")}
        seen += len(exponents)
        for exponent in sorted(exponents):
            for operation, operands in makers(made, exponent):
                products = [of for operand in operands for of, _ in makers(made, operand)]
                if FUSIBLE_SUM.fullmatch(operation) and any(map(FUSIBLE_PRODUCT.fullmatch, products)):
                    found.append(f"{operation} {', '.join(operands)}, the exponent {exponent}")
    if seen == 0:
        raise ValueError("no ex2 in any function: this reads something else than it thinks")
    return found


class Finds(unittest.TestCase):
    def found(self, body: str) -> int:
        return len(fusible_exponents(f".visible .entry k()\n{{\n{body}\n}}\n"))

    def test_a_product_and_a_difference(self) -> None:
        self.assertEqual(self.found("mul.f32 %f1, %f2, %f3;\nsub.f32 %f4, %f1, %f5;\nex2.approx.ftz.f32 %f6, %f4;"), 1)

    def test_through_a_copy_and_a_sign(self) -> None:
        body = "@%p1 mul.ftz.f32 %f1, %f2, %f3;\nneg.f32 %f9, %f1;\nadd.ftz.f32 %f4, %f5, %f9;\nmov.f32 %f7, %f4;\n"
        self.assertEqual(self.found(body + "ex2.approx.ftz.f32 %f6, %f7;"), 1)

    def test_in_assembler_of_one_line(self) -> None:
        body = "mul.f32 a, %f1, %f2; sub.f32 a, a, %f3; ex2.approx.ftz.f32 a, a;"
        self.assertEqual(self.found(body), 1)

    def test_a_rounding_mode_on_either_is_enough(self) -> None:
        for product, difference in ("mul.rn.f32", "sub.f32"), ("mul.f32", "sub.rn.f32"), ("fma.rn.f32", "sub.f32"):
            body = f"{product} %f1, %f2, %f3;\n{difference} %f4, %f1, %f5;\nex2.approx.ftz.f32 %f6, %f4;"
            self.assertEqual(self.found(body), 0, body)


class Kernels(unittest.TestCase):
    images = Path()

    def test_no_exponent_can_be_fused(self) -> None:
        kernels = sorted(self.images.glob("forward_*.ptx"))
        self.assertGreater(len(kernels), 90, f"few kernels in {self.images}")
        for kernel in kernels:
            self.assertEqual(fusible_exponents(kernel.read_text()), [], kernel.name)


if __name__ == "__main__":
    Kernels.images = Path(sys.argv.pop(1))
    unittest.main()
