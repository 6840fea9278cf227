"""The C functions hold on to nothing, and the package degrades in words."""

import subprocess
import sys
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")
import flashmoe_science as fs
from flashmoe_science import _C
from formulas import random


def test_references_are_given_back() -> None:
    q, k, v = (random(1, 2, 8, 64, seed=i) for i in range(3))
    lse, wrong, target = torch.empty(16), torch.zeros(3), torch.empty_like(q)
    arrays = (q, k, v, lse, wrong, target)
    before = [sys.getrefcount(array) for array in arrays]
    for _ in range(10):
        fs.attention(q, k, v, causal=True, return_lse=True)
        fs.attention(q.numpy(), k.numpy(), v.numpy())
        fs.attention(q, k, v, out=target)
        fs.merge_states(q, lse.view(1, 2, 8), k, lse.view(1, 2, 8))
        _C.flash_attention_forward(q, k, v, lse, False, 1.0)
        with pytest.raises(ValueError, match="sinks has shape"):
            fs.attention(q, k, v, sinks=wrong)
    assert [sys.getrefcount(array) for array in arrays] == before


def test_memory_does_not_grow() -> None:
    def resident_bytes() -> int:
        return int(Path("/proc/self/statm").read_text().split()[1]) * 4096

    q = random(1, 1, 64, 64, dtype=torch.float16)
    for _ in range(2000):
        fs.attention(q, q, q, return_lse=True)
    before = resident_bytes()
    for _ in range(20000):  # 8 KiB of result each
        fs.attention(q, q, q, return_lse=True)
    assert resident_bytes() - before < 8 * 2**20


def test_results_outlive_their_inputs() -> None:
    q = random(1, 2, 64, 64)
    expected = fs.attention(q, q, q).clone()
    out = fs.attention(*(q.clone() for _ in range(3)))
    for _ in range(50):
        torch.full((1, 2, 64, 64), 7.0)
    assert torch.equal(out, expected)
    out.mul_(2.0).requires_grad_()  # an ordinary tensor
    assert torch.equal(out, 2.0 * expected)


def test_without_the_operators_it_says_what_is_missing() -> None:
    """As in a wheel that was built where torch was absent."""
    program = """
import os, pathlib
os.environ["FLASHMOE_SCIENCE_NO_TORCH"] = "1"
import torch, flashmoe_science as fs
from flashmoe_science import _torch
_torch._OPERATORS = pathlib.Path("absent.so")
_torch.register()
q = torch.randn(1, 1, 4, 64)
assert fs.attention(q, q, q).shape == q.shape
try:
    fs.attention(q.requires_grad_(), q, q)
except NotImplementedError as error:
    assert "has no torch operators" in str(error)
else:
    raise AssertionError("no error")
"""
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
