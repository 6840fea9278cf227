"""docs/clients.md: which programs run on the virtual GPU, how many of their cases pass, and why the others do not.

    clients_table.py run --cudadent FILE --build DIRECTORY [--only ROW]... [--minutes M]
        runs rows, writes docs/clients.json and the page
    clients_table.py try --cudadent FILE --build DIRECTORY [--only ROW]... [--cases PART OF A NAME]
        runs and writes nothing; exit 1 when something fails or is found that the record does not have
    clients_table.py page       writes the page from the record again
    clients_table.py check      exit 0 when the page is what the record says

A row is a suite of Python (whose cases tell their results by cases.py) or a folder of CUDA programs (each a case,
compiled with the shared cudart; it passes when it ends with 0). Every part of a row runs under `cudadent run`.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import date
from importlib import metadata
from pathlib import Path

from clients_page import page

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[3]
RECORD, PAGE = ROOT / "docs" / "clients.json", ROOT / "docs" / "clients.md"
PART_SECONDS = 3600


@dataclass(frozen=True)
class Row:
    """A line of the table. Arguments in braces are places: see place()."""

    name: str
    what: str
    packages: dict[str, str]  # distribution: the environment it is in
    environment: str = "venv-clients"  # whose Python runs it; empty: CUDA programs
    script: str = ""
    arguments: tuple[str, ...] = ()
    parts: int = 1
    checks: str = "all"
    sources: tuple[str, ...] = ()  # globs of CUDA programs, from this folder's parent
    flags: tuple[str, ...] = ()
    remark: str = ""


TORCH = {"torch": "venv", "triton": "venv-clients"}
NIGHTLY = "venv-clients-nightly"
ROWS = [
    Row(
        "torch",
        "PyTorch: device, tensors, streams, events, graphs, a C++ extension, its operators on the CPU",
        TORCH,
        "venv",
        "torch_suite.py",
        ("{clients}",),
    ),
    Row(
        "triton tutorials",
        "Triton kernels in the manner of its tutorials 01 to 06, written here",
        TORCH,
        "venv",
        "triton_tutorials.py",
        ("{clients}",),
    ),
    Row(
        "triton operators",
        "Triton's operators and types, a kernel each, against torch on the CPU",
        TORCH,
        "venv",
        "triton_operators.py",
        ("{clients}",),
    ),
    Row(
        "attention",
        "Attention through torch on `cuda:0` against the fp64 oracle: Triton's, ours, FlashInfer's",
        TORCH,
        "venv",
        "attention_suite.py",
        ("{clients}", "{flashmoe}", "{oracle}", "{peers}"),
    ),
    Row(
        "tinygrad test_tiny",
        "tinygrad with `DEV=CUDA`: its own test_tiny",
        {"tinygrad": "venv-clients"},
        "venv-clients",
        "tinygrad_tiny.py",
    ),
    Row(
        "tinygrad operators",
        "tinygrad with `DEV=CUDA`: its operators and types against its CPU backend",
        {"tinygrad": "venv-clients"},
        "venv-clients",
        "tinygrad_operators.py",
    ),
    Row(
        "numba-cuda",
        "numba-cuda's own tests, as its wheel carries them",
        {"numba-cuda": "venv-clients", "numba": "venv-clients"},
        "venv-clients",
        "numba_suite.py",
        ("{nightly}", "{part}", "24"),
        parts=24,
        checks="none",
    ),
    Row(
        "cuda-python",
        "NVIDIA's cuda.bindings and cuda.core",
        {"cuda-python": "venv-clients", "cuda-core": "venv-clients"},
        "venv-clients",
        "cuda_python_suite.py",
    ),
    Row("pycuda", "PyCUDA, against NumPy", {"pycuda": "venv-pycuda"}, "venv-pycuda", "pycuda_suite.py"),
    Row("taichi", "Taichi with `arch=ti.cuda`, against NumPy", {"taichi": NIGHTLY}, NIGHTLY, "taichi_suite.py"),
    Row("cupy", "CuPy", {"cupy-cuda13x": NIGHTLY}, NIGHTLY, "cupy_suite.py"),
    Row("warp", "NVIDIA Warp", {"warp-lang": NIGHTLY}, NIGHTLY, "warp_suite.py"),
    Row(
        "thrust and CUB",
        "Thrust's and CUB's algorithms of the device, as the toolkit brings them",
        {},
        "",
        sources=("algorithms/*.cu",),
        flags=("--extended-lambda",),
    ),
    Row("samples", "Programs in the style of NVIDIA's samples, written here", {}, "", sources=("samples/*.cu",)),
    Row(
        "training step",
        "A training step in the manner of llm.c, written here: a tiny GPT, forward, backward, AdamW",
        {},
        "",
        sources=("gpt_step.cu",),
        flags=("--extended-lambda",),
    ),
]


@dataclass
class Ran:
    cases: list[dict] = field(default_factory=list)
    findings: list[str] = field(default_factory=list)  # the first of a program
    found: int = 0  # all
    launches: int = 0


def finding_text(finding: dict) -> str:
    """The check, what it found and the line, without the kernel's whole name and the directories of this machine."""
    what = finding["what"].partition(" (")[0]
    return f"{finding['group']}: {what}, {finding.get('where', '').rpartition('/')[2]}"


class Runner:
    def __init__(self, cudadent: Path, build: Path, minutes: float, cases: str) -> None:
        self.cudadent, self.build, self.cases = cudadent, build, cases
        self.until = time.monotonic() + 60 * minutes
        self.work = build / "clients"
        self.work.mkdir(parents=True, exist_ok=True)
        self.nvcc = shutil.which("nvcc") or "/usr/local/cuda/bin/nvcc"

    def packages(self, environment: str) -> Path:
        found = next((ROOT / "build" / environment).glob("lib/python3*/site-packages"), None)
        if found is None:
            raise SystemExit(f"build/{environment} is not there: .ci/setup, or for some .ci/setup --nightly, makes it")
        return found

    def place(self, argument: str, part: int) -> str:
        match argument:
            case "{clients}":
                return str(self.packages("venv-clients"))
            case "{nightly}":
                return str(self.packages(NIGHTLY))
            case "{flashmoe}":
                return str(self.build / "src" / "libflashmoe.so")
            case "{oracle}":
                return str(self.build / "src" / "kernels" / "reference" / "libfms_oracle.so")
            case "{peers}":
                return str(ROOT / "tests" / "peers")
            case "{part}":
                return str(part)
        return argument

    def version(self, row: Row) -> str:
        if not row.packages:
            told = subprocess.run([self.nvcc, "--version"], capture_output=True, text=True, check=True).stdout
            return "nvcc " + told.partition("release ")[2].partition(",")[0]
        found = []
        for name, environment in row.packages.items():
            # A clone's own environment points at the shared one, which has the packages.
            where = [str(self.packages(environment))]
            link = Path(where[0]) / "shared.pth"
            where += [link.read_text().strip()] if link.exists() else []
            found.append(next(f"{name} {one.version}" for one in metadata.distributions(name=name, path=where)))
        return ", ".join(found)

    def start(self, row: Row, program: list[str], ran: Ran, log: Path) -> tuple[int | None, str]:
        """One program under cudadent run: its exit code (None: it had to be ended) and the end of what it printed."""
        command = [
            str(self.cudadent),
            "run",
            "--device",
            "virtual:l4",
            "--check",
            row.checks,
            "--json=short",
            "--",
            *program,
        ]
        home = {
            "TRITON_CACHE_DIR": str(self.work / "triton"),
            "XDG_CACHE_HOME": str(self.work / "cache"),
            "TRITON_DEFAULT_FP_FUSION": "1",
            "CUDA_HOME": str(Path(self.nvcc).parent.parent),
        }
        with log.open("w") as output:
            process = subprocess.Popen(
                command,
                cwd=HERE,
                env={**os.environ, **home},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=output,
                text=True,
            )
            try:
                told, _ = process.communicate(timeout=PART_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.communicate()
                return None, ""
        said = log.read_text(errors="replace").splitlines()
        try:
            answer = json.loads(told)
        except ValueError:
            return process.returncode, said[-1] if said else ""
        ran.launches += sum(launch["launches"] for launch in answer.get("launches", []))
        # A fault that ends the context is the program's to handle: an assertion that it plants, say.
        found = [one for one in answer.get("first_findings", []) if one["group"] != "fault"]
        ran.findings += [finding_text(one) for one in found]
        ran.found += answer.get("findings", 0) - len(answer.get("first_findings", [])) + len(found)
        own = [line for line in said if not line.startswith(("cudadent", "vgpu"))]
        return answer.get("program_exit_code", process.returncode), own[-1] if own else ""

    def run_part(self, row: Row, part: int) -> Ran | None:
        """None: the time that was given is over."""
        if time.monotonic() > self.until:
            return None
        ran = Ran()
        python = str(ROOT / "build" / row.environment / "bin" / "python")
        file = self.work / f"{row.name.replace(' ', '_')}.{part}.{os.getpid()}.cases"
        file.unlink(missing_ok=True)
        arguments = [self.place(one, part) for one in row.arguments] + ([self.cases] if self.cases else [])
        code, said = self.start(
            row, [python, str(HERE / row.script), str(file), *arguments], ran, file.with_suffix(".log")
        )
        ran.cases += [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []
        if code != 0:
            why = f"took more than {PART_SECONDS} s" if code is None else f"ended with {code}: {said[:200]}"
            ran.cases.append({"case": f"part {part + 1} of {row.parts} to its end", "outcome": "failed", "why": why})
        print(f"  part {part + 1} of {row.parts}: {len(ran.cases)} cases", flush=True)
        return ran

    def run_program(self, row: Row, source: Path) -> Ran:
        ran = Ran()
        program, log = self.work / source.stem, self.work / f"{source.stem}.log"
        command = [
            self.nvcc,
            "-std=c++20",
            "-arch=sm_80",
            "-lineinfo",
            "-cudart",
            "shared",
            *row.flags,
            "-o",
            str(program),
        ]
        written = max(file.stat().st_mtime for file in (source, *HERE.parent.rglob("*.cuh")))
        is_there = program.exists() and program.stat().st_mtime > written
        built = (
            None if is_there else subprocess.run([*command, str(source)], capture_output=True, text=True, check=False)
        )
        if built is not None and built.returncode:
            why = f"does not compile: {(built.stderr or built.stdout).strip().splitlines()[0]}"
            ran.cases.append({"case": source.stem.replace("_", " "), "outcome": "failed", "why": why})
            print(f"  {source.stem}: {why}", flush=True)
            return ran
        code, said = self.start(row, [str(program)], ran, log)
        why = f"ended with {code}: {said[:200]}" if code != 0 else "".join(ran.findings[:1])
        # A program may tell of several cases, a line each, when they have ended well.
        told = [line[5:] for line in log.read_text(errors="replace").splitlines() if line.startswith("CASE ")]
        if why:
            name = source.stem.replace("_", " ") + (", to its end and without a finding" if told else "")
            ran.cases.append({"case": name, "outcome": "failed", "why": why})
        elif not told:
            told = [source.stem.replace("_", " ")]
        ran.cases += [{"case": name, "outcome": "passed", "why": ""} for name in told]
        print(f"  {source.stem}: {why or 'passed'}", flush=True)
        return ran

    def run_all(self, row: Row) -> list[Ran | None]:
        """Its parts or programs, two at a time, in their order."""
        with ThreadPoolExecutor(2) as pool:
            if row.script:
                return list(pool.map(lambda part: self.run_part(row, part), range(row.parts)))
            sources = sorted(file for one in row.sources for file in HERE.parent.glob(one) if self.cases in file.stem)
            return list(pool.map(lambda source: self.run_program(row, source), sources))

    def run(self, row: Row) -> dict:
        print(f"{row.name} ({self.version(row)})", flush=True)
        each = self.run_all(row)
        ran = [one for one in each if one is not None]
        # Without the directories of this machine.
        cases = [{**case, "why": case["why"].replace(f"{ROOT}/", "")} for one in ran for case in one.cases]
        findings = sorted({text for one in ran for text in one.findings})
        outcomes = [case["outcome"] for case in cases]
        return {
            "name": row.name,
            "what": row.what,
            "version": self.version(row),
            "checks": row.checks,
            "date": date.today().isoformat(),
            "ran": len(outcomes) - outcomes.count("skipped"),
            "passed": outcomes.count("passed"),
            "skipped": outcomes.count("skipped"),
            "launches": sum(one.launches for one in ran),
            "findings": findings,
            "found": sum(one.found for one in ran),
            "parts": len(each),
            "parts_run": len(ran),
            "not_passed": [case for case in cases if case["outcome"] != "passed"],
        }


def known_rows() -> dict[str, dict]:
    return {row["name"]: row for row in json.loads(RECORD.read_text())["rows"]} if RECORD.exists() else {}


def new_failures(known: dict, result: dict) -> list[str]:
    """What failed or was found now and not in the record; nothing that ran is a failure, too."""
    failed = {case["case"] for case in known["not_passed"]}
    new = [f"{case['case']}: {case['why']}" for case in result["not_passed"] if case["case"] not in failed]
    new += [finding for finding in result["findings"] if finding not in known["findings"]]
    return [*new, *([] if result["ran"] else [f"{result['name']}: no case ran"])]


def write(rows: dict[str, dict]) -> None:
    ordered = [rows[row.name] for row in ROWS if row.name in rows]
    RECORD.write_text(json.dumps({"device": "virtual:l4", "rows": ordered}, indent=1, ensure_ascii=False) + "\n")
    PAGE.write_text(page(json.loads(RECORD.read_text())))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("run", "try", "page", "check"))
    parser.add_argument("--cudadent", type=lambda text: Path(text).resolve())
    parser.add_argument("--build", type=lambda text: Path(text).resolve())
    parser.add_argument("--only", action="append", choices=[row.name for row in ROWS])
    parser.add_argument(
        "--minutes", type=float, default=1e6, help="parts of a row that have not begun by then are left out"
    )
    parser.add_argument("--cases", default="", help="of a table of operators or a folder, those so named")
    options = parser.parse_args()
    rows = known_rows()
    if options.what == "check":
        names = [row.name for row in ROWS]
        assert sorted(rows) == sorted(names), f"the record has rows {sorted(rows)}, the table {sorted(names)}"
        assert PAGE.read_text() == page(json.loads(RECORD.read_text())), (
            "docs/clients.md is not what docs/clients.json says"
        )
        print(f"{len(rows)} rows, and the page says what they do")
        return 0
    if options.what in ("run", "try"):
        runner = Runner(options.cudadent, options.build, options.minutes, options.cases)
        worse = []
        for row in ROWS:
            if not options.only or row.name in options.only:
                result = runner.run(row)
                worse += new_failures(rows[row.name], result) if options.what == "try" else []
                if options.what == "run":
                    write({**known_rows(), row.name: result})  # another one may have run rows meanwhile
        print("\n".join(worse))
        return 1 if worse else 0
    write(rows)
    return 0


if __name__ == "__main__":
    sys.exit(main())
