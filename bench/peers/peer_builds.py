"""The peers' build script, from where it lives: the tests' folder, which is no package."""

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "peers"))
from build_peers import build, compile_command, find_nvcc  # noqa: E402

__all__ = ["ROOT", "build", "compile_command", "find_nvcc"]
