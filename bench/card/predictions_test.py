"""docs/predictions against a build, with rows made up here: what is called stale."""

from __future__ import annotations

import json
import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
import predictions

KEPT = {
    "model": 1,
    "rows": [
        {"problem": "a", "image_sha256": "1" * 64, "kv_splits": 1, "boost": {"us": 100.0}, "counters": {"mma": 7}}
    ],
}


def changed(**changes: object) -> list[str]:
    return list(predictions.differences(KEPT, [{**KEPT["rows"][0], **changes}]))


class Differences(unittest.TestCase):
    def test_the_same_is_none(self) -> None:
        self.assertEqual(changed(), [])
        self.assertEqual(changed(boost={"us": 100.05}), [], "the schedule's share")

    def test_another_kernel_or_plan_is_one(self) -> None:
        self.assertIn("image_sha256", changed(image_sha256="2" * 64)[0])
        self.assertIn("kv_splits", changed(kv_splits=2)[0])

    def test_another_figure_is_one(self) -> None:
        self.assertIn("boost", changed(boost={"us": 100.2})[0])
        self.assertIn("counters", changed(counters={"mma": 8})[0])

    def test_a_problem_that_the_file_lacks_is_one(self) -> None:
        self.assertTrue(changed(problem="b"))

    def test_the_file_is_text_that_is_read_back(self) -> None:
        self.assertEqual(json.loads(predictions.file_text(KEPT)), KEPT)

    def test_the_committed_file_has_every_problem_of_the_table(self) -> None:
        kept = json.loads((predictions.ROOT / "docs" / "predictions" / "l4.json").read_text())
        self.assertEqual([row["problem"] for row in kept["rows"]], predictions.problems("all"))
        self.assertTrue(all("predicted_us" in row or "not_predicted" in row for row in kept["rows"]))


if __name__ == "__main__":
    unittest.main()
