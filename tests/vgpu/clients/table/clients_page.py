"""The page of the clients' table, from its record."""

from __future__ import annotations

import re
from collections import defaultdict

# What failures have in common, and why: (a part of what was said, in the record's words; the sentence).
RUNTIME_INSIDE = (
    "NVIDIA's runtime is linked into its library, and wants tables of NVIDIA's driver that nobody documents "
    "([ADR 21](adr/0021-a-runtime-of-our-own.md))"
)
STATIC_BY_SCRIPT = f"{RUNTIME_INSIDE}; its build script names that static library and has no switch for the shared one."
CAUSES: list[tuple[str, str]] = [
    (r"CUDARuntimeError: cudaErrorNotSupported", f"CuPy's wheel: {STATIC_BY_SCRIPT}"),
    (
        r"Failed to allocate \d+ bytes on device 'cuda:0'",
        f"Warp's wheel: {RUNTIME_INSIDE}; built from source with `WARP_USE_DYNAMIC_CUDA` it looks for the shared one "
        "(not tried: it wants NVIDIA's PTX compiler as a shared library too).",
    ),
    (r"cudaError_t.cudaErrorNotSupported: 801", f"cuda.bindings.runtime: {STATIC_BY_SCRIPT}"),
    (
        r"CUDA_ERROR_INVALID_PTX",
        "The program declares a function with a result and links one that has none. The call does not fit, and is "
        "refused; on a GPU its result would be what the register held.",
    ),
    (
        r"0 not greater than \d+",
        "Registers are what ptxas says, and the toolkit's of CUDA 13.0 does not read PTX 9.4 of numba's compiler.",
    ),
    (
        r"0 != 1 : Counter\(\)|2 != 3 : \['cuda_and_cpu",
        "numba's cache on disk has no entry of the CPU's compiler, which asks the driver nothing; not looked into "
        "further.",
    ),
    (
        r"racecheck: race: a write after a read.*assign_value\.h",
        "Results are right. Thrust's unique in place: a block overwrites what an earlier one has read, and what tells "
        "it that it may is a relaxed store and a relaxed load (CUB's tile states), which order nothing in PTX's memory "
        "model.",
    ),
    (r"cuIpcGetMemHandle", "Memory of one process is not opened in another (cuIpcGetMemHandle)."),
    (
        r"nvJitLinkError: ERROR_UNRECOGNIZED_INPUT",
        "It links a library or object without PTX (LTO code), and nothing here executes SASS.",
    ),
]

# The same of what checks found; tests/peers holds FlashInfer's to exactly these.
FINDINGS = [
    (
        r"PTX line \d+: ld\.volatile\.shared",
        "PyCUDA's own: its reductions end within a warp, over volatile shared memory, and count on lanes that keep in "
        "step; since Volta there must be a `__syncwarp()` between.",
    ),
    (
        r"permuted_smem\.cuh",
        "FlashInfer's own: lanes store a tile and read each other's rows with no `__syncwarp()` between.",
    ),
    (
        r"variant_helper\.cuh",
        "FlashInfer's own, harmless: rows beyond the last query are never loaded, looked at, and not stored.",
    ),
    (r"assign_value\.h", "Thrust's own: see above."),
]

HEAD = """# Programs on the virtual GPU
What other people's libraries and programs of ours do on it, made by `cmake --build --preset ci --target clients` (after
`.ci/setup --nightly`) from pinned packages and the sources of `tests/vgpu/clients`. All figures are counts of cases,
virtual: no GPU has run any of it. The device is `{device}`. *Ran* leaves out what a suite skips by itself; *findings*
are those of the checks that were on. The record is `clients.json` beside this page.

| what | version | checks | ran | passed | skipped | findings | run on |
| --- | --- | --- | --: | --: | --: | --: | --- |
"""

TAIL = """
## How numba-cuda's row came about
One run of all its parts, while others were building. Four cases start processes of their own, which did not find pytest
then; with its place in their environment, as the suite hands it on since, they were run again by themselves and passed.
"""


def cause_of(why: str) -> str:
    return next((sentence for part, sentence in CAUSES if re.search(part, why)), why)


def grouped(cases: list[dict]) -> dict[str, list[str]]:
    groups: dict[str, list[str]] = defaultdict(list)
    for case in cases:
        groups[cause_of(case["why"])].append(case["case"])
    return dict(sorted(groups.items(), key=lambda group: -len(group[1])))


def short(name: str) -> str:
    return name.removeprefix("numba.cuda.tests.")


def in_part(row: dict) -> str:
    return f", {row['parts_run']} of {row['parts']} parts" if row["parts_run"] < row["parts"] else ""


def cell(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;").replace("\n", " ")


def not_passed(row: dict, outcome: str) -> list[str]:
    lines = []
    for why, names in grouped([case for case in row["not_passed"] if case["outcome"] == outcome]).items():
        shown = ", ".join(f"`{short(name)}`" for name in names[:4])
        more = f" and {len(names) - 4} more" if len(names) > 4 else ""
        lines.append(f"| {len(names)} | {cell(why)} | {shown}{more} |")
    return lines


def page(record: dict) -> str:
    text = HEAD.format(device=record["device"])
    for row in record["rows"]:
        figures = (row["ran"], row["passed"], row["skipped"], row["found"] if row["checks"] != "none" else "-")
        text += f"| {row['what']} | {row['version']} | {row['checks']} | " + " | ".join(str(one) for one in figures)
        text += f" | {row['date']}{in_part(row)} |\n"
    for outcome, title in (("failed", "What failed"), ("skipped", "What was skipped, by the suites themselves")):
        text += f"\n## {title}\n"
        for row in record["rows"]:
            if lines := not_passed(row, outcome):
                text += f"\n### {row['what']}\n| cases | why | which |\n| --: | --- | --- |\n" + "\n".join(lines) + "\n"
    findings = [(row["what"], finding) for row in record["rows"] for finding in row["findings"]]
    if findings:
        text += "\n## What the checks found, the first of each program\n"
        text += "| where | finding | what it is |\n| --- | --- | --- |\n"
        for where, finding in findings:
            known = next((sentence for part, sentence in FINDINGS if re.search(part, finding)), "not looked into yet")
            text += f"| {where} | {cell(finding)} | {known} |\n"
    return text + TAIL
