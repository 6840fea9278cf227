"""NumPy in and out, with torch and without."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import flashmoe_science as fs

Array = np.ndarray[Any, Any]


def random(*shape: int, dtype: Any = np.float32, seed: int = 0) -> Array:
    return np.random.default_rng(seed + sum(shape)).standard_normal(shape).astype(dtype)


def exact(q: Array, k: Array, v: Array, causal: bool = False) -> tuple[Array, Array]:
    q, k, v = (x.astype(np.float64) for x in (q, k, v))
    group = q.shape[1] // k.shape[1]
    k, v = np.repeat(k, group, 1), np.repeat(v, group, 1)
    scores = q @ k.swapaxes(-1, -2) / np.sqrt(q.shape[-1])
    if causal:
        q_len, kv_len = scores.shape[-2:]
        scores = np.where(np.tri(q_len, kv_len, kv_len - q_len, dtype=bool), scores, -np.inf)
    peak = scores.max(-1, keepdims=True)
    weights = np.exp(scores - peak)
    total = weights.sum(-1, keepdims=True)
    return weights / total @ v, (peak + np.log(total))[..., 0]


def rms(error: Array) -> float:
    return float(np.sqrt(np.mean(np.square(error))))


def dtypes() -> list[Any]:
    bfloat16 = getattr(pytest.importorskip("ml_dtypes"), "bfloat16")  # noqa: B009
    return [np.float16, bfloat16, np.float32]


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("index", range(3), ids=["float16", "bfloat16", "float32"])
def test_attention(index: int, causal: bool) -> None:
    dtype = dtypes()[index]
    q, k, v = random(2, 4, 33, 64, dtype=dtype), random(2, 2, 40, 64, dtype=dtype), random(2, 2, 40, 64, dtype=dtype)
    out, lse = fs.attention(q, k, v, causal=causal, return_lse=True)
    expected, expected_lse = exact(q, k, v, causal)
    assert isinstance(out, np.ndarray) and out.dtype == dtype and out.shape == q.shape
    # One rounding to the dtype is what no result in it can avoid; float32 sums have their own error.
    unavoidable = max(rms(expected.astype(dtype).astype(np.float64) - expected), 1e-7)
    assert rms(out.astype(np.float64) - expected) <= 2 * unavoidable
    np.testing.assert_allclose(lse, expected_lse, atol=1e-4, rtol=0)


def test_strided_and_read_only_arrays() -> None:
    fused = random(2, 40, 3, 4, 64)
    q, k, v = (fused[:, :, i] for i in range(3))
    fused.flags.writeable = False
    out = fs.attention(q, k, v, layout="bshd")
    expected = fs.attention(*(np.ascontiguousarray(x.swapaxes(1, 2)) for x in (q, k, v)))
    np.testing.assert_array_equal(out.swapaxes(1, 2), expected)


def test_options_and_merge() -> None:
    q, k, v = random(2, 2, 8, 64), random(2, 2, 20, 64), random(2, 2, 20, 64, seed=1)
    whole, whole_lse = fs.attention(q, k, v, return_lse=True)
    first = fs.attention(q, k[:, :, :7], v[:, :, :7], return_lse=True)
    second = fs.attention(q, k[:, :, 7:], v[:, :, 7:], return_lse=True)
    out, lse = fs.merge_states(*first, *second)
    np.testing.assert_allclose(out, whole, atol=1e-5)
    np.testing.assert_allclose(lse, whole_lse, atol=1e-5)
    lengths = np.array([20, 3], np.int32)
    masked = fs.attention(q, k, v, kv_lengths=lengths)
    np.testing.assert_allclose(masked[1], exact(q[1:], k[1:, :, :3], v[1:, :, :3])[0][0], atol=1e-5)
    target = np.empty_like(q)
    assert fs.attention(q, k, v, out=target) is target
    np.testing.assert_array_equal(target, whole)


def test_flash_attn_func() -> None:
    q = random(1, 8, 2, 64)
    np.testing.assert_array_equal(fs.flash_attn_func(q, q, q), fs.attention(q, q, q, layout="bshd"))


def test_wrong_arrays() -> None:
    q = random(1, 1, 8, 64)
    with pytest.raises(ValueError, match="q is float64; it must be"):
        fs.attention(q.astype(np.float64), q, q)
    with pytest.raises((ValueError, BufferError)):
        frozen = np.empty_like(q)
        frozen.flags.writeable = False
        fs.attention(q, q, q, out=frozen)
    with pytest.raises(ValueError, match="stride of 0 or more"):
        fs.attention(q[:, :, ::-1], q, q)
    misaligned = np.frombuffer(b"\0" * (q.nbytes + 1), np.uint8)[1:].view(np.float32).reshape(q.shape)
    with pytest.raises(ValueError, match="q is not aligned"):
        fs.attention(misaligned, q, q)


def test_eight_bit_floats_are_named() -> None:
    dtype = pytest.importorskip("ml_dtypes").float8_e4m3fn
    q = random(1, 1, 8, 64)
    with pytest.raises(ValueError, match=r"q is float8_e4m3fn; it must be .*: .*convert it first, with its scale"):
        fs.attention(*[q.astype(dtype)] * 3)
    with pytest.raises(ValueError, match="v is float8_e4m3fn, but q is float32"):
        fs.attention(q, q, q.astype(dtype))
    with pytest.raises(ValueError, match="out is float8_e4m3fn, but q is float32"):
        fs.attention(q, q, q, out=q.astype(dtype))
    with pytest.raises(ValueError, match="q is uint8; it must be"):
        fs.attention(*[q.astype(np.uint8)] * 3)


def test_without_torch() -> None:
    """All of this file in a process in which torch cannot be imported."""
    code = (
        "import sys; sys.modules['torch'] = None\n"
        "import importlib.util as u; find = u.find_spec\n"
        "u.find_spec = lambda name, *rest: None if name == 'torch' else find(name, *rest)\n"
        "import pytest, flashmoe_science\n"
        "assert 'flashmoe_science._torch' not in sys.modules\n"
        f"sys.exit(pytest.main(['-q', '-p', 'no:cacheprovider', '-k', 'not without_torch', {str(Path(__file__))!r}]))\n"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert result.returncode == 0, result.stdout + result.stderr


def test_torch_is_left_alone_on_request() -> None:
    code = "import sys, flashmoe_science; sys.exit('torch' in sys.modules)"
    environment = {"FLASHMOE_SCIENCE_NO_TORCH": "1", "PYTHONPATH": str(Path(fs.__file__).parents[1])}
    assert subprocess.run([sys.executable, "-c", code], env=environment).returncode == 0


def test_a_broken_torch_is_no_obstacle(tmp_path: Path) -> None:
    (tmp_path / "torch").mkdir()
    (tmp_path / "torch" / "__init__.py").write_text("raise OSError('libcudart.so.13: cannot open shared object file')")
    code = (
        f"import sys; sys.path.insert(0, {str(tmp_path)!r})\n"
        "import numpy, warnings\n"
        "with warnings.catch_warnings(record=True) as caught:\n"
        "    import flashmoe_science as fs\n"
        "assert 'libcudart.so.13' in str(caught[0].message)\n"
        "fs.attention(*[numpy.zeros((1, 1, 2, 8), 'float32')] * 3)\n"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
