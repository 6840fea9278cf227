"""flashmoe_card, rehearsed on the virtual GPU: what it prints, that it notices a wrong result, how it ends.

    card_test.py BUILD_DIR COUNTING_DRIVER

The counting driver swallows launches: on it no kernel writes anything, so every check has to fail.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import subprocess
import sys
import unittest
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
BUILD = Path(sys.argv[1])
COUNTING_DRIVER = Path(sys.argv[2])
VIRTUAL_DRIVER = BUILD / "vgpu" / "libcuda.so.1"


def card(*words: str, driver: Path = VIRTUAL_DRIVER) -> tuple[int, list[dict[str, Any]], str]:
    environment = {**os.environ, "FLASHMOE_DRIVER": str(driver), "VGPU_DEVICE": "l4", "VGPU_LOG": "off"}
    command = [str(BUILD / "bin" / "flashmoe_card"), *words]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    return done.returncode, [json.loads(line) for line in done.stdout.splitlines()], done.stderr


def shipped_kernels() -> int:
    text = (ROOT / "src" / "kernels" / "cuda" / "instances.def").read_text()
    return len(re.findall(r"^FMS_(?:VALUES_)?INSTANCE\(", text, flags=re.MULTILINE))


def table() -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = json.loads((ROOT / "python" / "flashmoe_science" / "card_problems.json").read_text())
    return rows


class Check(unittest.TestCase):
    def test_every_shipped_kernel_is_judged_twice_and_right(self) -> None:
        code, lines, error = card("--check")
        self.assertEqual(code, 0, error)
        self.assertEqual(lines[0]["card"], "NVIDIA L4 (virtual)")
        self.assertTrue(all(line["rehearsal"] is True for line in lines))
        checks = lines[1:]
        of_kernel: dict[str, int] = {}
        for line in checks:
            self.assertTrue(line["ok"], line)
            self.assertLessEqual(line["error_over_bound"], 1)
            self.assertGreater(line["error_over_bound"], 0, "nothing was compared")
            of_kernel[line["check"]] = of_kernel.get(line["check"], 0) + 1
        self.assertEqual(of_kernel.pop("merge_states"), 3)
        self.assertEqual(len(of_kernel), shipped_kernels())
        self.assertEqual(set(of_kernel.values()), {2})

    def test_what_is_never_written_is_wrong(self) -> None:
        code, lines, _ = card("--check", "--problems", "quick", driver=COUNTING_DRIVER)
        self.assertEqual(code, 1)
        self.assertEqual(len(lines[1:]), shipped_kernels() + 3)
        for line in lines[1:]:
            self.assertFalse(line["ok"], line)
            self.assertTrue(line["complaint"])
            self.assertFalse(line["rehearsal"], "it does not say that it is virtual")

    def test_the_limit_leaves_out_and_says_what(self) -> None:
        code, lines, _ = card("--check", "--limit", "0.000001")
        self.assertEqual(code, 3)
        self.assertEqual(len(lines), 2)
        self.assertEqual(len(lines[1]["left_out"]), 2 * shipped_kernels() + 3)


class Time(unittest.TestCase):
    def test_quick_problems_have_all_three_times_and_the_kernels_hash(self) -> None:
        code, lines, error = card("--time", "--problems", "quick", "--rounds", "3")
        self.assertEqual(code, 0, error)
        self.assertEqual([line["time"] for line in lines[1:]], [row["name"] for row in table() if row["quick"]])
        for line in lines[1:]:
            self.assertTrue(line["rehearsal"])
            self.assertEqual(line["side"], "flashmoe")
            self.assertEqual(line["rounds"], 3)
            self.assertTrue(line["kernel"].startswith("forward_f16_d"))
            self.assertIn("CTA", line["plan"])
            self.assertRegex(line["image_sha256"], "^[0-9a-f]{64}$")
            for clock in ("kernel_us", "cold_us", "whole_us"):
                low, high = line[f"{clock}_spread"]
                self.assertGreater(low, 0)
                self.assertLessEqual(low, line[clock])
                self.assertLessEqual(line[clock], high)

    def test_the_hash_is_that_of_the_cubin_the_library_was_built_with(self) -> None:
        code, lines, error = card("--plans")
        self.assertEqual(code, 0, error)
        self.assertEqual([line["problem"] for line in lines[1:]], [row["name"] for row in table()])
        for line in lines[1:]:
            cubin = BUILD / "src" / "kernels" / "cuda" / "images" / f"{line['kernel']}.sm_89.cubin"
            self.assertEqual(line["image"], "cubin, sm_89")
            self.assertEqual(line["image_sha256"], hashlib.sha256(cubin.read_bytes()).hexdigest())

    def test_one_head_runs_with_the_plan_of_all(self) -> None:
        code, lines, error = card("--once", "S=128 BH=8 D=64 causal")
        self.assertEqual(code, 0, error)
        self.assertEqual((lines[1]["heads"], lines[1]["of_heads"]), (1, 8))


class Ends(unittest.TestCase):
    def test_usage(self) -> None:
        for words in ([], ["--check", "--time"], ["--time", "--limit", "soon"], ["--time", "--rounds", "0"],
                      ["--time", "--problems", "some"], ["--once"], ["--once", "no such problem"]):  # fmt: skip
            self.assertEqual(card(*words)[0], 2, words)

    def test_without_a_driver_it_says_so(self) -> None:
        code, lines, _ = card("--check", driver=Path("/no/such/libcuda.so.1"))
        self.assertEqual(code, 4)
        self.assertIn("does not load", lines[0]["not_run"])


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
