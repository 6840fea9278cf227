"""What is shipped is hardened, shows nothing but its interface and knows nothing of the machine that built it.

    elf_test.py FILE ...    shared libraries and programs; a folder stands for those in it
    elf_test.py --selftest  libraries made wrong on purpose, each refused for the right reason

Read with readelf: the files are the claim, not the flags that made them.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Rule:
    name: str  # of the file
    exports: str  # what every dynamic symbol it defines must match
    has_canaries: bool = True  # it has code worth one
    has_checked_calls: bool = True  # of _FORTIFY_SOURCE


RULES = (
    Rule(r"libflashmoe\.so.*", r"fms_\w+"),
    Rule(r"_C\.abi3\.so", r"PyInit__C", has_checked_calls=False),
    Rule(r"_torch_ops\.so", r"(?!)", has_checked_calls=False),
    Rule(r"libflashmoe_machine_limits\.so", r"flashmoe_measure_limit", has_checked_calls=False),
    Rule(r"(libvgpu\.so|libcuda\.so\.1)", r"cu\w+|vgpu_identity"),
    Rule(r"libnvJitLink\.so\.13", r"(__)?nvJitLink\w+|libnvJitLink\.so\.13", has_checked_calls=False),
    Rule(r"libnvidia-ml\.so\.1", r"nvml\w+"),
    Rule(r"libcudart\.so\.13", r"(__)?cuda\w+|libcudart\.so\.13", has_checked_calls=False),
    Rule(r"libcublas\.so\.13", r"cublas(?!Lt)\w+|libcublas\.so\.13", has_checked_calls=False),
    Rule(r"libcublasLt\.so\.13", r"cublasLt\w+|libcublasLt\.so\.13", has_checked_calls=False),
    Rule(r"cudadent", r".*"),
    Rule(r"libcuda\.so", r"(?!)", has_canaries=False, has_checked_calls=False),  # a name for libcuda.so.1, no more
)
ROOT = str(Path(__file__).resolve().parents[1])


def readelf(file: Path, *options: str) -> str:
    return subprocess.run(
        ["readelf", "--wide", *options, str(file)], check=True, capture_output=True, text=True
    ).stdout


def symbols(file: Path) -> tuple[set[str], set[str]]:
    """Dynamic symbols that are defined, and those that are asked of others."""
    defined, asked = set(), set()
    for line in readelf(file, "--dyn-syms").splitlines():
        fields = line.split()
        if len(fields) < 8 or not fields[0].rstrip(":").isdigit() or fields[4] == "LOCAL":
            continue
        (asked if fields[6] == "UND" else defined).add(fields[7].split("@")[0])
    return defined, asked


def faults(file: Path, rule: Rule) -> Iterator[str]:
    dynamic, segments = readelf(file, "--dynamic"), readelf(file, "--program-headers")
    if "GNU_RELRO" not in segments or not re.search(r"BIND_NOW|Flags:.*\bNOW\b", dynamic):
        yield "its relocation table stays writable: no full RELRO"
    stack = re.search(r"GNU_STACK.*", segments)
    if stack is None or re.search(r"\bRWE\b", stack[0]):
        yield "it asks for an executable stack"
    if re.search(r"LOAD.*\bRWE\b", segments):
        yield "a segment is writable and executable"
    if "TEXTREL" in dynamic:
        yield "its code is relocated at load time (TEXTREL)"
    if "Elf file type is DYN" not in segments:
        yield "it is no position-independent code"
    for path in re.findall(r"\((?:RPATH|RUNPATH)\).*\[(.*)\]", dynamic):
        if path != "$ORIGIN":
            yield f"it looks for libraries in {path}"
    defined, asked = symbols(file)
    strangers = sorted(name for name in defined if not re.fullmatch(rule.exports, name))
    if strangers:
        yield f"it shows {len(strangers)} symbols that are not its interface: {', '.join(strangers[:3])}"
    if rule.has_canaries and "__stack_chk_fail" not in asked:
        yield "its stacks have no canaries (-fstack-protector-strong)"
    if rule.has_checked_calls and not any(name.endswith("_chk") for name in asked):
        yield "no libc call is checked (_FORTIFY_SOURCE)"
    content = file.read_bytes()
    for place in {ROOT, str(Path.home()), sys.prefix}:
        if len(place) > 1 and place.encode() in content:
            yield f"the path {place} is inside"


def rule_for(file: Path) -> Rule | None:
    return next((rule for rule in RULES if re.fullmatch(rule.name, file.name)), None)


def files_in(arguments: list[str]) -> Iterator[Path]:
    for path in map(Path, arguments):
        if path.is_dir():
            files = (file for file in sorted(path.rglob("*")) if file.is_file())
            yield from (file for file in files if file.read_bytes()[:4] == b"\x7fELF")
        else:
            yield path


def check(arguments: list[str]) -> int:
    wrong = count = 0
    for file in files_in(arguments):
        rule = rule_for(file)
        found = ["nobody has said what it may show: add a rule"] if rule is None else list(faults(file, rule))
        for fault in found:
            print(f"elf: {file}: {fault}")
        wrong += bool(found)
        count += 1
    if count == 0:
        sys.exit("elf: no file was given")
    print(f"elf: {count - wrong} of {count} files are as they should be")
    return 1 if wrong else 0


GOOD = ["-O2", "-fPIC", "-shared", "-fstack-protector-strong", "-fvisibility=hidden", "-U_FORTIFY_SOURCE",
        "-D_FORTIFY_SOURCE=2", "-Wl,-z,relro,-z,now,-z,noexecstack"]  # fmt: skip
SOURCE = r"""
#include <string.h>
__attribute__((visibility("default"))) int fms_f(const char* s, unsigned n) {
  char copy[64];
  strncpy(copy, s, n);
  return copy[n / 2];
}
"""
# What is changed, and what must then be said.
MUTANTS = {
    "no full RELRO": (["-Wl,-z,lazy"], SOURCE),
    "an executable stack": (["-Wl,-z,execstack"], SOURCE),
    "looks for libraries in /opt": (["-Wl,-rpath,/opt"], SOURCE),
    "not its interface: stranger": ([], SOURCE + '__attribute__((visibility("default"))) int stranger;'),
    "no canaries": (["-fno-stack-protector"], SOURCE),
    "no libc call is checked": (["-U_FORTIFY_SOURCE"], SOURCE),
    f"the path {ROOT} is inside": ([], SOURCE + f'const char* fms_path(void) {{ return "{ROOT}/x"; }}'),
}


def selftest() -> int:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "libflashmoe.so.0"

        def made(options: list[str], source: str) -> list[str]:
            command = ["cc", "-x", "c", "-", *GOOD, *options, "-o", str(file)]
            subprocess.run(command, input=source, text=True, check=True)
            return list(faults(file, RULES[0]))

        found = made([], SOURCE)
        if found:
            sys.exit(f"elf: a good library was refused: {found}")
        for expected, (options, source) in MUTANTS.items():
            found = made(options, source)
            if len(found) != 1 or expected not in found[0]:
                sys.exit(f"elf: expected '{expected}', found {found}")
    print(f"elf: {len(MUTANTS)} wrong libraries, each refused for its reason")
    return 0


if __name__ == "__main__":
    sys.exit(selftest() if sys.argv[1:] == ["--selftest"] else check(sys.argv[1:]))
