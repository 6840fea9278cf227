"""The page of measurements, from bundles made up here: what is refused, what is stale, what two cards give.

No figure in this file was measured by anybody.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import shutil
import sys
import tempfile
import unittest
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))
import measured

PROBLEM = "S=128 BH=1 D=64"
IDENTITY = {
    "kernel": "forward_f16_d64_decode", "image": "cubin, sm_89", "image_sha256": "a" * 64, "q_tile": 16,
    "kv_splits": 1, "ctas": 8,
}  # fmt: skip
PREDICTED = {
    "problem": PROBLEM, **IDENTITY, "predicted_us": 4.0, "cycles": 8160.0, "limiter": "tensor", "doubts": [],
    "boost": {"us": 4.0, "least_us": 3.0, "most_us": 8.0}, "sustained": {"us": 7.0, "least_us": 5.0, "most_us": 14.0},
    "counters": {"ptx_instructions": 52344, "mma": 1024, "dram_bytes": 65536},
}  # fmt: skip
REFUSED = {**PREDICTED, "problem": "S=8192 BH=1 D=64", "not_predicted": "L2 is busy"}


def ours(kernel_us: float, **changes: Any) -> dict[str, Any]:
    line = {"time": PROBLEM, "problem": PROBLEM, "side": "flashmoe", **IDENTITY, "rehearsal": False}
    times = {clock: kernel_us + more for clock, more in (("kernel_us", 0), ("cold_us", 2), ("whole_us", 3))}
    spreads = {f"{clock}_spread": [time - 0.5, time + 0.5] for clock, time in times.items()}
    return {**line, **times, **spreads, **changes}


class Page(unittest.TestCase):
    def setUp(self) -> None:
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.root = Path(scratch.name)
        (self.root / "docs" / "predictions").mkdir(parents=True)
        content = {"gpu": "l4", "model": 1, "rows": [PREDICTED, REFUSED]}
        (self.root / "docs" / "predictions" / "l4.json").write_text(json.dumps(content))

    def add(self, name: str, *lines: dict[str, Any], gpu: str = "l4", card: str = "NVIDIA L4", **changes: Any) -> Path:
        folder = self.root / "docs" / "measured" / gpu / name
        folder.mkdir(parents=True)
        facts = {"name": card, "driver": 13000}
        results = {"rehearsal": False, "time": "2027-01-01T00:00:00Z", "card": facts, "times": list(lines), **changes}
        (folder / "results.json").write_text(json.dumps(results))
        (folder / "doctor.json").write_text(json.dumps({"of": name}))
        self.seal(folder)
        return folder

    @staticmethod
    def seal(folder: Path) -> None:
        names = sorted(file.name for file in folder.iterdir() if file.name != "MANIFEST.sha256")
        lines = [f"{hashlib.sha256((folder / name).read_bytes()).hexdigest()}  {name}\n" for name in names]
        (folder / "MANIFEST.sha256").write_text("".join(lines))

    def write(self, *words: str) -> tuple[int, str, str]:
        said = io.StringIO()
        with contextlib.redirect_stderr(said):
            code = measured.main(["--root", str(self.root), *words])
        file = self.root / measured.PAGE
        return code, file.read_text() if file.is_file() else "", said.getvalue()

    def row(self, page: str, problem: str = PROBLEM) -> list[str]:
        line = next(line for line in page.splitlines() if line.startswith(f"| {problem} |"))
        return [cell.strip() for cell in line.split("|")[1:-1]]

    def refused(self, why: str) -> None:
        code, page, said = self.write()
        self.assertEqual(code, 1)
        self.assertIn(why, said)
        self.assertEqual(page, "", "nothing is written")

    def test_without_a_bundle_no_card_has_run_it(self) -> None:
        code, page, _ = self.write()
        self.assertEqual(code, 0)
        self.assertEqual(self.row(page)[3], "never run on a card")
        self.assertEqual(self.row(page)[4], "")
        self.assertEqual(len(self.row(page)), len(self.row(page, "problem")))
        self.assertEqual(len(self.row(page, REFUSED["problem"])), len(self.row(page)))

    def test_one_card_stands_beside_its_prediction(self) -> None:
        self.add("one", ours(5.0))
        code, page, said = self.write()
        self.assertEqual(code, 0, said)
        self.assertEqual(self.row(page)[3:5], ["5.00 (4.50 to 5.50)", "1.25"])
        self.assertIn("NVIDIA L4, driver 13000", page)
        self.assertNotIn("No card has run it", page)

    def test_two_cards_give_mean_and_spread(self) -> None:
        self.add("one", ours(5.0))
        self.add("two", ours(6.0))
        _, page, _ = self.write()
        self.assertEqual(self.row(page)[3:5], ["5.50 (4.50 to 6.50), 2 bundles 18.2 % apart", "1.38"])

    def test_outside_the_interval_is_said(self) -> None:
        self.add("one", ours(15.0))
        self.assertEqual(self.row(self.write()[1])[4], "3.75, outside the interval")

    def test_peers_stand_beside(self) -> None:
        theirs = {"problem": PROBLEM, "side": "flash_attn", "kernel_us": 7.0, "whole_us": 9.0, "rehearsal": False}
        missing = {"problem": PROBLEM, "side": "flashinfer", "not_run": "not there", "rehearsal": False}
        self.add("one", ours(5.0), theirs, missing)
        _, page, _ = self.write()
        self.assertIn("| problem | flash_attn | flashmoe |", page)
        self.assertIn(f"| {PROBLEM} | 7.00 / 9.00 | 5.00 / 8.00 |", page)

    def test_another_kernel_is_stale(self) -> None:
        for key, value in (("image_sha256", "b" * 64), ("kv_splits", 2)):
            with self.subTest(key):
                shutil.rmtree(self.root / "docs" / "measured", ignore_errors=True)
                self.add("one", ours(5.0, **{key: value}))
                code, page, _ = self.write()
                self.assertEqual(code, 0)
                self.assertEqual(self.row(page)[3:5], ["stale", ""])
                self.assertIn(f"another {key} than was predicted", page)

    def test_a_rehearsal_is_refused(self) -> None:
        self.add("one", ours(5.0), rehearsal=True)
        self.refused("a rehearsal")

    def test_a_rehearsed_line_is_refused(self) -> None:
        self.add("one", ours(5.0, rehearsal=True))
        self.refused("a rehearsal")

    def test_a_virtual_card_is_refused(self) -> None:
        self.add("one", ours(5.0), card="NVIDIA L4 (virtual)")
        self.refused("a rehearsal")

    def test_a_bundle_that_does_not_say_is_refused(self) -> None:
        self.add("one", ours(5.0), rehearsal=None)
        self.refused("a rehearsal")

    def test_a_changed_file_is_refused(self) -> None:
        file = self.add("one", ours(5.0)) / "results.json"
        file.write_text(file.read_text().replace("5.0", "4.0"))
        self.refused("results.json was changed")

    def test_a_file_that_is_not_listed_is_refused(self) -> None:
        (self.add("one", ours(5.0)) / "more.json").write_text("{}")
        self.refused("more.json is not listed")

    def test_a_file_that_is_gone_is_refused(self) -> None:
        (self.add("one", ours(5.0)) / "doctor.json").unlink()
        self.refused("doctor.json is not there")

    def test_without_a_manifest_it_is_refused(self) -> None:
        (self.add("one", ours(5.0)) / "MANIFEST.sha256").unlink()
        self.refused("no MANIFEST.sha256")

    def test_the_same_bundle_again_is_refused(self) -> None:
        shutil.copytree(self.add("one", ours(5.0)), self.root / "docs" / "measured" / "l4" / "two")
        self.refused("the same bundle as docs/measured/l4/one")

    def test_another_card_is_refused(self) -> None:
        self.add("one", ours(5.0), card="NVIDIA L40S")
        self.refused("measured on NVIDIA L40S, which is not l4")

    def test_a_card_without_predictions_is_refused(self) -> None:
        self.add("one", ours(5.0), gpu="a100", card="NVIDIA A100-SXM4-40GB")
        self.refused("no predictions for it")

    def test_results_of_another_form_are_refused(self) -> None:
        folder = self.add("one", ours(5.0))
        (folder / "results.json").write_text("[]")
        self.seal(folder)
        self.refused("results.json is not that of a bundle")

    def test_check_notices_a_page_that_is_not_of_today(self) -> None:
        self.assertEqual(self.write()[0], 0)
        self.assertEqual(self.write("--check")[0], 0)
        self.add("one", ours(5.0))
        self.assertEqual(self.write("--check")[0], 1)

    def test_cards_are_known_by_name(self) -> None:
        for name, gpu in (("NVIDIA L4", "l4"), ("NVIDIA GeForce RTX 4090", "rtx4090"),
                          ("NVIDIA A100-SXM4-40GB", "a100")):  # fmt: skip
            self.assertTrue(measured.is_card(name, gpu), name)
        self.assertFalse(measured.is_card("NVIDIA L40", "l4"))


if __name__ == "__main__":
    unittest.main()
