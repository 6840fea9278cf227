"""What tests of the tree itself share: its files, and trees with planted violations."""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path

# name of the plant -> (file, its text, part of the message that must appear; empty: nothing is wrong)
Plants = Mapping[str, tuple[str, str, str]]


def tracked_files(root: Path) -> list[str]:
    """The tree without what builds leave in it; where git does not know it, as in an archive, all but build/."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)
    if (root / ".git").exists() and listed.returncode == 0:
        return [name for name in listed.stdout.splitlines() if (root / name).is_file()]
    found = [path.relative_to(root).as_posix() for path in root.rglob("*") if path.is_file()]
    return [name for name in found if not name.startswith(("build/", ".git/"))]


def selftest(clean: Mapping[str, str], plants: Plants, check: Callable[[Path], list[str]]) -> int:
    """Plants each violation in the clean tree; the exit code is 1 when one is not found."""
    failures = 0
    for plant, (name, text, expected) in {"nothing": ("nothing.txt", "", ""), **plants}.items():
        with tempfile.TemporaryDirectory() as directory:
            root = Path(directory).resolve()
            for path, content in {**clean, name: text}.items():
                (root / path).parent.mkdir(parents=True, exist_ok=True)
                (root / path).write_text(content, encoding="utf-8")
            found = check(root)
            right = any(expected in line for line in found) if expected else not found
            failures += not right
            print(f"{'ok  ' if right else 'FAIL'} {plant}: {found}")
    return 1 if failures else 0
