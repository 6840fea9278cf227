"""torch's own tools see the calls: the profiler their names, the FLOP counter their products."""

import itertools
import subprocess
import sys
from typing import Any

import pytest

torch = pytest.importorskip("torch")
from torch.profiler import ProfilerActivity, profile
from torch.utils.flop_counter import FlopCounterMode

import flashmoe_science as fs
from flashmoe_science import _flops
from formulas import random

if not hasattr(torch.ops.flashmoe_science, "attention"):
    pytest.skip("this wheel was built without torch", allow_module_level=True)

INT32 = torch.int32


def profiled_names(*args: Any, **options: Any) -> list[str]:
    with profile(activities=[ProfilerActivity.CPU], record_shapes=True) as session:
        out, lse = fs.attention(*args, return_lse=True, **options)
        fs.merge_states(out, lse, out, lse)
    return [event.key for event in session.key_averages(group_by_input_shape=True) if "flashmoe" in event.key]


def test_the_profiler_sees_plain_calls() -> None:
    q = random(1, 2, 6, 8)
    assert sorted(profiled_names(q, q, q)) == ["flashmoe_science::attention", "flashmoe_science::merge_states"]
    fs.attention(q, q, q)  # after the session the fast path is back: nothing is left listening
    assert not torch._C._autograd._profiler_enabled()


def test_the_profiler_sees_gradients() -> None:
    q = random(1, 2, 6, 8).requires_grad_()
    with profile(activities=[ProfilerActivity.CPU]) as session:
        fs.attention(q, q, q).sum().backward()
    names = [event.key for event in session.key_averages()]
    assert "flashmoe_science::attention" in names and "flashmoe_science::attention_backward" in names


def visible(i: int, j: int, q_len: int, kv_len: int, left: int, right: int) -> bool:
    row = i + kv_len - q_len
    return (left < 0 or j >= row - left) and (right < 0 or j <= row + right)


@pytest.mark.parametrize("window", list(itertools.product((-1, 0, 1, 3, 20), repeat=2)))
def test_visible_pairs(window: tuple[int, int]) -> None:
    for q_len, kv_len in itertools.product(range(8), repeat=2):
        pairs = itertools.product(range(q_len), range(kv_len))
        expected = sum(visible(i, j, q_len, kv_len, *window) for i, j in pairs)
        assert _flops.visible_pairs(q_len, kv_len, *window) == expected, (q_len, kv_len)


def counted(*args: Any, **options: Any) -> int:
    with FlopCounterMode(display=False) as counter:
        fs.attention(*args, **options)
    return counter.get_total_flops()


def test_flops_of_dense_calls() -> None:
    q, k = random(2, 8, 5, 16), random(2, 2, 7, 16)  # 8 heads of q do the work, however few k has
    full = 4 * 2 * 8 * 16 * 5 * 7
    every_head = k.repeat_interleave(4, 1)
    with FlopCounterMode(display=False) as counter:
        torch.softmax(q @ every_head.mT, -1) @ every_head
    assert counted(q, k, k) == full == counter.get_total_flops()
    assert counted(q, k, k, causal=True) == full * (3 + 4 + 5 + 6 + 7) // 35
    assert counted(q, k, k[..., :4]) == full * 20 // 32
    assert counted(q, k, k, window=(1, 0)) == full * (2 * 5) // 35
    bshd = q.transpose(1, 2), k.transpose(1, 2), k.transpose(1, 2)
    assert counted(*bshd, layout="bshd") == full
    assert counted(q.to("meta"), k.to("meta"), k.to("meta"), causal=True) == full * 25 // 35


def test_flops_of_calls_with_lengths() -> None:
    per_pair = 4 * 2 * 16
    lengths = torch.tensor([3, 7], dtype=INT32)
    q, k = random(2, 2, 5, 16), random(2, 2, 7, 16)
    assert counted(q, k, k, kv_lengths=lengths) == per_pair * 5 * (3 + 7)
    packed = random(10, 2, 16)
    cu = torch.tensor([0, 4, 10], dtype=INT32)
    options = {"cu_q": cu, "cu_kv": cu, "layout": "bshd"}
    assert counted(packed, packed, packed, **options) == per_pair * (4 * 4 + 6 * 6)
    assert counted(packed, packed, packed, causal=True, **options) == per_pair * (10 + 21)
    pages, table = random(6, 2, 4, 16), torch.tensor([[0, 1], [2, 3]], dtype=INT32)
    assert counted(q, pages, pages, block_table=table) == per_pair * 5 * (8 + 8)
    assert counted(q, pages, pages, block_table=table, kv_lengths=lengths) == per_pair * 5 * (3 + 7)


def test_flops_of_lengths_that_cannot_be_read() -> None:
    """As if all were the longest."""
    packed, cu = torch.empty(10, 2, 16, device="meta"), torch.empty(3, dtype=INT32, device="meta")
    options = {"cu_q": cu, "cu_kv": cu, "layout": "bshd", "max_q": 6, "max_kv": 7}
    assert counted(packed, packed, packed, **options) == 4 * 2 * 16 * (2 * 6 * 7)


def test_flops_of_the_backward() -> None:
    q, k = random(2, 8, 5, 16).requires_grad_(), random(2, 2, 7, 16)
    with FlopCounterMode(display=False) as counter:
        fs.attention(q, k, k, causal=True).sum().backward()
    forward = 4 * 2 * 8 * 16 * 25
    assert counter.get_total_flops() == forward + forward // 2 * 5


def test_the_counter_is_not_imported_with_the_package() -> None:
    code = (
        "import sys, flashmoe_science as fs, torch; assert 'torch.utils.flop_counter' not in sys.modules\n"
        "from torch.utils.flop_counter import FlopCounterMode\n"
        "with FlopCounterMode(display=False) as c: fs.attention(*[torch.zeros(1, 1, 2, 8)] * 3)\n"
        "assert c.get_total_flops() == 4 * 2 * 2 * 8"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
