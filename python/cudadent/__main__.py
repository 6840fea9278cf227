"""The command `cudadent`: the program in the wheel, or the one that CUDADENT names or the PATH has."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path


def program() -> str | None:
    inside = Path(__file__).parent / "bin" / "cudadent"
    return os.environ.get("CUDADENT") or (str(inside) if inside.exists() else shutil.which("cudadent"))


def main() -> None:
    found = program()
    if not found:
        sys.exit("cudadent: this is the Python side alone; CUDADENT says where the program is")
    try:
        os.execv(found, ["cudadent", *sys.argv[1:]])
    except OSError as error:
        sys.exit(f"cudadent: {found}: {error.strerror}; CUDADENT names the program where it is set")


if __name__ == "__main__":
    main()
