"""python -m cudadent.ci_report on reports made up for it: what is told, where, and with which exit code."""

from __future__ import annotations

import io
import json
import sys
import tempfile
import unittest
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "python"))
from cudadent import ci_report


def party(file: str, line: int) -> dict[str, Any]:
    at = {"what": "a write", "ptx_line": 3, "instruction": "st;", "block": [0, 0, 0], "thread": [1, 0, 0]}
    return at | ({"source_file": file, "source_line": line} if file else {})


def finding(
    file: str, line: int, check: str = "racecheck", cause: str = "order", message: str = "race"
) -> dict[str, Any]:
    return {"check": check, "cause": cause, "message": message, "kernel": "k", "at": party(file, line)}


def launch(*findings: dict[str, Any], instructions: int = 8, kernel: str = "k", **more: str) -> dict[str, Any]:
    metrics = [{"name": "vgpu__ptx_inst_executed.sum", "value": instructions}]
    return {"kernel": kernel, "name": kernel, "metrics": metrics, "findings": list(findings)} | more


class CiReport(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = Path(folder.name).resolve()

    def told(self, launches: list[dict[str, Any]], *flags: str) -> tuple[list[str], int]:
        report = self.root / "launches.jsonl"
        report.write_text("".join(json.dumps(one) + "\n" for one in launches))
        printed = io.StringIO()
        with redirect_stdout(printed):
            code = ci_report.main([str(report), "--root", str(self.root), *flags])
        return printed.getvalue().splitlines(), code

    def test_a_place_is_told_once_and_below_the_root(self) -> None:
        at = str(self.root / "src" / "a.cu")
        same = [launch(finding(at, 7), finding(at, 7)), launch(finding("src/a.cu", 7))]
        lines, code = self.told([*same, launch(finding(at, 9))])
        self.assertEqual(code, 1)
        places = [line.partition(",title")[0] for line in lines]
        self.assertEqual(places, ["::error file=src/a.cu,line=7", "::error file=src/a.cu,line=9"])

    def test_without_a_line_or_elsewhere_no_file_is_named(self) -> None:
        lines, code = self.told([launch(finding("", 0), finding("/usr/include/thrust.h", 3))])
        self.assertEqual((len(lines), code), (2, 1))
        self.assertTrue(all(line.startswith("::error title=racecheck") for line in lines), lines)

    def test_what_github_would_take_for_its_own_is_escaped(self) -> None:
        lines, _ = self.told([launch(finding("a,b:c.cu", 1, message="50 %\n::error::no"))])
        self.assertEqual(len(lines), 1)
        self.assertIn("file=a%2Cb%3Ac.cu,", lines[0])
        self.assertIn("50 %25%0A::error::no", lines[0])

    def test_leaks_are_not_told_and_other_faults_are(self) -> None:
        self.assertEqual(self.told([launch(finding("a.cu", 1, "memcheck", "leak"))]), (["no finding in 1 launch"], 0))
        lines, code = self.told([launch(fault="out of budget")])
        self.assertEqual((lines, code), (["::error title=A launch ended early::out of budget"], 1))

    def test_a_suite_that_fails_or_runs_nothing_is_not_green(self) -> None:
        self.assertEqual(self.told([launch()], "--suite-exit", "8")[1], 1)
        self.assertEqual(self.told([])[1], 3)
        self.assertEqual(self.told([launch()])[1], 0)

    def test_counters_stand_beside_those_of_the_base(self) -> None:
        base, summary = self.root / "base.jsonl", self.root / "summary.md"
        before = [launch(instructions=10), launch(kernel="gone"), launch(kernel="same")]
        base.write_text("".join(json.dumps(one) + "\n" for one in before))
        now = [launch(), launch(kernel="new"), launch(kernel="same")]
        self.told(now, "--base", str(base), "--summary", str(summary))
        cells = [line.split("|") for line in summary.read_text().splitlines() if "`" in line]
        rows = {row[1].strip(): row[3].strip() for row in cells}
        self.assertEqual(
            rows, {"`k`": "**8** (base 10)", "`new`": "8 (new)", "`same`": "8", "`gone`": "gone (was 8)"}
        )

    def test_sarif_names_both_parties(self) -> None:
        race = finding("a.cu", 5) | {"other": party("b.cu", 6)}
        self.told([launch(race)], "--sarif", str(self.root / "findings.sarif"))
        run = json.loads((self.root / "findings.sarif").read_text())["runs"][0]
        (result,) = run["results"]
        self.assertIn(result["ruleId"], [rule["id"] for rule in run["tool"]["driver"]["rules"]])
        places = [one["physicalLocation"] for one in (*result["locations"], *result["relatedLocations"])]
        found = [(place["artifactLocation"]["uri"], place["region"]["startLine"]) for place in places]
        self.assertEqual(found, [("a.cu", 5), ("b.cu", 6)])


if __name__ == "__main__":
    unittest.main()
