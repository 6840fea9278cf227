"""Kernels of strangers: whether the model puts in order what it has never seen.

    strangers.py --program PREDICT_POINTS --build BUILD --sources DIR [--write-docs]

strangers.toml lists matrix products that their authors have timed, and where they are from; DIR has a clone of each
repository, at its commit (`git clone URL DIR/NAME`, the last word of the URL). Each is compiled for sm_86, one CTA of
it runs on the virtual GPU in the problem's full size, and the whole grid is predicted from it for the card. Right is a
pair of kernels of one table whose predicted order, by SM cycles, is the published one. Nothing is fitted.
"""

from __future__ import annotations

import argparse
import ctypes
import itertools
import json
import math
import os
import re
import subprocess
import sys
import tempfile
import tomllib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from measured_programs import find_nvdisasm
from model import Model, ModelError
from page import table
from published import HERE, read_cards

SIZE = 4096
DEVICE, ARCHITECTURE = "a10", "sm_86"  # whose SMs both cards have
BELIEVED = 1.10  # predicted; smaller gaps are shown by themselves
PAGE = HERE.parents[1] / "docs" / "predict-strangers.md"


@dataclass(frozen=True)
class Kernel:
    group: str
    name: str
    source: Path
    instance: str  # "sgemm<32>"; of an element type: the template's name
    element: str  # empty: the source has one entry of that name
    include: Path | None
    arguments: str
    tile: tuple[int, int]
    block: tuple[int, int]
    card: str
    tflops: float

    @property
    def grid(self) -> tuple[int, int, int]:
        return (-(-SIZE // self.tile[0]), -(-SIZE // self.tile[1]), 1)


@dataclass(frozen=True)
class Answer:
    kernel: Kernel
    cycles: float
    refusal: str = ""
    doubts: list[str] = field(default_factory=list)


def read(sources: Path, file: Path = HERE / "strangers.toml") -> list[Kernel]:
    found = []
    for group, text in tomllib.loads(file.read_text()).items():
        folder = sources / text["url"].rpartition("/")[2]
        for one in text["kernels"]:
            found.append(
                Kernel(
                    group, one["name"], folder / one["source"], one["kernel"], text.get("element", ""),
                    folder / text["include"] if "include" in text else None, text["arguments"],
                    tuple(one["tile"]), tuple(one["block"]), text["card"], one["tflops"],
                )
            )  # fmt: skip
    return found


def check_sources(sources: Path, file: Path = HERE / "strangers.toml") -> None:
    for text in tomllib.loads(file.read_text()).values():
        folder = sources / text["url"].rpartition("/")[2]
        asked = subprocess.run(
            ["git", "-C", str(folder), "rev-parse", "HEAD"], capture_output=True, text=True, check=False
        )
        if asked.stdout.strip() != text["commit"]:
            raise SystemExit(f"strangers: {folder} is no clone of {text['url']} at {text['commit']}")


def compiled(kernel: Kernel, scratch: Path) -> tuple[Path, Path, str]:
    """PTX, SASS with its lines, and the entry's name."""
    text = "#include <cassert>\n#include <cstdio>\n#include <cstdlib>\n#define CEIL_DIV(M, N) (((M) + (N)-1) / (N))\n"
    text += f'#include "{kernel.source}"\n'
    if not kernel.element:
        text += f"void* const kept = (void*){kernel.instance};\n"
    wrapper = scratch / "kernel.cu"
    wrapper.write_text(text)
    words = ["nvcc", "-O3", "-std=c++17", "-lineinfo", f"-arch={ARCHITECTURE}"]
    words += [f"-I{kernel.include}"] if kernel.include else []
    ptx, cubin, sass = (scratch / f"kernel.{suffix}" for suffix in ("ptx", "cubin", "sass"))
    subprocess.run([*words, "-ptx", str(wrapper), "-o", str(ptx)], capture_output=True, check=True)
    base = re.escape(kernel.instance.partition("<")[0])
    mangled = {"float": "If", "__half": "I6__half", "": ""}[kernel.element]
    names = re.findall(rf"\.visible \.entry (_Z\d+{base}{mangled}\w*)\(", ptx.read_text())
    if len(names) != 1:
        raise RuntimeError(f"{kernel.name}: {len(names)} entries")
    subprocess.run(
        ["ptxas", "-O3", "-lineinfo", f"-arch={ARCHITECTURE}", f"--entry={names[0]}", str(ptx), "-o", str(cubin)],
        capture_output=True, check=True,
    )  # fmt: skip
    printed = subprocess.run(
        [find_nvdisasm(), "-c", "-hex", "-gp", str(cubin)], capture_output=True, text=True, check=True
    )
    sass.write_text(printed.stdout)
    return ptx, sass, names[0]


LAUNCHER = """
import json, strangers, sys
strangers.launch(**json.loads(sys.argv[1]))
"""


def launch(ptx: str, name: str, block: list[int], arguments: str, element: str) -> None:
    """One CTA, on whatever libcuda.so.1 is; in a process of its own. Products of zeros take as long as others."""
    cuda = ctypes.CDLL("libcuda.so.1")

    def call(function: str, *words: Any) -> None:
        if (code := getattr(cuda, function)(*words)) != 0:
            raise RuntimeError(f"{function} returned {code}")

    context, module, entry = (ctypes.c_void_p() for _ in range(3))
    call("cuInit", 0)
    call("cuDevicePrimaryCtxRetain", ctypes.byref(context), 0)
    call("cuCtxSetCurrent", context)
    call("cuModuleLoadData", ctypes.byref(module), Path(ptx).read_bytes() + b"\0")
    call("cuModuleGetFunction", ctypes.byref(entry), module, name.encode())
    is_wide = "lda" in arguments  # size_t for sizes there, int elsewhere
    values: list[Any] = []
    for word in arguments.split():
        if word in ("A", "B", "C"):
            values.append(ctypes.c_void_p())
            call("cuMemAlloc_v2", ctypes.byref(values[-1]), ctypes.c_size_t(4 * SIZE * SIZE))
            call("cuMemsetD8_v2", values[-1], 0, ctypes.c_size_t(4 * SIZE * SIZE))
        elif word in ("alpha", "beta"):
            values.append(ctypes.c_uint16(0x3C00) if element == "__half" else ctypes.c_float(1))
        else:
            values.append(ctypes.c_size_t(SIZE) if is_wide else ctypes.c_int(SIZE))
    pointers = (ctypes.c_void_p * len(values))(*(ctypes.cast(ctypes.byref(v), ctypes.c_void_p) for v in values))
    call("cuLaunchKernel", entry, 1, 1, 1, block[0], block[1], 1, 0, None, pointers, None)
    call("cuCtxSynchronize")


def predicted(kernel: Kernel, model: Model, driver: Path) -> Answer:
    with tempfile.TemporaryDirectory() as folder:
        ptx, sass, name = compiled(kernel, Path(folder))
        report = Path(folder) / "report.jsonl"
        words = {
            "ptx": str(ptx), "name": name, "block": kernel.block, "arguments": kernel.arguments,
            "element": kernel.element,
        }  # fmt: skip
        settings = {"VGPU_DEVICE": DEVICE, "VGPU_CHECK": "none", "VGPU_PATHS": "1", "VGPU_REPORT": str(report)}
        environment = {**os.environ, **settings, "LD_LIBRARY_PATH": str(driver)}
        ran = subprocess.run(
            [sys.executable, "-c", LAUNCHER, json.dumps(words)], cwd=HERE, env=environment, capture_output=True,
            text=True, check=False,
        )  # fmt: skip
        if ran.returncode != 0:
            form = re.search(r"unknown instruction form \S+", ran.stderr)
            why = form[0] if form else ran.stderr.splitlines()[-1]
            return Answer(kernel, math.inf, f"does not run on the virtual GPU: {why}")
        request = {"report": str(report), "sass": str(sass), "gpu": read_cards()[kernel.card].gpu()}
        try:
            answer = model.ask({**request, "grid": kernel.grid})
        except ModelError as error:
            return Answer(kernel, math.inf, str(error))
    return Answer(kernel, answer["launch_cycles"], (answer["refusals"] or [""])[0], answer["doubts"])


@dataclass
class Order:
    pairs: int = 0
    right: int = 0

    def text(self) -> str:
        return f"{self.right} of {self.pairs}" + (f" ({100 * self.right / self.pairs:.0f} %)" if self.pairs else "")


@dataclass
class Orders:
    all: Order = field(default_factory=Order)
    believed: Order = field(default_factory=Order)  # predicted gaps from BELIEVED on
    near: Order = field(default_factory=Order)  # published within a factor of two: the others are easy


def orders(answers: list[Answer]) -> dict[str, Orders]:
    """By group, of pairs that are predicted."""
    found: dict[str, Orders] = {}
    for first, second in itertools.combinations([one for one in answers if not one.refusal], 2):
        if first.kernel.group != second.kernel.group or first.kernel.tflops == second.kernel.tflops:
            continue
        gap = max(first.cycles, second.cycles) / min(first.cycles, second.cycles)
        is_right = (first.cycles < second.cycles) == (first.kernel.tflops > second.kernel.tflops)
        published = max(first.kernel.tflops, second.kernel.tflops) / min(first.kernel.tflops, second.kernel.tflops)
        own = found.setdefault(first.kernel.group, Orders())
        for order, counts in ((own.all, True), (own.believed, gap >= BELIEVED), (own.near, published < 2)):
            order.pairs += counts
            order.right += counts and is_right
    return found


INTRODUCTION = """\
# Kernels of strangers

Matrix products of 4096 x 4096 x 4096 that others wrote, timed and published, and that the model had never seen: the
order of two of them, predicted and published. Written by `tests/predict/strangers.py`; the kernels, their commits and
their figures are in `tests/predict/strangers.toml`, the sources are their authors'. Compiled here for sm_86 by another
compiler than their authors'; one CTA runs on the virtual GPU, the grid is predicted, nothing is fitted. Sorted by
published speed.

"""


def text_of(answers: list[Answer]) -> str:
    text = INTRODUCTION + "## Order of pairs\n\n"
    found = orders(answers)
    found["together"] = Orders(*(
        Order(sum(getattr(one, name).pairs for one in found.values()),
              sum(getattr(one, name).right for one in found.values()))
        for name in ("all", "believed", "near")
    ))  # fmt: skip
    rows = []
    for group, own in found.items():
        refused = sum(bool(one.refusal) and group in (one.kernel.group, "together") for one in answers)
        rows.append((group, own.all.text(), own.believed.text(), own.near.text(), str(refused)))
    head = ("table", "right", "of predicted gaps of 10 % and more", "of those published within a factor of two",
            "kernels not predicted")  # fmt: skip
    text += table(head, rows)
    text += "\n## The kernels\n\n"
    lines = []
    for one in sorted(answers, key=lambda answer: (answer.kernel.group, answer.kernel.tflops)):
        cycles = "" if one.refusal else f"{one.cycles / 1e6:.2f}"
        said = one.refusal or "; ".join(one.doubts)
        lines.append((one.kernel.name, one.kernel.card, f"{one.kernel.tflops:.2f}", cycles, said))
    return text + table(
        ("kernel", "card", "published TFLOPS", "predicted million cycles", "refused, or doubted"), lines
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", required=True, help="the built predict_points")
    parser.add_argument("--build", type=Path, required=True, help="a build tree with the virtual GPU")
    parser.add_argument("--sources", type=Path, required=True)
    parser.add_argument("--write-docs", action="store_true")
    options = parser.parse_args()
    check_sources(options.sources)
    answers = []
    with Model(options.program, {}) as model:
        for kernel in read(options.sources.absolute()):
            answers.append(predicted(kernel, model, options.build.absolute() / "vgpu"))
            last = answers[-1]
            print(kernel.name, kernel.tflops, last.cycles, last.refusal, last.doubts, flush=True)
    print(text_of(answers))
    if options.write_docs:
        PAGE.write_text(text_of(answers))
    return 0


if __name__ == "__main__":
    sys.exit(main())
