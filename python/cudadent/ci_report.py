"""What a suite on the virtual GPU found, for a CI: annotations, SARIF, counters beside those of the base branch.

    cudadent run --device virtual:l4 --report launches.jsonl -- ctest --test-dir build
    python -m cudadent.ci_report launches.jsonl --sarif findings.sarif --base base.jsonl --summary summary.md

Annotations are GitHub's (`::error file=...,line=...::`), on stdout. A finding that many tests or threads came to is
told once for each place. Exit code: 0 kernels ran and nothing was found, 1 something was found, or the suite failed
(--suite-exit), 3 no kernel was launched.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import sys
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cudadent.findings import COUNTERS, finding_text, told_findings, totals

CHECKS = {
    "memcheck": "An access outside of an allocation, to freed memory or to a misaligned address",
    "initcheck": "A value that was never written decides something",
    "racecheck": "Two accesses of which one writes, and nothing that orders them",
    "synccheck": "A barrier that not all threads reach, or a wait that is missing",
}


@dataclass
class Place:
    """A finding at a line; `file` is below the root of the sources, or None where the line is unknown or elsewhere."""

    finding: dict[str, Any]
    file: str | None
    line: int
    times: int = 0
    related: list[tuple[str, int, str]] = field(default_factory=list)

    @property
    def title(self) -> str:
        return f"{self.finding['check']} on the virtual GPU"


def read(report: Path | None) -> list[dict[str, Any]]:
    if report is None or not report.exists():
        return []
    return [json.loads(line) for line in report.read_text().splitlines()]


def below(root: Path, party: dict[str, Any]) -> tuple[str | None, int]:
    if "source_line" not in party:
        return None, 0
    path = Path(os.path.normpath(root / party["source_file"]))
    return (path.relative_to(root).as_posix() if path.is_relative_to(root) else None), int(party["source_line"])


def places(launches: Iterable[dict[str, Any]], root: Path) -> list[Place]:
    found: dict[tuple[Any, ...], Place] = {}
    for finding in told_findings(launches):
        at = finding.get("at") or {}
        file, line = below(root, at)
        where = (file, line) if line else (at.get("instruction"), finding["kernel"])
        place = found.setdefault((finding["check"], *where), Place(finding, file, line))
        place.times += 1
        if other := finding.get("other"):
            other_file, other_line = below(root, other)
            related = (other_file or "", other_line, f"{other['what']}, the other party")
            if other_file and related not in place.related:
                place.related.append(related)
    return list(found.values())


def escaped(text: str, is_property: bool = False) -> str:
    """As GitHub's workflow commands want it."""
    for character in "%\r\n" + (":," if is_property else ""):
        text = text.replace(character, f"%{ord(character):02X}")
    return text


def annotation(place: Place) -> str:
    properties = {"title": place.title}
    if place.file:
        properties = {"file": place.file, "line": str(place.line)} | properties
    words = ",".join(f"{name}={escaped(value, True)}" for name, value in properties.items())
    return f"::error {words}::{escaped(finding_text(place.finding))}"


def sarif(found: list[Place]) -> dict[str, Any]:
    def location(file: str, line: int) -> dict[str, Any]:
        artifact = {"uri": file, "uriBaseId": "%SRCROOT%"}
        return {"physicalLocation": {"artifactLocation": artifact, "region": {"startLine": line}}}

    results = []
    for place in found:
        finding = place.finding
        mark = f"{finding['check']}|{finding['kernel']}|{place.file}|{finding['message']}"
        results.append(
            {
                "ruleId": finding["check"],
                "level": "error",
                "message": {"text": finding_text(finding)},
                "locations": [location(place.file, place.line)] if place.file else [],
                "relatedLocations": [location(f, n) | {"message": {"text": text}} for f, n, text in place.related],
                "partialFingerprints": {"cudadent/v1": hashlib.sha256(mark.encode()).hexdigest()},
            }
        )
    rules = [{"id": check, "shortDescription": {"text": text}} for check, text in CHECKS.items()]
    tool = {"driver": {"name": "cudadent", "rules": rules}}
    return {
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [{"tool": tool, "results": results, "columnKind": "utf16CodeUnits"}],
    }


def by_kernel(launches: Iterable[dict[str, Any]]) -> dict[str, dict[str, float]]:
    groups: dict[str, list[dict[str, Any]]] = {}
    for launch in launches:
        if kernel := launch.get("kernel"):
            groups.setdefault(launch.get("name") or kernel, []).append(launch)
    return {kernel: totals(group) for kernel, group in groups.items()}


def counted(count: int, noun: str, plural: str = "s") -> str:
    return f"{count} {noun}{'' if count == 1 else plural}"


def beside(now: float | None, before: float | None) -> str:
    if now is None or before is None:
        return f"{now:,.0f} (new)" if now is not None else f"gone (was {before:,.0f})"
    return f"{now:,.0f}" if now == before else f"**{now:,.0f}** (base {before:,.0f})"


def summary(found: list[Place], launches: list[dict[str, Any]], base: list[dict[str, Any]] | None) -> str:
    ours, theirs = by_kernel(launches), by_kernel(base or [])
    count = sum(1 for launch in launches if launch.get("kernel"))
    lines = [f"### Virtual GPU: {counted(len(found), 'finding')} in {counted(count, 'launch', 'es')}", ""]
    for place in found:
        where = f"`{place.file}:{place.line}` " if place.file else ""
        lines.append(f"- {where}{place.finding['check']}: {place.finding['message']} (`{place.finding['kernel']}`)")
    columns = ["launches", *COUNTERS]
    heading = "Counted on the virtual GPU, never timed"
    if base is not None:
        heading += "; what differs from the base branch is bold"
    lines += ["", heading, "", f"| kernel | {' | '.join(columns)} |", "| --- |" + " --: |" * len(columns)]
    for kernel in ours | theirs:
        now, before = ours.get(kernel, {}), theirs.get(kernel, {})
        if base is None:
            cells = [f"{now.get(column, 0):,.0f}" for column in columns]
        else:
            cells = [beside(now.get(column), before.get(column)) for column in columns]
        lines.append(f"| `{kernel}` | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("report", type=Path, help="what cudadent run --report wrote")
    parser.add_argument("--base", type=Path, help="the same of the base branch")
    parser.add_argument("--root", type=Path, default=Path(), help="of the sources (default: here)")
    parser.add_argument("--sarif", type=Path, help="write the findings there, as SARIF 2.1.0")
    parser.add_argument("--summary", type=Path, help="append findings and counters there, as Markdown")
    parser.add_argument("--suite-exit", type=int, default=0, help="the suite's own exit code")
    options = parser.parse_args(arguments)
    launches = read(options.report)
    found = places(launches, options.root.resolve())
    for place in found:
        print(annotation(place))
    if options.sarif:
        options.sarif.write_text(json.dumps(sarif(found), indent=1) + "\n")
    base = read(options.base) if options.base and options.base.exists() else None
    if options.summary:
        with options.summary.open("a") as file:
            file.write(summary(found, launches, base))
    faults = {launch["fault"] for launch in launches if launch.get("fault") and not launch.get("findings")}
    for fault in sorted(faults):
        print(f"::error title=A launch ended early::{escaped(fault)}")
    if found or faults:
        return 1
    ran = any(launch.get("kernel") for launch in launches)
    if options.suite_exit not in (0, 3):
        print(f"::error title=The suite failed::exit code {options.suite_exit}, and no check found anything")
        return 1
    if not ran:
        print("::error title=Nothing ran::no kernel was launched on the virtual GPU, so nothing was checked")
        return 3
    print(f"no finding in {counted(sum(1 for launch in launches if launch.get('kernel')), 'launch', 'es')}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
