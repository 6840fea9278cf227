"""The examples that are Python programs do what they say."""

import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch")
EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


def run(*command: str) -> str:
    done = subprocess.run([sys.executable, *command], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_generate_with_transformers() -> None:
    pytest.importorskip("transformers")
    assert "the same tokens" in run(str(EXAMPLES / "transformers/generate.py"))


def test_attention_over_processes() -> None:
    told = run(str(EXAMPLES / "distributed/sharded_attention.py"), "2", "4")
    assert told.count("ring prefill") == told.count("sharded decode") == 6
