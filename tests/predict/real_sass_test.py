"""What nvdisasm prints for cubins of the library, read by src/predict and by a few regular expressions here: the same.

    real_sass_test.py PREDICT_POINTS FOLDER_OF_CUBINS

One kernel in each architecture and one cubin with lines of PTX; no opcode may be unknown. Needs nvdisasm on PATH, in the CUDA
toolkit or in build/venv-clients: without it, it has failed.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
KERNELS = {
    80: "forward_f16_d128_large",
    86: "forward_f16_d64_decode",
    89: "forward_bf16_d64_large",
    90: "forward_f16_d64_small",
    120: "forward_f16_d128_small",
}
FIRST = re.compile(r"^\s+/\*([0-9a-f]{4,})\*/\s+(.*?);\s+/\* 0x[0-9a-f]{16} \*/$")
SECOND = re.compile(r"^\s+/\* 0x([0-9a-f]{16}) \*/$")
LABEL = re.compile(r"^(\.L_x_\d+):$")
LINE = re.compile(r'//## File "[^"]*", line (\d+)')


def nvdisasm() -> str:
    packaged = (ROOT / "build" / "venv-clients").glob("lib/python3*/site-packages/nvidia/*/bin/nvdisasm")
    for place in (shutil.which("nvdisasm"), "/usr/local/cuda/bin/nvdisasm", *map(str, packaged)):
        if place and Path(place).exists():
            return place
    sys.exit("no nvdisasm: run .ci/setup")


def expected(text: str) -> tuple[list[int], list[int], list[int]]:
    """Control bits, branch targets and lines of PTX of a text with one kernel."""
    control: list[int] = []
    code: list[str] = []
    lines: list[int] = []
    labels: dict[str, int] = {}
    line, fresh = 0, False
    for row in text.splitlines():
        if match := FIRST.match(row):
            code.append(match.group(2))
            lines.append(line)
            fresh = False
        elif match := SECOND.match(row):
            control.append(int(match.group(1), 16) >> 41 & 0x1FFFFF)
        elif match := LABEL.match(row):
            labels[match.group(1)] = len(code)
        elif (match := LINE.search(row)) and not fresh:
            line, fresh = int(match.group(1)), True
    targets = []
    for one in code:
        match = re.search(r"`\((\.L_x_\d+)\)", one)
        found = labels.get(match.group(1), -1) if match else -1
        targets.append(found if found < len(code) else -1)
    return control, targets, lines


def with_lines(folder: Path) -> Path:
    """A cubin that knows the lines of its PTX."""
    ptx = folder / "lines.ptx"
    ptx.write_text(
        ".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry add(.param .u64 p, .param .u32 n)\n{\n"
        ".reg .b64 %a;\n.reg .b32 %n, %i;\n.reg .f32 %f;\n.reg .pred %p;\nld.param.u64 %a, [p];\nld.param.u32 %n, [n];\n"
        "mov.u32 %i, 0;\nLOOP:\nld.global.f32 %f, [%a];\nadd.f32 %f, %f, 0f3F800000;\nst.global.f32 [%a], %f;\n"
        "bar.sync 0;\nadd.u32 %i, %i, 1;\nsetp.lt.u32 %p, %i, %n;\n@%p bra LOOP;\nret;\n}\n"
    )
    ptxas = shutil.which("ptxas") or "/usr/local/cuda/bin/ptxas"
    cubin = folder / "lines.cubin"
    subprocess.run([ptxas, "-arch=sm_89", "-lineinfo", str(ptx), "-o", str(cubin)], check=True)
    return cubin


def main() -> int:
    program, images = sys.argv[1], Path(sys.argv[2])
    faults = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        cubins = {sm: images / f"{kernel}.sm_{sm}.cubin" for sm, kernel in KERNELS.items()}
        for sm, cubin in [*cubins.items(), (89, with_lines(folder))]:
            done = subprocess.run([nvdisasm(), "-c", "-hex", "-gp", str(cubin)], capture_output=True, text=True, check=True)
            file = folder / "sass.txt"
            file.write_text(done.stdout)
            request = json.dumps({"sass": str(file)}) + "\n"
            read = subprocess.run([program], input=request, capture_output=True, text=True, check=True)
            answer = json.loads(read.stdout)
            if "error" in answer:
                faults.append(f"{cubin.name}: {answer['error']}")
                continue
            (kernel,) = answer["kernels"]
            control, targets, lines = expected(done.stdout)
            wanted = {"architecture": f"sm_{sm}", "control": control, "targets": targets, "lines": lines, "unknown": {}}
            faults += [f"{cubin.name}: other {key}" for key, value in wanted.items() if kernel[key] != value]
            if kernel["unknown"]:
                faults.append(f"{cubin.name}: unknown are {kernel['unknown']}")
            branches = sum(target >= 0 for target in targets)
            print(f"{cubin.name}: {len(control)} instructions, {branches} branches, {len(set(lines))} lines of PTX")
            if not control or (cubin.name == "lines.cubin" and len(set(lines)) < 5):
                faults.append(f"{cubin.name}: too little to compare")
    print(*faults, sep="\n")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
