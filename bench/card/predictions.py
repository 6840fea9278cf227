"""What flashmoe_card --time is predicted to find on a GPU: docs/predictions/<gpu>.json.

predictions.py [--gpu l4] [--build DIR] [--nvdisasm PATH] [--problems all|quick] [--write | --check | --fresh]

Each problem of the table runs on the virtual GPU, one KV head of one sequence with the plan of all of them; `cudadent
predict` says what the grid of all takes. A row carries the SHA-256 of the kernel's cubin and its plan: a measurement of
another kernel or plan is not to be held against it. Nothing is measured.

--write    the file; without it the rows are printed, a line of JSON each
--check    exit code 1 unless the file is what would be written (of the problems asked for)
--fresh    exit code 1 unless kernels and plans are those of the build; nothing runs
--build DIR       with flashmoe_card, vgpu and cudadent    (default: build/release)
--nvdisasm PATH   (default: $NVDISASM, PATH, the CUDA toolkit, build/venv-clients)

Exit code 0: done; 1: see above; 3: it could not run.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "bench" / "peers"))
from executed import CannotRunError  # noqa: E402
from nvdisasm import find_nvdisasm  # noqa: E402
from peer_builds import find_nvcc  # noqa: E402

Row = dict[str, Any]
TABLE = ROOT / "python" / "flashmoe_science" / "card_problems.json"
# What makes a measurement one of the same launch.
IDENTITY = ("kernel", "image", "image_sha256", "q_tile", "kv_splits", "ctas")
COUNTERS = {
    "ptx_instructions": ("vgpu__ptx_inst_executed.sum",),
    "mma": ("vgpu__ptx_inst_executed_pipe_tensor.sum",),
    "dram_bytes": ("vgpu__dram_bytes_read.sum", "vgpu__dram_bytes_written.sum", "vgpu__l2_dirty_bytes_at_end"),
}
CODE = re.compile(r"/\* (0x[0-9a-f]{16}) \*/")


def problems(which: str) -> list[str]:
    return [row["name"] for row in json.loads(TABLE.read_text()) if which == "all" or row["quick"]]


def model_version() -> int:
    return int(json.loads((ROOT / "tests" / "predict" / "frozen.json").read_text())["version"])


def rounded(times: dict[str, float]) -> dict[str, float]:
    return {name: round(value, 3) for name, value in times.items()}


class Card:
    """The program of this folder on a virtual GPU."""

    def __init__(self, build: Path, gpu: str) -> None:
        self.program = build / "bin" / "flashmoe_card"
        self.environment = {
            **os.environ, "FLASHMOE_DRIVER": str(build / "vgpu" / "libcuda.so.1"), "VGPU_DEVICE": gpu,
            "VGPU_CHECK": "none", "VGPU_LOG": "off",
        }  # fmt: skip

    def lines(self, *words: str, **environment: str) -> list[Row]:
        """Of the problems: without the first, which is of the card."""
        command = [str(self.program), *words]
        whole = {**self.environment, **environment}
        done = subprocess.run(command, env=whole, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise CannotRunError(f"{' '.join(command)} ended with {done.returncode}: {done.stderr.strip()}")
        return [json.loads(line) for line in done.stdout.splitlines()[1:]]

    def identities(self) -> dict[str, Row]:
        return {line["problem"]: {key: line.get(key) for key in IDENTITY} for line in self.lines("--plans")}


class Predictor:
    def __init__(self, build: Path, gpu: str, nvdisasm: str, scratch: Path) -> None:
        self.card = Card(build, gpu)
        self.gpu = gpu
        self.cudadent = build / "bin" / "cudadent"
        self.images = build / "src" / "kernels" / "cuda" / "images"
        self.ptxas = Path(find_nvcc()).with_name("ptxas")
        self.nvdisasm = nvdisasm
        self.scratch = scratch
        self.identities = self.card.identities()

    def row(self, problem: str) -> Row:
        identity = self.identities[problem]
        report = self.scratch / "report.jsonl"
        report.unlink(missing_ok=True)
        once = self.card.lines("--once", problem, VGPU_PATHS="1", VGPU_REPORT=str(report))[0]
        launches = [json.loads(line) for line in report.read_text().splitlines()]
        times = once["of_heads"] // once["heads"]
        # Heads lie along x: src/kernels/cuda/attention/tile_place.cuh.
        grids = [[launch["grid"][0] * times, *launch["grid"][1:]] for launch in launches]
        answer = self._predict(report, identity, [",".join(map(str, grid)) for grid in grids])
        first = answer["launches"][0]
        refusals = [refusal for launch in answer["launches"] for refusal in launch["refusals"]]
        row = {"problem": problem, **identity, "grids": grids}
        if refusals:
            return {**row, "not_predicted": refusals[0], "counters": self._counters(launches, times)}
        return {
            **row,
            "predicted_us": round(answer["boost"]["us"], 3),
            "cycles": round(answer["cycles"], 1),
            "boost": rounded(answer["boost"]),
            "sustained": rounded(answer["sustained"]) if answer["sustained"] else None,
            "limiter": first["limiter"],
            "doubts": [doubt for launch in answer["launches"] for doubt in launch["doubts"]],
            "counters": self._counters(launches, times),
        }

    @staticmethod
    def _counters(launches: list[Row], times: int) -> dict[str, int]:
        """Of the virtual GPU, of all heads."""
        every = [{metric["name"]: metric["value"] for metric in launch["metrics"]} for launch in launches]
        return {
            name: round(times * sum(metrics.get(one, 0) for metrics in every for one in names))
            for name, names in COUNTERS.items()
        }

    def _predict(self, report: Path, identity: Row, grids: list[str]) -> Row:
        cubin = self._with_lines(identity["kernel"], identity["image"])
        command = [str(self.cudadent), "predict", "--report", str(report), "--device", f"virtual:{self.gpu}"]
        command += ["--cubin", str(cubin), "--grid", *grids, "--json", "--quiet"]
        environment = {**os.environ, "NVDISASM": self.nvdisasm}
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        answer: Row = json.loads(done.stdout or "{}")
        if "launches" not in answer:
            raise CannotRunError(f"{' '.join(command)} ended with {done.returncode}: {done.stdout}{done.stderr}")
        return answer

    def _with_lines(self, kernel: str, image: str) -> Path:
        """The cubin that ships, with the lines of the PTX that ran: the model finds the way of the warps by them."""
        sm = image.removeprefix("cubin, ")
        lined = self.scratch / f"{kernel}.cubin"
        if not lined.exists():
            text = self.images / f"{kernel}.ptx"
            command = [str(self.ptxas), "-O3", "-lineinfo", f"-arch={sm}", str(text), "-o", str(lined)]
            subprocess.run(command, check=True)
            shipped = self.images / f"{kernel}.{sm}.cubin"
            if self._code(lined) != self._code(shipped):
                raise CannotRunError(f"{kernel} has other machine code with lines than without")
        return lined

    def _code(self, cubin: Path) -> list[str]:
        command = [self.nvdisasm, "-c", "-hex", str(cubin)]
        return CODE.findall(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


def whole_file(gpu: str, rows: list[Row]) -> Row:
    return {
        "what": "predicted; never run on a card. Written by the target predictions (bench/card/predictions.py)",
        "gpu": gpu,
        "model": model_version(),
        "rows": rows,
    }


def file_text(content: Row) -> str:
    """A row a line: a change shows which problem it is of."""
    head = {key: value for key, value in content.items() if key != "rows"}
    lines = ",\n".join(json.dumps(row) for row in content["rows"])
    return json.dumps(head)[:-1] + f', "rows": [\n{lines}\n]}}\n'


def is_same(one: Any, other: Any) -> bool:
    """Figures to 0.1 %, as the model's own are held (tests/predict/frozen.py): which CTA is the last to merge, and so
    what L2 still holds at the end, is the schedule's choice."""
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(is_same(value, other[key]) for key, value in one.items())
    if isinstance(one, float) or isinstance(other, float) or (isinstance(one, int) and isinstance(other, int)):
        return other is not None and abs(one - other) <= 0.001 * abs(one)
    return bool(one == other)


def differences(kept: Row, rows: list[Row]) -> Iterator[str]:
    """Between the file and what is true now."""
    known = {row["problem"]: row for row in kept["rows"]}
    for row in rows:
        of_file = known.get(row["problem"], {})
        for key, value in row.items():
            exact = key in IDENTITY
            if of_file.get(key) != value if exact else not is_same(value, of_file.get(key)):
                yield f"{row['problem']}: {key} is {value}, the file has {of_file.get(key)}"


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gpu", default="l4")
    parser.add_argument("--build", type=Path, default=ROOT / "build" / "release")
    parser.add_argument("--nvdisasm")
    parser.add_argument("--problems", choices=("all", "quick"), default="all")
    what = parser.add_mutually_exclusive_group()
    for flag in ("--write", "--check", "--fresh"):
        what.add_argument(flag, action="store_true")
    parsed = parser.parse_args()
    if parsed.write and parsed.problems != "all":
        parser.error("--write is for all problems")
    return parsed


def rows_of(options: argparse.Namespace) -> list[Row]:
    build = options.build.absolute()
    if options.fresh:
        return [{"problem": name, **row} for name, row in Card(build, options.gpu).identities().items()]
    rows = []
    with tempfile.TemporaryDirectory() as scratch:
        predictor = Predictor(build, options.gpu, find_nvdisasm(options.nvdisasm), Path(scratch))
        for name in problems(options.problems):
            rows.append(predictor.row(name))
            if not options.check:
                print(json.dumps(rows[-1]), flush=True)
    return rows


def main() -> int:
    options = parse()
    file = ROOT / "docs" / "predictions" / f"{options.gpu}.json"
    try:
        rows = rows_of(options)
        if options.write:
            file.parent.mkdir(exist_ok=True)
            file.write_text(file_text(whole_file(options.gpu, rows)))
        if not (options.check or options.fresh):
            return 0
        kept = json.loads(file.read_text())
    except (RuntimeError, OSError, subprocess.CalledProcessError, SystemExit) as error:
        print(f"predictions: {error}", file=sys.stderr)
        return 3
    found = list(differences(kept, rows))
    if kept["model"] != model_version():
        found.append(f"the model is version {model_version()}, the file's {kept['model']}")
    for line in found:
        print(line, file=sys.stderr)
    if found:
        print("cmake --build build/release --target predictions writes it anew", file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
