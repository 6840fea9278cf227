"""The C function computes plain tensors itself, and only those."""

import math
import threading
import timeit
from collections.abc import Callable, Iterator
from typing import Any

import pytest

torch = pytest.importorskip("torch")
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

import flashmoe_science as fs
from flashmoe_science import _C, _torch
from formulas import random

if not hasattr(torch.ops.flashmoe_science, "attention"):
    pytest.skip("this wheel was built without torch", allow_module_level=True)


def tensors(requires_grad: bool = False) -> list[Any]:
    return [random(1, 2, 6, 8, seed=i).requires_grad_(requires_grad) for i in range(3)]


@pytest.fixture
def handed_over() -> Iterator[list[str]]:
    """What the C functions handed to Python."""
    calls: list[str] = []

    def spy(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def record(*args: Any, **options: Any) -> Any:
            calls.append(name)
            return function(*args, **options)

        return record

    def register(attention: Callable[..., Any], merge: Callable[..., Any]) -> None:
        _C.register_torch(
            torch.Tensor,
            attention,
            merge,
            torch.is_grad_enabled,
            torch.autograd.graph.increment_version,
            torch.autograd.forward_ad,
            _torch._guards(),
        )

    register(spy("attention", _torch._attention_eager), spy("merge_states", _torch._merge_states_eager))
    yield calls
    register(_torch._attention_eager, _torch._merge_states_eager)


def test_plain_tensors_stay_in_c(handed_over: list[str]) -> None:
    q, k, v = tensors()
    out, lse = fs.attention(q, k, v, causal=True, return_lse=True, bias=random(6, 6), sinks=random(2))
    fs.merge_states(out, lse, out, lse)
    with torch.no_grad():
        fs.attention(*tensors(requires_grad=True))
    with torch.inference_mode():
        fs.attention(*tensors())
    assert handed_over == []


@pytest.mark.parametrize("index", range(3))
def test_a_gradient_to_record_is_handed_over(handed_over: list[str], index: int) -> None:
    arrays = tensors()
    arrays[index].requires_grad_()
    assert fs.attention(*arrays).requires_grad
    assert handed_over == ["attention"]


@pytest.mark.parametrize("name", ["bias", "sinks"])
def test_a_gradient_of_an_option_is_handed_over(handed_over: list[str], name: str) -> None:
    option = {"bias": random(6, 6), "sinks": random(2)}[name].requires_grad_()
    assert fs.attention(*tensors(), **{name: option}).requires_grad
    assert handed_over == ["attention"]


def test_dispatch_modes_see_the_operator(handed_over: list[str]) -> None:
    class Mode(TorchDispatchMode):
        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            seen.append(str(func))
            return func(*args, **(kwargs or {}))

    seen: list[str] = []
    with Mode():
        fs.attention(*tensors())
    assert "flashmoe_science.attention.default" in seen and handed_over == ["attention"]


def test_function_modes_see_the_operator(handed_over: list[str]) -> None:
    class Mode(TorchFunctionMode):
        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            seen.append(str(func))
            return func(*args, **(kwargs or {}))

    seen: list[str] = []
    arrays = tensors()
    with Mode():
        fs.attention(*arrays)
    assert any("flashmoe_science.attention" in name for name in seen) and handed_over == ["attention"]


def test_autocast_casts(handed_over: list[str]) -> None:
    arrays = tensors()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        out = fs.attention(*arrays)
    assert out.dtype == torch.bfloat16 and handed_over == ["attention"]
    assert torch.equal(out, fs.attention(*(t.bfloat16() for t in arrays)))


def test_vmap(handed_over: list[str]) -> None:
    q, k, v = (random(3, 1, 2, 6, 8, seed=i) for i in range(3))
    mapped = torch.vmap(fs.attention)(q, k, v)
    assert handed_over == ["attention"]
    assert torch.equal(mapped, torch.stack([fs.attention(*parts) for parts in zip(q, k, v, strict=True)]))


def test_functorch_gradients_are_refused_not_wrong(handed_over: list[str]) -> None:
    """torch's own limit: operators with a registered autograd formula do not take part in torch.func.grad."""
    q, k, v = tensors()
    with pytest.raises(RuntimeError, match="functorch"):
        torch.func.grad(lambda x: fs.attention(x, k, v).sum())(q)
    assert handed_over == ["attention"]


def test_forward_mode_is_refused_not_wrong(handed_over: list[str]) -> None:
    q, k, v = tensors()
    with torch.autograd.forward_ad.dual_level():
        dual = torch.autograd.forward_ad.make_dual(q, torch.ones_like(q))
        with pytest.raises(NotImplementedError, match="forward-mode"):
            fs.attention(dual, k, v)
    with pytest.raises(NotImplementedError, match="forward-mode"):
        torch.func.jvp(lambda x: fs.attention(x, k, v), (q,), (torch.ones_like(q),))
    assert handed_over == ["attention", "attention"]


def test_subclasses_are_handed_over(handed_over: list[str]) -> None:
    class Subclass(torch.Tensor):
        pass

    q, k, v = tensors()
    assert type(fs.attention(q.as_subclass(Subclass), k, v)) is Subclass
    assert handed_over == ["attention"]


def test_lazily_negated_tensors_are_right(handed_over: list[str]) -> None:
    q, k, v = tensors()
    assert torch.equal(fs.attention(torch._neg_view(q), k, v), fs.attention(-q, k, v))
    assert handed_over == ["attention"]


def test_autograd_learns_of_writes_in_place() -> None:
    q, k, v = tensors()
    leaf, out = torch.ones(1, 2, 6, 8, requires_grad=True), torch.ones(1, 2, 6, 8)
    product = (leaf * out).sum()  # saves out
    fs.attention(q, k, v, out=out)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        product.backward()
    with torch.inference_mode():
        fs.attention(q, k, v, out=torch.empty_like(q))


@pytest.mark.timed
def test_a_call_costs_less_than_sdpa(capsys: pytest.CaptureFixture[str]) -> None:
    """One query and one key: what is timed is the way there and back."""
    sdpa = torch.nn.functional.scaled_dot_product_attention
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    figures = []
    with torch.no_grad():
        for dtype in (torch.float16, torch.bfloat16, torch.float32):
            arrays = [random(1, 1, 1, 64, dtype=dtype, seed=i) for i in range(3)]
            best_ours = best_theirs = math.inf
            # Interleaved, so that both meet the same machine; short blocks and the best of each side, so that a busy
            # machine has to disturb every one of them to be seen.
            for _ in range(101):
                ours = timeit.timeit(lambda arrays=arrays: fs.attention(*arrays), number=100)
                theirs = timeit.timeit(lambda arrays=arrays: sdpa(*arrays), number=100)
                best_ours, best_theirs = min(best_ours, ours / 100), min(best_theirs, theirs / 100)
            figures.append((str(dtype), best_ours / best_theirs, best_ours, best_theirs))
    torch.set_num_threads(threads)
    with capsys.disabled():
        for dtype, ratio, ours, theirs in figures:
            print(f"\n(1, 1, 1, 64) {dtype}: {ours * 1e6:.1f} us, SDPA {theirs * 1e6:.1f} us: {ratio:.2f} of it")
    assert max(ratio for _, ratio, _, _ in figures) <= 0.9


def test_many_threads_get_their_own_results() -> None:
    inputs = [[random(1, 2, 64, 64, seed=10 * n + i) for i in range(3)] for n in range(8)]
    expected = [fs.attention(*arrays) for arrays in inputs]
    wrong: list[int] = []

    def work(n: int) -> None:
        for _ in range(50):
            if not torch.equal(fs.attention(*inputs[n]), expected[n]):
                wrong.append(n)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
