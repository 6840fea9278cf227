"""flashmoe_science.card without a card: its table, the way it ends, and its arithmetic on a clock that is made up here.

Nothing is timed: the fake `torch.cuda` below only counts, and stands for no GPU.
"""

from __future__ import annotations

import contextlib
import importlib.util
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

FILE = Path(__file__).resolve().parents[1] / "flashmoe_science" / "card.py"


def load_card() -> ModuleType:
    """From its file: it needs neither the compiled modules nor torch to be looked at."""
    spec = importlib.util.spec_from_file_location("flashmoe_card_module", FILE)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


card = load_card()


class FakeCuda:
    """A clock that only moves when something is queued: 5 us a call, 100 us to overwrite L2."""

    def __init__(self, capturable: bool = True) -> None:
        self.now_us = 0.0
        self.capturable = capturable
        self.recording: list[float] | None = None
        self.overwritten = 0
        cuda = self

        class Event:
            def __init__(self, enable_timing: bool) -> None:
                assert enable_timing

            def record(self) -> None:
                self.at = cuda.now_us

            def synchronize(self) -> None: ...

            def elapsed_time(self, later: Any) -> float:
                return float(later.at - self.at) / 1000

        class Graph:
            work: float

            def replay(self) -> None:
                cuda.now_us += self.work

        @contextlib.contextmanager
        def graph(captured: Graph) -> Iterator[None]:
            if not cuda.capturable:
                raise RuntimeError("operation not permitted when stream is capturing\nmore of it")
            cuda.recording = []
            yield
            captured.work, cuda.recording = sum(cuda.recording), None

        self.torch: Any = SimpleNamespace(
            uint8="uint8",
            empty=lambda bytes_, **_: SimpleNamespace(zero_=self.overwrite),
            cuda=SimpleNamespace(
                Event=Event, CUDAGraph=Graph, graph=graph, synchronize=lambda: None,
                get_device_properties=lambda _: SimpleNamespace(L2_cache_size=48 << 20),
            ),
        )  # fmt: skip

    def overwrite(self) -> None:
        self.now_us += 100
        self.overwritten += 1

    def call(self) -> None:
        if self.recording is not None:
            self.recording.append(5.0)
        else:
            self.now_us += 5


def test_the_table_has_the_sizes_that_were_asked_for() -> None:
    rows = card.problems()
    assert len({row.name for row in rows}) == len(rows) >= 40
    prefill = [row for row in rows if row.q_len > 1]
    assert {row.q_len for row in prefill} == {32, 128, 512, 2048, 8192}
    assert {row.batch * row.q_heads for row in prefill} == {1, 8, 32}
    assert {row.head_dim for row in prefill} == {64, 128}
    assert {row.causal for row in prefill} == {False, True}
    assert any(row.q_len == 1 and row.page_size == 0 for row in rows)
    assert any(row.page_size > 0 for row in rows)
    assert 0 < sum(row.quick for row in rows) < 10


@pytest.mark.parametrize("capturable", [True, False])
def test_times_are_of_one_call(capturable: bool) -> None:
    fake = FakeCuda(capturable)
    line = card.Stopwatch(fake.torch).times(fake.call, rounds=7)
    assert line["calls"] == card.MOST_CALLS  # 2000 us would be 400 calls
    assert line["kernel_us"] == pytest.approx(5)
    assert line["cold_us"] == pytest.approx(5), "without what overwrites L2"
    assert line["cold_us_spread"] == pytest.approx([5, 5])
    assert fake.overwritten == 7
    assert line["whole_us_spread"][0] > 0
    assert line.get("not_captured") == (None if capturable else "operation not permitted when stream is capturing")


def test_a_summary_is_median_and_both_ends() -> None:
    assert card.summary("kernel_us", [3.0, 1.0, 9.0]) == {"kernel_us": 3.0, "kernel_us_spread": [1.0, 9.0]}


def test_a_package_that_is_not_there_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "flash_attn", None)
    fake = FakeCuda()
    watch = card.Stopwatch(fake.torch)
    line, result = card.timed(fake.torch, watch, card.problems()[0], card.FlashAttention(), None, 7)
    assert result is None
    assert line["not_run"].startswith("not there: flash_attn cannot be imported")
    assert line["side"] == "flash_attn" and line["problem"] == card.problems()[0].name
    assert "kernel_us" not in line


def test_a_limit_leaves_out_and_says_what() -> None:
    said: list[dict[str, Any]] = []
    options = SimpleNamespace(problems="quick", limit=0.0, rounds=7)
    assert card.run(FakeCuda().torch, options, said.append) == 3
    quick = sum(row.quick for row in card.problems())
    assert [set(line) for line in said] == [{"left_out", "why", "limit_s"}]
    assert len(said[0]["left_out"]) == quick * len(card.SIDES)


@pytest.mark.parametrize(
    ("torch", "reason"),
    [
        (None, "torch cannot be imported"),
        (SimpleNamespace(__version__="9", version=SimpleNamespace(cuda=None)), "torch 9 was built without CUDA"),
        (SimpleNamespace(__version__="9", version=SimpleNamespace(cuda="13.0")), "torch 9 finds no CUDA card"),
    ],
)
def test_without_cuda_one_line_says_so(
    torch: Any, reason: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    if torch is not None:
        torch.cuda = SimpleNamespace(is_available=lambda: False)
    monkeypatch.setitem(sys.modules, "torch", torch)
    assert card.main([]) == 3
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 1
    assert json.loads(lines[0])["not_run"].startswith(reason)


@pytest.mark.parametrize("words", [["--limit", "0"], ["--rounds", "-1"], ["--problems", "some"], ["--fast"]])
def test_usage(words: list[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        card.main(words)
    assert ended.value.code == 2
