"""Each form of cvt is counted in the pipe of the instruction that ptxas converts with.

    conversion_pipes_test.py PTX_FORMS.md [--nvdisasm PATH]

The forms and their pipes are read from docs/ptx-forms.md, which a test of the op table keeps true. All of them are
compiled for sm_89 (what it lacks: for sm_90) and disassembled. Needs ptxas on PATH or in /usr/local/cuda, and nvdisasm
there or in build/venv-clients: without them it has failed.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

# The first that appears decides: an instruction beside it saturates or moves. Conversions that run at the rate of the
# XU need a scoreboard; F2FP, I2FP, F2IP and I2I have the fixed latency of the ALU ("fast FP32-to-FP16 conversion",
# Nsight Compute's description of that pipe).
PIPES = {
    **dict.fromkeys(("F2F", "F2I", "I2F", "FRND"), "xu"),
    **dict.fromkeys(("F2FP", "I2FP", "F2IP", "I2I"), "alu"),
    **dict.fromkeys(("DSETP", "DADD"), "fp64"),
    **dict.fromkeys(("HADD2", "HMNMX2"), "half"),
}
# Where none of those is left: FADD and FMUL flush or saturate, everything else is moves and logic.
FLOAT_ARITHMETIC = {"FADD", "FMUL"}
INTEGER_LOGIC = {"PRMT", "SHF", "LOP3", "IMAD", "SGXT", "IADD3", "ISETP", "SEL", "FSETP", "FSEL", "IMNMX", "VIMNMX"}
AROUND = {"MOV", "ULDC", "LDC", "LDG", "STG", "EXIT", "BRA", "NOP", "S2R"}

BITS = {"f16x2": 32, "bf16x2": 32, "tf32": 32, "e4m3x2": 16, "e5m2x2": 16}
REGISTER = {16: "b16", 32: "b32", 64: "b64"}


def bits_of(name: str) -> int:
    """Of a type's register; 0 when it is no type."""
    found = re.fullmatch(r"(?:bf|[usf])(8|16|32|64)", name)
    return BITS.get(name, max(16, int(found[1])) if found else 0)


def expand(pattern: str) -> list[str]:
    forms = [""]
    for group in re.findall(r"\{[^}]*\}|\[[^]]*\]|[^{\[]+", pattern):
        choices = group[1:-1].split(",") if group[0] in "{[" else [group]
        forms = [form + choice for form in forms for choice in choices + ([""] if group[0] == "[" else [])]
    return forms


def documented(text: str) -> dict[str, tuple[str, int]]:
    """The pipe and the number of sources of every form of cvt."""
    found = {}
    for pattern, operands, pipe in re.findall(r"^\| `(cvt[^a`][^`]*)` \| `([^`]*)` \| (\w+) \|", text, re.MULTILINE):
        for form in expand(pattern):
            found[form] = (pipe, len(operands.split()) - 1)
    return found


def kernel(name: str, form: str, sources: int) -> str:
    destination, source = (REGISTER[bits] for bits in map(bits_of, form.split(".")) if bits)
    return (
        f".visible .entry {name}(.param .u64 i, .param .u64 o) {{ .reg .b64 %i, %o; .reg .{destination} %d;\n"
        f".reg .{source} %a, %b; ld.param.u64 %i, [i]; ld.param.u64 %o, [o];\n"
        f"ld.global.{source} %a, [%i]; ld.global.{source} %b, [%i+16];\n"
        f"{form} %d, %a{', %b' * (sources - 1)};\nst.global.{destination} [%o], %d; ret; }}\n"
    )


def tool(name: str, *more: Path) -> str:
    for place in (shutil.which(name), f"/usr/local/cuda/bin/{name}", *map(str, more)):
        if place and Path(place).exists():
            return place
    sys.exit(f"no {name}: install the CUDA toolkit and run .ci/setup")


class Disassembler:
    def __init__(self, directory: Path) -> None:
        packaged = (ROOT / "build" / "venv-clients").glob("lib/python3*/site-packages/nvidia/*/bin/nvdisasm")
        self.ptxas, self.nvdisasm = tool("ptxas"), tool("nvdisasm", *packaged)
        self.text, self.cubin = directory / "forms.ptx", directory / "forms.cubin"

    def opcodes(self, forms: dict[str, int], architecture: str) -> dict[str, list[str]]:
        """What each form becomes; forms that the architecture lacks are left out."""
        names = list(forms)
        while names:
            kernels = [kernel(f"k{i}", form, forms[form]) for i, form in enumerate(names)]
            self.text.write_text(f".version 9.0\n.target {architecture}\n.address_size 64\n" + "".join(kernels))
            command = [self.ptxas, f"-arch={architecture}", "-o", str(self.cubin), str(self.text)]
            ran = subprocess.run(command, capture_output=True, text=True, check=False)
            if ran.returncode == 0:
                break
            refused = {(int(line) - 4) // kernels[0].count("\n") for line in re.findall(r", line (\d+);", ran.stderr)}
            assert refused, ran.stderr
            names = [form for i, form in enumerate(names) if i not in refused]
        listing = subprocess.run([self.nvdisasm, "-c", str(self.cubin)], capture_output=True, text=True, check=True)
        found: dict[str, list[str]] = {form: [] for form in names}
        for section in listing.stdout.split(".section\t.text.k")[1:]:
            form = names[int(re.match(r"\d+", section)[0])]  # type: ignore[index]
            for opcode in re.findall(r"/\*[0-9a-f]{4}\*/\s+(?:@!?\w+ )?([A-Z0-9]+)", section):
                found[form].append(opcode)
        return found


def pipe_of(opcodes: list[str]) -> str:
    left = [opcode for opcode in opcodes if opcode not in AROUND]
    for opcode, pipe in PIPES.items():
        if opcode in left:
            return pipe
    unknown = set(left) - FLOAT_ARITHMETIC - INTEGER_LOGIC
    assert not unknown, f"no pipe is written down for {unknown}"
    return "fma" if FLOAT_ARITHMETIC & set(left) else "alu"


def main() -> int:
    forms = documented(Path(sys.argv[1]).read_text())
    assert len(forms) > 800, f"only {len(forms)} forms of cvt in {sys.argv[1]}"
    wrong, checked = [], 0
    with tempfile.TemporaryDirectory() as directory:
        disassembler = Disassembler(Path(directory))
        left = {form: sources for form, (_, sources) in forms.items()}
        for architecture in ("sm_89", "sm_90"):
            for form, opcodes in disassembler.opcodes(left, architecture).items():
                checked += 1
                del left[form]
                pipe = pipe_of(opcodes)
                if pipe != forms[form][0]:
                    became = " ".join(opcode for opcode in opcodes if opcode not in AROUND)
                    wrong.append(f"{form}: counted as {forms[form][0]}, is {pipe}: {architecture} has {became}")
    print(f"{checked} forms of cvt checked, {len(left)} that neither architecture has left out")
    assert checked > 700
    print("\n".join(wrong))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
