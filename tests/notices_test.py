"""THIRD_PARTY.md names every foreign library whose headers the shipped code includes.

    notices_test.py SOURCE_DIR
    notices_test.py --selftest   a header that nobody knows, and a library without an entry, are both found
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

SHIPPED = ("include", "src", "python/src", "tools/cudadent", "bench/machine_limits.cpp", "bench/machine_limits.hpp")
SUFFIXES = {".c", ".cpp", ".cu", ".cuh", ".h", ".hpp", ".in"}
INCLUDE = re.compile(r"^\s*#\s*include\s*<([^>]+)>", re.MULTILINE)
# Whose a header is, by the name in THIRD_PARTY.md.
OWNERS = {
    r"fmt/.*": "{fmt}",
    r"nlohmann/.*": "JSON for Modern C++",
    r"toml\+\+/.*": "toml++",
    r"CLI/.*": "CLI11",
    r"zstd(_errors)?\.h": "Zstandard",
    r"lz4\.h": "LZ4",
    r"(torch|ATen)/.*": "PyTorch",
    r"Python\.h": "CPython",
    r"omp\.h": "libgomp",
    r"(cuda\w*|mma)\.h|cuda/.*": "NVIDIA CUDA Toolkit",
    r"\w+": "libstdc++",  # the C++ library's own have no suffix
}
OURS_OR_THE_SYSTEM_S = re.compile(
    r"(flashmoe|cudadent)/.*|(sys|linux)/\w+\.h|(assert|cpuid|cxxabi|dirent|dlfcn|elf|execinfo|fcntl|immintrin|link|"
    r"math|poll|pthread|sched|signal|spawn|stddef|stdint|stdio|stdlib|string|time|ucontext|unistd)\.h"
)


def owner_of(header: str) -> str | None:
    return next((owner for pattern, owner in OWNERS.items() if re.fullmatch(pattern, header)), None)


def faults(headers: dict[str, str], notices: str) -> list[str]:
    found = []
    for header, file in sorted(headers.items()):
        if OURS_OR_THE_SYSTEM_S.fullmatch(header):
            continue
        owner = owner_of(header)
        if owner is None:
            found.append(f"{file} includes <{header}>: whose is it? Name it here and in THIRD_PARTY.md")
        elif owner not in notices:
            found.append(f"{file} includes <{header}>, but THIRD_PARTY.md does not name {owner}")
    return found


def shipped_headers(root: Path) -> dict[str, str]:
    """What is included, and one file that does. What uses GoogleTest is a test and not shipped."""
    headers: dict[str, str] = {}
    for place in SHIPPED:
        path = root / place
        files = [path] if path.is_file() else [file for file in path.rglob("*") if file.suffix in SUFFIXES]
        for file in files:
            included = INCLUDE.findall(file.read_text())
            if "gtest/gtest.h" not in included:
                for header in included:
                    headers.setdefault(header, str(file.relative_to(root)))
    return headers


def selftest() -> int:
    tried = {"boost/math.hpp": "a.cpp", "zstd.h": "b.cpp", "vector": "c.cpp", "sys/mman.h": "d.cpp"}
    found = faults(tried, "libstdc++")
    expected = ["a.cpp includes <boost/math.hpp>: whose is it?", "b.cpp includes <zstd.h>, but THIRD_PARTY.md does not"]
    if len(found) != 2 or not all(line.startswith(start) for line, start in zip(found, expected, strict=True)):
        sys.exit(f"notices: {found}")
    return 0


def main() -> int:
    if sys.argv[1:] == ["--selftest"]:
        return selftest()
    root = Path(sys.argv[1])
    headers = shipped_headers(root)
    found = faults(headers, (root / "THIRD_PARTY.md").read_text())
    for fault in found:
        print(f"notices: {fault}")
    print(f"notices: {len(headers)} headers")
    return 1 if found or len(headers) < 50 else 0


if __name__ == "__main__":
    sys.exit(main())
