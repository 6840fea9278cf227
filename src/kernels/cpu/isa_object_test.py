"""No code compiled for one ISA may run on a machine without it.

An inline function that the compiler did not inline becomes a weak symbol, and the linker keeps one copy of all: it may
be the AVX-512 one. So the objects of the ISA translation units must not define any weak symbol, except what the C++
runtime itself brings as data (type information).
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path


def weak_definitions(object_file: Path) -> list[str]:
    listing = subprocess.run(
        ["nm", "--defined-only", "--demangle", str(object_file)], check=True, capture_output=True, text=True
    ).stdout
    found = []
    for line in listing.splitlines():
        kind, name = line[17:18], line[19:]
        if kind in "WuVv" and not name.startswith(("typeinfo", "vtable", "DW.ref")):
            found.append(name)
    return found


def main() -> int:
    objects = [Path(argument) for argument in sys.argv[1:]]
    if not objects:
        print("usage: isa_object_test.py OBJECT...", file=sys.stderr)
        return 2
    bad = False
    for object_file in objects:
        for name in weak_definitions(object_file):
            print(f"{object_file.name} defines the weak {name}: put it in an unnamed namespace or force it inline")
            bad = True
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
