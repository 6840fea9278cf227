"""Fake and meta tensors are refused what real ones are refused, in the same words."""

from typing import Any

import pytest

torch = pytest.importorskip("torch")
from test_errors import VALUE_ERRORS, K, Q
from torch._subclasses import FakeTensorMode
from torch.fx.experimental.symbolic_shapes import ShapeEnv

import flashmoe_science as fs
from formulas import random

if not hasattr(torch.ops.flashmoe_science, "attention"):
    pytest.skip("this wheel was built without torch", allow_module_level=True)

# What index arrays hold is not known of a tensor without memory; torch does not ask for a fake kernel of sparse ones;
# out is no argument of the operator.
LEFT_OUT = {"long length", "late start", "offsets that fall", "page outside", "sparse", "out shape", "out dtype"}
CASES = [case[1:] for case in VALUE_ERRORS if case[0] not in LEFT_OUT]
NAMES = [case[0] for case in VALUE_ERRORS if case[0] not in LEFT_OUT]


def to_meta(value: Any) -> Any:
    return value.to("meta") if isinstance(value, torch.Tensor) else value


@pytest.mark.parametrize(("args", "options", "message"), CASES, ids=NAMES)
def test_meta_tensors(args: tuple[Any, ...], options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        fs.attention(*map(to_meta, args), **{name: to_meta(value) for name, value in options.items()})


@pytest.mark.parametrize("device", ["cpu", "cuda:1"])
@pytest.mark.parametrize(("args", "options", "message"), CASES, ids=NAMES)
def test_fake_tensors(args: tuple[Any, ...], options: dict[str, Any], message: str, device: str) -> None:
    with FakeTensorMode(allow_non_fake_inputs=True):

        def fake(value: Any) -> Any:
            if not isinstance(value, torch.Tensor):
                return value
            return torch.empty_strided(value.shape, value.stride(), dtype=value.dtype, device=device)

        fake_options = {name: fake(value) for name, value in options.items()}
        with pytest.raises(ValueError, match=message):
            fs.attention(*map(fake, args), **fake_options)


def test_what_only_gpus_refuse() -> None:
    with FakeTensorMode():
        q = torch.empty(1, 2, 4, 64, device="cuda")
        with pytest.raises(NotImplementedError, match=r"q.dtype is fp32; allowed on a GPU: fp16, bf16"):
            fs.attention(q, q, q)
        half = q.half()
        assert fs.attention(half, half, half[..., :48]).shape == (1, 2, 4, 48)
        latent = torch.empty(1, 2, 4, 512, device="cuda").half()
        with pytest.raises(NotImplementedError, match=r"the last dimension of v is 512; allowed on a GPU: 1 to 256"):
            fs.attention(half, half, latent)
        packed, cu = torch.empty(9, 2, 64, device="cuda").half(), torch.empty(3, dtype=torch.int32, device="cuda")
        with pytest.raises(ValueError, match="max_q is needed when cu_q is on a GPU"):
            fs.attention(packed, packed, packed, cu_q=cu, cu_kv=cu, layout="bshd")


def test_arrays_in_two_places() -> None:
    with FakeTensorMode():
        q, k = torch.empty(1, 2, 4, 64, device="cuda:1").half(), torch.empty(1, 2, 4, 64).half()
        with pytest.raises(ValueError, match="k is on the CPU, but the call runs on cuda:1; they must be the same"):
            fs.attention(q, k, k)


def test_lengths_that_cannot_be_read_refuse_nothing() -> None:
    """A bias for the longest of sequences whose lengths nobody knows yet."""
    q = torch.empty(10, 2, 64, device="meta")
    cu, bias = torch.empty(3, dtype=torch.int32, device="meta"), torch.empty(6, 6, device="meta")
    out, lse = fs.attention(q, q, q, cu_q=cu, cu_kv=cu, bias=bias, layout="bshd", return_lse=True)
    assert out.shape == q.shape and lse.shape == (2, 10)


def test_merge_states() -> None:
    out, lse = torch.empty(2, 4, 8, 64, device="meta"), torch.empty(2, 4, 8, device="meta")
    with pytest.raises(ValueError, match=r"lse_b is float32 of shape \(2, 4, 7\); expected float32 \(2, 4, 8\)"):
        fs.merge_states(out, lse, out, lse[:, :, :7])
    with pytest.raises(ValueError, match="o_b is float16, but o_a is float32"):
        fs.merge_states(out, lse, out.half(), lse)
    with pytest.raises(ValueError, match=r"o_b has shape .* but o_a has"):
        fs.merge_states(out, lse, out[:1], lse)


@pytest.mark.parametrize("dynamic", [False, True])
def test_compiled_calls(dynamic: bool) -> None:
    compiled = torch.compile(fs.attention, fullgraph=True, dynamic=dynamic, backend="eager")
    with pytest.raises(Exception, match="k has 3 heads, which does not divide q's 8"):
        compiled(random(1, 8, 4, 16), random(1, 3, 4, 16), random(1, 3, 4, 16))


def test_out_of_a_compiled_call() -> None:
    compiled = torch.compile(fs.attention, fullgraph=True, dynamic=False, backend="eager")
    with pytest.raises(Exception, match=r"out is torch.float16 of shape"):
        compiled(Q, K, K, out=torch.empty_like(Q, dtype=torch.float16))


def test_sizes_that_nobody_knows_are_left_to_the_kernel() -> None:
    shapes = ShapeEnv()
    with FakeTensorMode(shape_env=shapes):
        rows = shapes.create_unbacked_symint()
        torch._check(rows >= 2)
        q, k = torch.empty(1, 8, rows, 16), torch.empty(1, 3, rows, 16)
        out, _ = torch.ops.flashmoe_science.attention(q, k, k)
    assert out.shape[2] is rows or out.shape[2].node.expr == rows.node.expr
