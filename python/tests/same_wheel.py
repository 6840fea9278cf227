"""Whether wheels are the same, byte for byte; which of their files are not.

    same_wheel.py WHEEL OTHER_WHEEL
"""

import sys
import zipfile
from pathlib import Path
from typing import Any


def entries(wheel: Path) -> dict[str, tuple[Any, ...]]:
    with zipfile.ZipFile(wheel) as file:
        return {entry.filename: (entry.CRC, entry.date_time, entry.external_attr) for entry in file.infolist()}


def main() -> int:
    first, second = map(Path, sys.argv[1:])
    if first.name == second.name and first.read_bytes() == second.read_bytes():
        print(f"the same {first.stat().st_size} bytes: {first.name}")
        return 0
    ours, theirs = entries(first), entries(second)
    for name in sorted(ours.keys() | theirs.keys()):
        if ours.get(name) != theirs.get(name):
            print(f"{name}: {ours.get(name)} and {theirs.get(name)}")
    print(f"{first} and {second} differ")
    return 1


if __name__ == "__main__":
    sys.exit(main())
