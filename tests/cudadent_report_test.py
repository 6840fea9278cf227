"""`cudadent report`: a page that is well-formed and whole without anything from outside, whose figures are those of the
journal, in which words of others stay words; Markdown with everything a summary has to have; a picture that is XML.

    cudadent_report_test.py CUDADENT EXAMPLES [--virtual]     exit 0 when all hold
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ET
from html.parser import HTMLParser
from pathlib import Path

from cudadent_records_test import line_of

MOST_BYTES = 2_000_000
VOID = {"meta", "br", "hr", "img", "input", "link"}
SVG_NAMESPACE = "http://www.w3.org/2000/svg"
HOSTILE = (
    "</title></svg><script>alert(1)</script>\"'><img src=http://evil.example/x onerror=y> [a](javascript:b) \x1b[2J"
)

problems: list[str] = []


def check(holds: bool, what: str) -> None:
    if not holds:
        problems.append(what)


class Page(HTMLParser):
    """Every tag closed by its own, no attribute twice, and nothing that loads or runs."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.ids: list[str] = []
        self.links: list[str] = []
        self.figures: dict[str, list[float]] = {}  # by section
        self.words: dict[str, str] = {}
        self.section = ""
        check(text.startswith("<!DOCTYPE html>"), "the page has no doctype")
        self.feed(text)
        self.close()
        check(not self.open, f"never closed: {self.open}")
        check(len(self.ids) == len(set(self.ids)), f"an id twice: {self.ids}")
        for link in self.links:
            check(link.startswith("#") and link[1:] in self.ids, f"a link out of the page: {link}")

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        names = [name for name, _ in attributes]
        check(len(names) == len(set(names)), f"<{tag}> has an attribute twice: {names}")
        check(
            not any(name.startswith("on") or name in ("src", "srcset", "action") for name in names), f"<{tag} {names}>"
        )
        check(tag not in ("script", "img", "iframe", "object", "embed", "link", "base", "form"), f"there is a <{tag}>")
        values = dict(attributes)
        if "id" in values:
            self.ids.append(values["id"] or "")
        if "href" in values:
            self.links.append(values["href"] or "")
        if tag == "section":
            self.section = values["id"] or ""
        if tag == "data":
            self.figures.setdefault(self.section, []).append(float(values["value"] or "nan"))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attributes)
        if tag not in VOID:
            self.handle_endtag(tag)

    def handle_endtag(self, tag: str) -> None:
        check(bool(self.open) and self.open[-1] == tag, f"</{tag}> closes {self.open[-3:]}")
        if self.open:
            self.open.pop()

    def handle_data(self, data: str) -> None:
        self.words[self.section] = self.words.get(self.section, "") + data


class Bench:
    def __init__(self, cudadent: str, project: Path, state: Path) -> None:
        self.cudadent, self.project, self.out = cudadent, project, state / "out"
        self.environment = os.environ | {"XDG_STATE_HOME": str(state)}

    def journal(self, *contents: dict) -> None:
        folder = self.project / ".cudadent"
        folder.mkdir(exist_ok=True)
        (folder / "records.jsonl").write_text("".join(line_of(one) for one in contents))

    def ask(self, *words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [self.cudadent, "report", "--quiet", "--out", str(self.out), *words],
            cwd=self.project,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=300,
        )

    def report(self, *words: str) -> tuple[Page, str, dict]:
        """The page, the Markdown and the answer; what holds for every report is checked."""
        ran = self.ask("--json", *words)
        check(ran.returncode == 0, f"report {words}: {ran.returncode} {ran.stdout} {ran.stderr}")
        answer = json.loads(ran.stdout)
        texts = {}
        for file in answer["files"]:
            content = Path(file["path"]).read_bytes()
            texts[file["kind"]] = content.decode()
            check(len(content) == file["bytes"] <= MOST_BYTES, f"{file} has {len(content)} bytes")
            check(hashlib.sha256(content).hexdigest() == file["sha256"], f"{file} has another hash")
        check(sorted(texts) == ["html", "markdown", "svg"], f"{answer['files']}")
        check_alone(texts["html"])
        check_alone(texts["svg"])
        picture = ET.fromstring(texts["svg"])
        check(picture.get("viewBox") == "0 0 1200 630", f"the picture is {picture.attrib}")
        for drawing in re.findall(r"<svg.*?</svg>", texts["html"], re.DOTALL):
            check_drawing(ET.fromstring(drawing))
        check_drawing(picture)
        return Page(texts["html"]), texts["markdown"], answer


def check_alone(text: str) -> None:
    text = text.replace(f'xmlns="{SVG_NAMESPACE}"', "")
    tags = "".join(re.findall(r"<[^>]*>", text)) + "".join(re.findall(r"<style>.*?</style>", text, re.DOTALL))
    check(not re.search(r"https?:|//|url\(|@import|javascript:", tags), "something is loaded from outside")
    check("\x1b" not in text, "a control character came through")


def check_drawing(drawing: ET.Element) -> None:
    """Nothing is drawn outside of it, and no place is no number."""
    _, _, width, height = (float(part) for part in (drawing.get("viewBox") or "").split())
    for shape in drawing.iter():
        for name, most in (("x", width), ("x1", width), ("x2", width), ("cx", width), ("y", height), ("cy", height)):
            if shape.get(name) is not None:
                at = float(shape.get(name, "nan"))
                check(-1 <= at <= most + 1, f"{shape.tag} {name}={at} in a drawing of {width} x {height}")


def record(kind: str, verdict: str, run: str = "r", **more: object) -> dict:
    return {
        "kind": kind,
        "time": "2026-11-15T05:12:46.000000Z",
        "run": run,
        "project": "p",
        "device": "cpu",
        "verdict": verdict,
        "evidence": {"kind": "measured", "where": "cpu: Xeon"},
        "seconds": 36,
    } | more


def comparison(verdict: str, gain: float, note: str, **more: object) -> dict:
    ratios = [gain + 0.001 * i for i in range(-4, 5)]
    body = {
        "cost_per_hour": {"machine": 0.8, "agent": 10},
        "note": note,
        "workload": "target",
        "gain": {"mean": gain, "lower": gain - 0.0123, "upper": gain + 0.0123},
        "pairs_used": 9,
        "samples": [{"block_log_ratios": ratios, "log_ratio": gain, "base_seconds": 1, "candidate_seconds": 1}],
    }
    return record("compare", verdict, **(body | more))


def figures_are_the_journals(bench: Bench) -> None:
    gains = [0.1234567890123, -0.0456, 0.2]
    bench.journal(
        comparison("KEEP", gains[0], "wider loads"),
        comparison("REVERT", gains[1], "unrolled"),
        comparison("KEEP", gains[2], "two rows at once"),
        record("iteration", "REFUSED", hypothesis="edits the judge", decision="leave", ground="may not be touched"),
    )
    page, markdown, answer = bench.report()
    shown = page.figures["changes"]
    check([shown[i] for i in (1, 4, 7)] == gains, f"gains {gains} are shown as {shown}")
    check("may not be touched" in page.words["refused"] and "unrolled" in page.words["refused"], page.words["refused"])
    check("wider loads" not in page.words["refused"], "a kept change stands among the refused")
    check("1.35x" in page.words["ladder"], f"1.123 x 1.2 is not the ladder's end: {page.words['ladder']}")
    check(answer["changes"] == 4 and answer["not_predicted"], f"{answer}")
    check("18 blocks" not in page.words["timed"] and "9 blocks" in page.words["timed"], page.words["timed"])
    # Two of requirement C3's words a line: before and after, each change, bottlenecks, time, money, next goals.
    for part in (
        "## Before and after",
        "Kept changes together: +34.81 % on target (2 changes, measured (cpu: Xeon))",
        "| wider loads | kept | KEEP | +12.35 % [+11.12 %, +13.58 %] | measured (cpu: Xeon) |",
        "| unrolled | left | REVERT | -4.56 %",
        "- edits the judge (refused): may not be touched",
        "## Bottlenecks",
        "min planned",
        "4 changes tried of 3 iterations planned",
        "$0.1080 spent: machine $0.0080 at $0.8 an hour, agent $0.1000 at $10 an hour.",
        "left.",
        "## Next goals",
    ):
        check(part in markdown, f"the Markdown lacks '{part}':\n{markdown}")


def words_of_others_stay_words(bench: Bench) -> None:
    gate = {
        "gate": "correctness",
        "outcome": "fails",
        "summary": HOSTILE,
        "seconds": 1,
        "findings": [{"severity": "error", "group": HOSTILE, "what": HOSTILE, "where": HOSTILE, "fix": HOSTILE}],
        "data": {},
    }
    everywhere = {"project": HOSTILE, "device": HOSTILE, "commit": HOSTILE, "run": HOSTILE}
    evidence = {"kind": "measured", "where": HOSTILE}
    bench.journal(
        comparison("KEEP", 0.1, HOSTILE, evidence=evidence, **everywhere),
        record("gate", "fails", summary=HOSTILE, gates=[gate], evidence=evidence, **everywhere),
        record("iteration", HOSTILE, hypothesis=HOSTILE, decision=HOSTILE, ground=HOSTILE, fix=HOSTILE, **everywhere),
    )
    page, markdown, _ = bench.report()
    for section in ("changes", "gates", "refused"):
        check("<script>alert(1)</script>" in page.words[section], f"{section}: what was said is not shown")
    check(not re.search(r"(?<!\\)<(script|img)", markdown), f"a tag in the Markdown:\n{markdown}")
    check("](" not in markdown, f"a link in the Markdown:\n{markdown}")


def a_run_of_refusals_says_so(bench: Bench) -> None:
    bench.journal(
        *(record("iteration", "REFUSED", hypothesis=f"try {i}", decision="leave", ground="no") for i in range(3))
    )
    page, markdown, _ = bench.report()
    check("No change was kept" in page.words["ladder"], page.words["ladder"])
    check("No price given" in page.words["money"] and "No price given" in markdown, page.words["money"])
    check(page.words["refused"].count("refused") == 3, page.words["refused"])


def a_rehearsal_is_never_a_speed(bench: Bench) -> None:
    rehearsal = {"kind": "rehearsal", "where": "rehearsal:cuda:0, never run on a card"}
    bench.journal(
        comparison("REHEARSAL", 0.1, "rehearsed", evidence=rehearsal, device="rehearsal:cuda:0"),
        comparison("KEEP", 0.2, "timed"),
    )
    page, markdown, _ = bench.report()
    check("+20.00 %" in markdown and "+32" not in markdown, f"a rehearsal is in a product:\n{markdown}")
    check("rehearsal (rehearsal:cuda:0" in page.words["speed"], page.words["speed"])
    check("measured (cpu: Xeon)" in page.words["speed"], page.words["speed"])


def an_empty_journal_has_no_report(bench: Bench) -> None:
    bench.journal()
    ran = bench.ask("--json")
    answer = json.loads(ran.stdout)
    check(ran.returncode == 2 and answer["code"] == "usage.run", f"{ran.returncode}: {ran.stdout}")
    check("cudadent gate" in answer["error"]["fix"], f"{answer['error']}")
    bench.journal(comparison("KEEP", 0.1, "x"))
    check(bench.ask("--run", "nothing").returncode == 2, "a run that is not there has a report")


def what_runs_on_a_virtual_gpu_is_predicted(bench: Bench) -> None:
    virtual = {"device": "virtual:l4", "evidence": {"kind": "virtual", "where": "l4"}}
    bench.journal(record("gate", "inconclusive", summary="s", gates=[], **virtual))
    page, markdown, answer = bench.report()
    check(answer["predicted"] == ["as it stands"], f"{answer}")
    asked = subprocess.run(
        [bench.cudadent, "predict", "--device", "virtual:l4", "--seed", "1", "--json", "--quiet"],
        cwd=bench.project,
        env=bench.environment,
        capture_output=True,
        text=True,
        timeout=300,
    )
    predicted = json.loads(asked.stdout)
    limits = page.figures["limits"]
    check(
        limits[:2] == [predicted["cycles"], predicted["boost"]["us"]], f"{limits} is not what predict says: {predicted}"
    )
    for word in (
        "Roofline",
        "FLOP per byte",
        "DRAM 300 GB/s",
        "What warps wait for",
        predicted["launches"][0]["limiter"],
    ):
        check(word in page.words["limits"], f"the limits lack '{word}': {page.words['limits']}")
    check("kernel.cu" in page.words["source"] and str(bench.project) not in page.words["source"], page.words["source"])
    check("predicted (l4" in markdown, markdown)
    page, _, answer = bench.report("--no-predict")
    check(answer["predicted"] == [] and "--no-predict" in page.words["limits"], f"{answer}")


# For a project whose journey is reported: what an hour costs.
PRICES = "\n[cost]\nmachine_per_hour = 0.8\nagent_per_hour = 10\n"
# Requirement C3, item by item: what shows in the Markdown that it is told, and no empty heading.
C3 = {
    "before and after": r"\| cycles of a call \| [\d.e+]+ \| [\d.e+]+ \| [\d.e+]+x fewer \| predicted",
    "each change with its effect": r"\| kept \| PREDICTED \| \+[\d.]+ % predicted, \d+ -> \d+ cycles \| predicted",
    "bottlenecks": r"## Bottlenecks\n\n- \S",
    "time against plan": r"min of \d+ min planned .* tried of \d+ iterations planned",
    "money": r"\$[\d.]+ spent: machine \$[\d.]+ at \$0\.8 an hour, agent \$[\d.]+ at \$10 an hour\. \$.*(left|over)",
    "next goals": r"## Next goals\n\n- \S",
}


def check_journey(cudadent: str, project: Path, run: str, kept: list[str], left: list[str], out: Path) -> None:
    """The report of a whole journey on a virtual GPU: what holds for every report, and nothing of C3 missing."""
    page, markdown, answer = Bench(cudadent, project, out).report("--run", run)
    for item, pattern in C3.items():
        check(re.search(pattern, markdown) is not None, f"the Markdown lacks {item}")
    for change in kept + left:
        check(f"| {change} | {'kept' if change in kept else ''}" in markdown, f"no row in the Markdown: {change}")
        check(change in page.words["changes"], f"no row on the page: {change}")
    for change in left:
        check(f"- {change} (" in markdown and change in page.words["refused"], f"nobody says why not: {change}")
    check(len(answer["predicted"]) == 2, f"predicted are {answer['predicted']}")
    print("report:", ", ".join(f"{file['kind']} {file['bytes']} bytes" for file in answer["files"]))
    if problems:
        print(markdown)
        raise SystemExit("\n".join(f"FAILED: {problem}" for problem in problems))


def main() -> int:
    cudadent, examples, *more = sys.argv[1:]
    tests = [
        figures_are_the_journals,
        words_of_others_stay_words,
        a_run_of_refusals_says_so,
        a_rehearsal_is_never_a_speed,
        an_empty_journal_has_no_report,
    ]
    if more == ["--virtual"]:
        tests.append(what_runs_on_a_virtual_gpu_is_predicted)
    for test in tests:
        with tempfile.TemporaryDirectory() as directory:
            project = Path(directory).resolve() / "project"
            shutil.copytree(
                Path(examples) / "cudadent" / "softmax", project, ignore=shutil.ignore_patterns(".cudadent")
            )
            test(Bench(cudadent, project, Path(directory)))
    for problem in problems:
        print(f"FAILED: {problem}")
    if not problems:
        print(f"reports: {len(tests)} tests hold")
    return 1 if problems else 0


if __name__ == "__main__":
    raise SystemExit(main())
