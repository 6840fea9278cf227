"""Arrays of any library that has __dlpack__, with torch and without."""

import gc
import os
import subprocess
import sys
import weakref
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import flashmoe_science as fs
from flashmoe_science import _C

Array = np.ndarray[Any, Any]


def random(*shape: int, dtype: Any = np.float32, seed: int = 0) -> Array:
    return np.random.default_rng(seed + sum(shape)).standard_normal(shape).astype(dtype)


class Producer:
    """What the protocol asks for and nothing else; of DLPack 1."""

    def __init__(self, array: Any, device: tuple[int, int] = (1, 0)) -> None:
        self.array = array
        self.device = device
        self.asked: list[dict[str, Any]] = []

    def __dlpack__(self, *, max_version: Any = None, **options: Any) -> Any:
        self.asked.append({"max_version": max_version, **options})
        return self.array.__dlpack__(max_version=max_version)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.device


class OldProducer(Producer):
    """Of before DLPack 1, whose __dlpack__ knows no versions."""

    def __dlpack__(self, stream: Any = None) -> Any:  # type: ignore[override]
        self.asked.append({"stream": stream})
        return self.array.__dlpack__()


@pytest.mark.parametrize("producer", [Producer, OldProducer])
@pytest.mark.parametrize("dtype", [np.float16, np.float32])
def test_any_producer_will_do(producer: type[Producer], dtype: Any) -> None:
    q, k, v = (random(2, 4, 9, 16, dtype=dtype, seed=i) for i in range(3))
    wrapped = [producer(x) for x in (q, k[:, ::2], v[:, ::2])]  # strides too
    out, lse = fs.attention(*wrapped, causal=True, return_lse=True)
    expected, expected_lse = fs.attention(q, k[:, ::2], v[:, ::2], causal=True, return_lse=True)
    assert isinstance(out, np.ndarray) and out.dtype == dtype
    np.testing.assert_array_equal(out, expected)
    np.testing.assert_array_equal(lse, expected_lse)
    assert all(len(x.asked) == 1 for x in wrapped)
    assert all((x.asked[0].get("max_version") == (1, 0)) == (producer is Producer) for x in wrapped)


def test_every_call_takes_them() -> None:
    q, lengths = random(2, 4, 9, 16), np.array([3, 9], np.int32)
    wrapped = Producer(q)
    np.testing.assert_array_equal(
        fs.attention(wrapped, wrapped, wrapped, kv_lengths=Producer(lengths), bias=Producer(random(9, 9))),
        fs.attention(q, q, q, kv_lengths=lengths, bias=random(9, 9)),
    )
    # NumPy's own beside them, either way round.
    expected = fs.attention(q, q, q, kv_lengths=lengths)
    np.testing.assert_array_equal(fs.attention(wrapped, wrapped, q, kv_lengths=lengths), expected)
    np.testing.assert_array_equal(fs.attention(q, wrapped, wrapped, kv_lengths=lengths), expected)
    out, lse = fs.attention(q, q, q, return_lse=True)
    merged = fs.merge_states(*map(Producer, (out, lse, out, lse)))
    np.testing.assert_array_equal(merged[0], fs.merge_states(out, lse, out, lse)[0])
    np.testing.assert_array_equal(_C.flash_attention_forward(wrapped, wrapped, wrapped), fs.attention(q, q, q))
    assert fs.plan(wrapped, wrapped, wrapped).data == fs.plan(q, q, q).data


def test_out_is_written_and_returned() -> None:
    q, target = random(1, 2, 9, 16), np.empty((1, 2, 9, 16), np.float32)
    wrapped = Producer(target)
    assert fs.attention(*[Producer(q)] * 3, out=wrapped) is wrapped
    np.testing.assert_array_equal(target, fs.attention(q, q, q))


def test_read_only_arrays_are_read_and_not_written() -> None:
    q = random(1, 2, 9, 16)
    q.flags.writeable = False
    np.testing.assert_array_equal(fs.attention(*[Producer(q)] * 3), fs.attention(q, q, q))
    with pytest.raises(ValueError, match="out is read-only"):
        fs.attention(*[Producer(q)] * 3, out=Producer(q))


def test_the_memory_is_let_go() -> None:
    q = random(1, 2, 9, 16)
    for producer in (Producer, OldProducer):
        wrapped = producer(q.copy())
        memory = weakref.ref(wrapped.array)
        fs.attention(wrapped, wrapped, wrapped)
        with pytest.raises(ValueError, match="k has 3 heads"):
            fs.attention(wrapped, *[producer(random(1, 3, 9, 16))] * 2)
        del wrapped
        gc.collect()
        assert memory() is None


def test_what_is_wrong_is_said() -> None:
    q = random(1, 2, 9, 16)

    class NoCapsule(Producer):
        def __dlpack__(self, **options: Any) -> Any:
            return "a string"

    class Failing(Producer):
        def __dlpack__(self, **options: Any) -> Any:
            raise BufferError("not today")

    with pytest.raises(BufferError, match="q: its __dlpack__ gave 'a string', no capsule of DLPack's"):
        fs.attention(*[NoCapsule(q)] * 3)
    with pytest.raises(BufferError, match="not today"):
        fs.attention(*[Failing(q)] * 3)
    with pytest.raises(ValueError, match="q is float64; it must be float16, bfloat16 or float32"):
        fs.attention(*[Producer(q.astype(np.float64))] * 3)
    with pytest.raises(ValueError, match="q has 6 dimensions"):
        fs.attention(*[Producer(q[None, None])] * 3)
    with pytest.raises(NotImplementedError, match="q is on a device that is neither the CPU nor a CUDA device"):
        fs.attention(*[Producer(q, (8, 0))] * 3)
    with pytest.raises(ValueError, match="k is on cuda:1, but the call runs on the CPU"):
        fs.attention(Producer(q), *[Producer(q, (2, 1))] * 2)


def test_arrays_on_a_gpu_need_torch() -> None:
    code = (
        "import sys; sys.path.insert(0, sys.argv[1])\n"
        "from test_dlpack import *\n"
        "for call in (lambda x: fs.attention(x, x, x), lambda x: fs.merge_states(x, x, x, x)):\n"
        "    with pytest.raises(NotImplementedError, match='of arrays on a GPU needs torch'):\n"
        "        call(Producer(random(1, 2, 9, 16), (2, 0)))\n"
    )
    environment = {**os.environ, "FLASHMOE_SCIENCE_NO_TORCH": "1"}
    done = subprocess.run(
        [sys.executable, "-c", code, str(Path(__file__).parent)], env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr


def test_arrays_on_a_gpu_take_torch_s_way(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a GPU: torch.from_dlpack is replaced by one that finds the memory on the CPU."""
    torch = pytest.importorskip("torch")
    taken: list[Any] = []

    def from_dlpack(producer: Any) -> Any:
        taken.append(producer)
        return torch.from_numpy(producer.array)

    monkeypatch.setattr(torch, "from_dlpack", from_dlpack)
    q, target = random(1, 2, 9, 16), np.empty((1, 2, 9, 16), np.float32)
    on_gpu, out_on_gpu = Producer(q, (2, 0)), Producer(target, (2, 0))
    expected, expected_lse = fs.attention(q, q, q, return_lse=True)
    out, lse = fs.attention(on_gpu, on_gpu, on_gpu, out=out_on_gpu, return_lse=True)
    assert out is out_on_gpu and len(taken) == 4
    np.testing.assert_array_equal(target, expected)
    np.testing.assert_array_equal(lse.numpy(), expected_lse)
    np.testing.assert_array_equal(fs.attention(on_gpu, on_gpu, on_gpu).numpy(), expected)


def test_bfloat16_for_numpy() -> None:
    torch, ml_dtypes = pytest.importorskip("torch"), pytest.importorskip("ml_dtypes")
    q = torch.from_numpy(random(1, 2, 9, 16)).bfloat16()
    out = fs.attention(*[Producer(q)] * 3)
    assert out.dtype == ml_dtypes.bfloat16
    np.testing.assert_array_equal(out.view(np.uint16), fs.attention(q, q, q).view(torch.uint16).numpy())


def test_torch_that_was_left_alone_is_a_library_like_any_other() -> None:
    pytest.importorskip("torch")
    code = (
        "import flashmoe_science as fs, torch\n"
        "q = torch.randn(1, 2, 9, 16).bfloat16()\n"
        "out = fs.attention(q, q, q)\n"
        "assert type(out) is torch.Tensor and out.dtype == q.dtype\n"
        "exact = torch.softmax(q.float() @ q.float().mT / 4, -1) @ q.float()\n"
        "assert (out.float() - exact).abs().max() < 0.05\n"
        "try: fs.attention(q.requires_grad_(), q, q)\n"
        "except BufferError as error: assert 'require gradient' in str(error)\n"
        "else: raise AssertionError('a gradient was lost without a word')\n"
    )
    environment = {**os.environ, "FLASHMOE_SCIENCE_NO_TORCH": "1"}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
def test_jax(dtype: str) -> None:
    jnp = pytest.importorskip("jax.numpy")
    q = jnp.asarray(random(1, 2, 9, 16)).astype(dtype)
    out, lse = fs.attention(q, q, q, causal=True, return_lse=True)
    assert type(out) is type(q) and out.dtype == q.dtype and type(lse) is type(q)
    expected, expected_lse = fs.attention(*[np.asarray(q)] * 3, causal=True, return_lse=True)
    np.testing.assert_array_equal(np.asarray(out).view(np.uint8), expected.view(np.uint8))
    np.testing.assert_array_equal(np.asarray(lse), expected_lse)
    merged, _ = fs.merge_states(out, lse, out, lse)
    assert type(merged) is type(q)


def test_array_api_strict() -> None:
    xp = pytest.importorskip("array_api_strict")
    q = xp.asarray(random(1, 2, 9, 16))
    out = fs.attention(q, q, q)
    assert type(out) is type(q)
    np.testing.assert_array_equal(np.from_dlpack(out), fs.attention(*[np.from_dlpack(q)] * 3))


def test_onnxruntime() -> None:
    runtime = pytest.importorskip("onnxruntime")
    q = random(1, 2, 9, 16)
    value = runtime.OrtValue.ortvalue_from_numpy(q)
    inner = value if hasattr(value, "__dlpack__") else value._ortvalue
    np.testing.assert_array_equal(fs.attention(inner, inner, inner), fs.attention(q, q, q))
