"""The torch operators: schema, fake kernels, torch.compile, torch.export."""

import subprocess
import sys
from typing import Any

import pytest

torch = pytest.importorskip("torch")
import flashmoe_science as fs
from formulas import random

if not hasattr(torch.ops.flashmoe_science, "attention"):
    pytest.skip("this wheel was built without torch", allow_module_level=True)

OPS = torch.ops.flashmoe_science
CU = torch.tensor([0, 4, 10], dtype=torch.int32)

OPCHECK_CASES: dict[str, tuple[Any, tuple[Any, ...], dict[str, Any]]] = {
    "plain": (OPS.attention, (random(1, 2, 6, 8), random(1, 2, 7, 8), random(1, 2, 7, 8)), {}),
    "bshd causal": (
        OPS.attention,
        (random(2, 6, 4, 8), random(2, 6, 2, 8), random(2, 6, 2, 8)),
        {"layout": "bshd", "window_right": 0},
    ),
    "gradients": (
        OPS.attention,
        (*(random(1, 2, 6, 8, seed=i).requires_grad_() for i in range(3)), random(6, 6).requires_grad_()),
        {"softcap": 2.0},
    ),
    "ragged": (
        OPS.attention,
        (*(random(10, 2, 8, seed=i).requires_grad_() for i in range(3)), None, None, CU, CU),
        {"layout": "bshd", "max_q": 6, "max_kv": 6},
    ),
    "paged": (
        OPS.attention,
        (random(1, 2, 3, 8), random(4, 2, 8, 8), random(4, 2, 8, 8), *[None] * 5, torch.tensor([[3, 1]]).int()),
        {},
    ),
    "merge": (
        OPS.merge_states,
        (random(1, 2, 6, 8), random(1, 2, 6), random(1, 2, 6, 8, seed=1), random(1, 2, 6, seed=1)),
        {},
    ),
    "merge gradients": (
        OPS.merge_states,
        tuple(t.requires_grad_() for t in (random(1, 6, 2, 8), random(1, 2, 6), random(1, 6, 2, 8), random(1, 2, 6))),
        {"layout": "bshd"},
    ),
}


@pytest.mark.parametrize("case", OPCHECK_CASES)
def test_opcheck(case: str) -> None:
    operator, args, options = OPCHECK_CASES[case]
    torch.library.opcheck(operator.default, args, options)


def model(q: Any, k: Any, v: Any, bias: Any) -> Any:
    out, lse = fs.attention(q * 2.0, k, v, causal=True, bias=bias, layout="bshd", return_lse=True)
    merged, _ = fs.merge_states(out, lse, out, lse, layout="bshd")
    return fs.flash_attn_func(merged, k, v, window_size=(4, 0)) + 1.0


def test_compile_fullgraph() -> None:
    tensors = [random(2, 9, 4, 8).requires_grad_(), *(random(2, 9, 2, 8, seed=i).requires_grad_() for i in (1, 2))]
    tensors.append(random(9, 9, seed=3).requires_grad_())
    expected = model(*tensors)
    compiled = torch.compile(model, fullgraph=True, backend="aot_eager")
    result = compiled(*tensors)
    torch.testing.assert_close(result, expected)
    for ours, theirs in zip(
        torch.autograd.grad(result.sum(), tensors), torch.autograd.grad(expected.sum(), tensors), strict=True
    ):
        torch.testing.assert_close(ours, theirs)


def test_compile_fullgraph_for_any_length() -> None:
    lengths = []

    def backend(graph: Any, inputs: Any) -> Any:
        lengths.append([node.target for node in graph.graph.nodes if node.op == "call_function"])
        return graph

    compiled = torch.compile(
        lambda q: fs.attention(q, q, q, causal=True), fullgraph=True, dynamic=True, backend=backend
    )
    with torch.no_grad():
        for length in (5, 9, 33):
            q = random(1, 2, length, 8)
            torch.testing.assert_close(compiled(q), fs.attention(q, q, q, causal=True), rtol=0, atol=0)
    assert len(lengths) == 1 and any("flashmoe_science" in str(target) for target in lengths[0])


def test_compile_with_the_default_backend() -> None:
    q, k, v = (random(1, 2, 12, 16, seed=i) for i in range(3))
    compiled = torch.compile(lambda q, k, v: fs.attention(q, k, v, causal=True) * 2.0, fullgraph=True)
    with torch.no_grad():
        torch.testing.assert_close(compiled(q, k, v), 2.0 * fs.attention(q, k, v, causal=True))


def test_export() -> None:
    class Model(torch.nn.Module):
        def forward(self, q: Any, k: Any) -> Any:
            return fs.attention(q, k, k)

    q, k = random(1, 2, 6, 8), random(1, 2, 7, 8)
    program = torch.export.export(Model(), (q, k))
    assert "flashmoe_science.attention" in str(program.graph)
    torch.testing.assert_close(program.module()(q, k), fs.attention(q, k, k))


def test_meta_tensors_have_shapes() -> None:
    q, k = torch.empty(2, 8, 5, 64, device="meta"), torch.empty(2, 2, 9, 64, device="meta")
    out, lse = fs.attention(q, k, k, return_lse=True)
    assert out.device.type == "meta" and out.shape == q.shape and lse.shape == (2, 8, 5)


def test_operator_and_fast_path_give_the_same_bits() -> None:
    q, k, v = (random(2, 4, 50, 64, dtype=torch.bfloat16, seed=i) for i in range(3))
    out, lse = OPS.attention(q, k, v, window_right=0)
    fast, fast_lse = fs.attention(q, k, v, causal=True, return_lse=True)
    assert torch.equal(out, fast) and torch.equal(lse, fast_lse)


def test_dynamo_is_not_imported_with_the_package() -> None:
    code = "import sys, flashmoe_science; sys.exit('torch._dynamo' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
