"""Errors name the argument, its value and what is allowed."""

from typing import Any

import pytest

torch = pytest.importorskip("torch")
import flashmoe_science as fs

Q = torch.zeros(2, 4, 8, 64)
K = torch.zeros(2, 2, 8, 64)
INT32 = torch.int32

VALUE_ERRORS: list[tuple[str, tuple[Any, ...], dict[str, Any], str]] = [
    ("rank", (Q[0], K, K), {}, r"q has shape \(4, 8, 64\); expected \(batch, heads, seq, dim\)"),
    ("rank bshd", (Q, K[0], K), {"layout": "bshd"}, r"k has shape \(2, 8, 64\); expected \(batch, seq, heads, dim\)"),
    ("five dimensions", (Q[None], K, K), {}, r"q has shape \(1, 2, 4, 8, 64\); expected"),
    ("dtype", (Q.int(), K, K), {}, "q is int32; it must be float16, bfloat16 or float32"),
    ("mixed dtypes", (Q, K.half(), K), {}, "k is float16, but q is float32"),
    ("heads", (Q[:, :3], K, K), {}, "k has 2 heads, which does not divide q's 3"),
    ("batch", (Q, K[:1], K[:1]), {}, "k has batch 1, but q has 2"),
    ("v shape", (Q, K, K[:, :, :5]), {}, r"v has shape \(2, 2, 5, 64\), but k has \(2, 2, 8, 64\)"),
    ("head dim", (Q, K[..., :32], K[..., :32]), {}, "k has head dimension 32, but q has 64"),
    ("too wide", (torch.zeros(1, 1, 1, 600),) * 3, {}, "the last dimension of q is 600; allowed: 1 to 576"),
    ("last stride", (Q.mT, K, K), {}, "q has stride 64 in its last dimension; it must be 1"),
    ("layout", (Q, K, K), {"layout": "sbhd"}, "layout is 'sbhd'; it must be 'bhsd' or 'bshd'"),
    ("bias shape", (Q, K, K), {"bias": torch.zeros(3, 8)}, r"bias has shape \(3, 8\), .* \(2, 4, 8, 8\)"),
    ("bias dtype", (Q, K, K), {"bias": torch.zeros(8, 8, dtype=torch.bool)}, "bias is bool; .*truth values are a mask"),
    (
        "mask dtype",
        (Q, K, K),
        {"mask": torch.zeros(8, 8)},
        "mask is float32; it must be bool, True where a key is seen",
    ),
    ("mask shape", (Q, K, K), {"mask": torch.ones(3, 8, dtype=torch.bool)}, "mask has shape .* does not broadcast"),
    ("sinks shape", (Q, K, K), {"sinks": torch.zeros(3)}, r"sinks has shape \(3,\); expected a contiguous \(4,\)"),
    ("sinks dtype", (Q, K, K), {"sinks": torch.zeros(4).double()}, "sinks is float64; it must be float32"),
    ("softcap", (Q, K, K), {"softcap": -1.0}, "softcap is -1; allowed"),
    ("scale", (Q, K, K), {"scale": float("nan")}, "scale is nan; allowed"),
    ("window", (Q, K, K), {"window": (-2, 0)}, r"window\[0\] is -2; allowed"),
    ("num_splits", (Q, K, K), {"num_splits": -1}, "num_splits is -1"),
    ("max_q", (Q, K, K), {"max_q": 8}, "max_q is only for packed queries; give cu_q too"),
    ("max_kv", (Q, K, K), {"max_kv": 8}, "max_kv is only for packed or paged keys"),
    ("float lengths", (Q, K, K), {"kv_lengths": torch.zeros(2)}, "kv_lengths is float32; it must be int32"),
    (
        "late start",
        (Q, K, K),
        {"kv_starts": torch.tensor([3, 9], dtype=INT32)},
        r"kv_starts\[1\] is 9; allowed: 0 to 8",
    ),
    (
        "lengths twice",
        (Q[0], K[0], K[0]),
        {"cu_q": torch.tensor([0, 8], dtype=INT32), "q_lengths": torch.tensor([8], dtype=INT32)},
        "q_lengths and cu_q exclude each other",
    ),
    (
        "few lengths",
        (Q, K, K),
        {"kv_lengths": torch.zeros(1, dtype=INT32)},
        r"kv_lengths has shape \(1,\); .*batch = 2",
    ),
    (
        "long length",
        (Q, K, K),
        {"kv_lengths": torch.tensor([3, 9], dtype=INT32)},
        r"kv_lengths\[1\] is 9; allowed: 0 to 8",
    ),
    (
        "offsets that fall",
        (Q[0], K[0], K[0]),
        {"cu_q": torch.tensor([0, 5, 3, 8], dtype=INT32), "cu_kv": torch.tensor([0, 1, 2, 8], dtype=INT32)},
        r"cu_q\[2\] is 3; allowed",
    ),
    (
        "page outside",
        (Q, K, K),
        {"block_table": torch.tensor([[0], [2]], dtype=INT32)},
        r"block_table\[1\] is 2; allowed",
    ),
    ("sparse", (Q, K.to_sparse(), K), {}, "k has layout torch.sparse_coo on cpu; expected a dense"),
    ("out shape", (Q, K, K), {"out": torch.zeros(2, 4, 8, 32)}, r"out has shape \(2, 4, 8, 32\); expected \(2, 4"),
    ("bias of five", (Q, K, K), {"bias": torch.zeros(3, 1, 4, 8, 8)}, r"bias has shape \(3, 1, 4, 8, 8\), which"),
    ("bias2 shape", (Q, K, K), {"bias2": torch.zeros(2, 3, 8, 8)}, r"bias2 has shape \(2, 3, 8, 8\), which does not"),
    ("out dtype", (Q, K, K), {"out": torch.zeros(2, 4, 8, 64).half()}, "out is float16, but q is float32"),
]


@pytest.mark.parametrize(
    ("args", "options", "message"), [case[1:] for case in VALUE_ERRORS], ids=[c[0] for c in VALUE_ERRORS]
)
def test_value_errors(args: tuple[Any, ...], options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        fs.attention(*args, **options)


def test_value_errors_are_the_same_when_gradients_are_recorded() -> None:
    with pytest.raises(ValueError, match="k has 2 heads, which does not divide q's 3"):
        fs.attention(Q[:, :3].clone().requires_grad_(), K, K)


TYPE_ERRORS: list[tuple[tuple[Any, ...], dict[str, Any], str]] = [
    ((Q, K), {}, "missing required argument 'v'"),
    ((Q, K, K, True), {}, "takes 3 positional arguments but 4 were given"),
    ((Q, K, None), {}, "v must not be None"),
    ((Q, K, K), {"dropout": 0.1}, "unexpected keyword argument 'dropout'"),
    ((Q, K, K), {"is_causal": True}, "unexpected keyword argument 'is_causal'; it is called causal here"),
    ((Q, K, K), {"attn_mask": Q}, "an additive mask is bias here"),
    ((Q, K, K), {"q": Q}, "multiple values for argument 'q'"),
    ((Q, K, K), {"dtype": "float16"}, "unexpected keyword argument 'dtype'"),
    ((Q, K, K), {"scale": "small"}, "scale is 'small'; expected a float"),
    ((Q, K, K), {"window": 3}, "window is 3; expected a pair of ints"),
    ((Q, K, K), {"max_q": 1.5}, "max_q is 1.5; expected an int"),
    ((Q.numpy(), K, K), {}, r"k is a torch.Tensor among arrays that are not; .*k.detach\(\).numpy\(\)"),
    ((Q, K.numpy(), K), {}, r"k is a NumPy array among torch tensors; .*torch.from_numpy\(k\) shares its memory"),
    ((Q, K, K), {"bias": Q[0, 0].numpy()}, r"bias is a NumPy array among torch tensors; .*torch.from_numpy\(bias\)"),
    ((Q, K, [0]), {}, "v is <class 'list'> among torch tensors; expected a torch.Tensor"),
    (([[1.0]], K, K), {}, "q is <class 'list'>; expected a torch.Tensor, a NumPy array or another array"),
]


@pytest.mark.parametrize(("args", "options", "message"), TYPE_ERRORS)
def test_type_errors(args: tuple[Any, ...], options: dict[str, Any], message: str) -> None:
    with pytest.raises(TypeError, match=message):
        fs.attention(*args, **options)


FP8_ADVICE = "it must be float16, bfloat16 or float32: .*convert it first, with its scale"


@pytest.mark.parametrize("dtype", ["float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz"])
def test_eight_bit_floats_are_named(dtype: str) -> None:
    q = torch.zeros(1, 2, 4, 64).to(getattr(torch, dtype))
    with pytest.raises(ValueError, match=f"q is {dtype}; {FP8_ADVICE}"):
        fs.attention(q, q, q)
    with pytest.raises(ValueError, match=f"q is {dtype}; {FP8_ADVICE}"):
        fs.attention(q.to("meta"), q.to("meta"), q.to("meta"))
    with pytest.raises(ValueError, match=f"k is {dtype}, but q is float32"):
        fs.attention(torch.zeros(1, 2, 4, 64), q, q)
    if hasattr(torch.ops.flashmoe_science, "attention"):
        with pytest.raises(RuntimeError, match=f"q is {dtype}; {FP8_ADVICE}"):
            torch.ops.flashmoe_science.attention(q, q, q)


def test_mixed_arrays_are_refused_in_merge_states() -> None:
    out, lse = fs.attention(Q, K, K, return_lse=True)
    with pytest.raises(TypeError, match=r"o_b is a NumPy array among torch tensors; .*torch.from_numpy\(o_b\)"):
        fs.merge_states(out, lse, out.numpy(), lse)
    with pytest.raises(TypeError, match=r"lse_a is a torch.Tensor among arrays that are not"):
        fs.merge_states(out.numpy(), lse, out.numpy(), lse)


@pytest.mark.parametrize("layout", ["jagged", "strided"])
@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
def test_nested_tensors_are_told_the_way(layout: str) -> None:
    rows = [torch.randn(3, 2, 16), torch.randn(5, 2, 16)]
    nested = torch.nested.nested_tensor(rows, layout=getattr(torch, layout))
    with pytest.raises(ValueError, match="q is a nested tensor; pass the packed rows and their offsets instead"):
        fs.attention(nested, nested, nested, layout="bshd")
    with pytest.raises(ValueError, match="k is a nested tensor"):
        fs.attention(Q, nested, nested)
    with pytest.raises(ValueError, match="o_a is a nested tensor"):
        fs.merge_states(nested, nested, nested, nested)
    if layout == "jagged":  # the way leads somewhere
        values, offsets = nested.values(), nested.offsets().int()
        out = fs.attention(values, values, values, cu_q=offsets, cu_kv=offsets, layout="bshd")
        expected = [fs.attention(*(x[None],) * 3, layout="bshd")[0] for x in rows]
        torch.testing.assert_close(out, torch.cat(expected))


def test_other_devices_are_refused_in_words() -> None:
    with torch._subclasses.FakeTensorMode():
        q = torch.empty(1, 1, 4, 64, device="xpu")
        with pytest.raises(NotImplementedError, match="on xpu:0; there are kernels for the CPU and for CUDA devices"):
            fs.attention(q, q, q)


def test_only_a_plan_has_a_device() -> None:
    with pytest.raises(TypeError, match="attention\\(\\) got an unexpected keyword argument 'device'"):
        fs.attention(Q, K, K, device="cpu")
    with pytest.raises(ValueError, match="device is only for shapes"):
        fs.plan(Q, K, K, device="cpu")
    with pytest.raises(ValueError, match="device is 'tpu'; expected 'cpu', 'cuda' or 'cuda:<n>'"):
        fs.plan((1, 1, 4, 64), (1, 1, 4, 64), (1, 1, 4, 64), device="tpu")


def test_flash_attn_func_refuses_what_it_cannot_do() -> None:
    q = torch.zeros(1, 8, 4, 64)
    with pytest.raises(NotImplementedError, match=r"dropout_p is 0\.1"):
        fs.flash_attn_func(q, q, q, dropout_p=0.1)
    with pytest.raises(NotImplementedError, match="alibi_slopes"):
        fs.flash_attn_func(q, q, q, alibi_slopes=torch.zeros(4))


def test_merge_states_names_its_arguments() -> None:
    out, lse = fs.attention(Q, K, K, return_lse=True)
    with pytest.raises(ValueError, match=r"lse_b is float32 of shape \(2, 4, 7\); expected float32 \(2, 4, 8\)"):
        fs.merge_states(out, lse, out, lse[:, :, :7])
    with pytest.raises(ValueError, match="o_b is float16, but o_a is float32"):
        fs.merge_states(out, lse, out.half(), lse)
