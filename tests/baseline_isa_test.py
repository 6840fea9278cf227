"""What is shipped runs on any x86-64: newer instructions stand only in functions that are chosen at run time.

    baseline_isa_test.py FILE ...    programs and libraries that still have their symbols
    baseline_isa_test.py --selftest  a function compiled for AVX2 is found

Read from the machine code, function by function: the files are the claim, not the flags that made them.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

# Beyond x86-64's first version: VEX and EVEX (all begin with v, but verr and verw), masks, tiles, bit manipulation,
# SSE3 to SSE4.2. tzcnt is missing because compilers write it where the older bsf gives the same.
NEWER = re.compile(
    r" +[0-9a-f]+:\t(?:(?:data16|cs|ds|notrack|bnd|lock|rep|repz|rex\S*) )*"
    r"(v(?!er[rw])[a-z]\w+|k(?:mov|or|and|xor|unpck|shift|test|not|add)\w*|tile\w+|"
    r"popcnt|lzcnt|andn|bextr|bls\w+|bzhi|pdep|pext|shlx|sarx|shrx|mulx|rorx|movbe|crc32\w*|aes\w+|pclmul\w+|"
    r"phadd\w+|pshufb|palignr|pabs\w|pmaddubsw|round[sp][sd]|pmulld|pblend\w+|blend\w+|ptest|pm(?:in|ax)(?:s[bd]|u[wd])|"
    r"pmov[sz]x\w+|pinsr[bdq]|pextr[bdq]|pcmpeqq|pcmpgtq|packusdw|lddqu|movddup|movs[hl]dup|haddp\w|addsubp\w|insertps|"
    r"extractps|dpp[sd]|mpsadbw|phminposuw)\b"
)
# Who may: our variants, clones that the loader chooses among, and those that Zstandard chooses by cpuid itself.
CHOSEN_AT_RUN_TIME = re.compile(
    r"::avx(2|512)::|\[clone \.arch_|_bmi2\b|HUF_decompress4X[12]_usingDTable_internal_fast(_c_loop|_asm_loop)?$"
)


def newer_instructions(file: Path) -> tuple[Counter[str], int]:
    """By function, where none may be; and how many instructions of that kind there are in all."""
    command = ["objdump", "--disassemble", "--no-show-raw-insn", "--demangle", str(file)]
    found: Counter[str] = Counter()
    allowed, name, is_chosen = 0, "", False
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as listing:
        assert listing.stdout is not None
        for line in listing.stdout:
            if line.endswith(">:\n"):
                name = line[line.index("<") + 1 : -3]
                is_chosen = CHOSEN_AT_RUN_TIME.search(name) is not None
            elif NEWER.match(line):
                if is_chosen:
                    allowed += 1
                else:
                    found[name] += 1
    if listing.returncode != 0:
        sys.exit(f"baseline: objdump could not read {file}")
    return found, allowed


def selftest() -> int:
    with tempfile.TemporaryDirectory() as folder:
        library = Path(folder) / "library.so"
        source = "void twice(float* x) { for (int i = 0; i < 64; ++i) x[i] += x[i]; }"
        for flags, expected in (([], []), (["-mavx2"], ["twice"])):
            command = ["cc", "-x", "c", "-", "-O3", "-fPIC", "-shared", *flags, "-o", str(library)]
            subprocess.run(command, input=source, text=True, check=True)
            found, _ = newer_instructions(library)
            if sorted(found) != expected:
                sys.exit(f"baseline: with {flags} expected {expected}, found {dict(found)}")
    print("baseline: AVX2 in a function that nobody chooses is found")
    return 0


def main(arguments: list[str]) -> int:
    if arguments == ["--selftest"]:
        return selftest()
    if not arguments:
        sys.exit(__doc__)
    wrong = 0
    for file in map(Path, arguments):
        found, allowed = newer_instructions(file)
        for name, count in found.most_common(5):
            print(f"baseline: {file.name}: {count} instructions beyond x86-64 in {name}")
        wrong += len(found)
        print(f"baseline: {file.name}: {len(found)} functions beyond x86-64; {allowed} instructions in chosen ones")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
