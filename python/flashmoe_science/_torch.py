"""What torch needs besides the kernels: autograd, torch.compile, and the way around the fast path.

``_C.attention`` computes plain CPU and CUDA tensors itself and never comes here. It hands over the calls that torch's
dispatcher has to see: gradients, dispatch and function modes, functorch transforms, autocast, tensor subclasses.
"""

import importlib.util
import sys
import warnings
from collections.abc import Callable, Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
from torch import Tensor

from . import _C, _composite, _fake, _flops

_OPERATORS = Path(__file__).with_name("_torch_ops.so")
_BACKWARD_SCHEMA = (
    "(Tensor grad_out, Tensor? grad_lse, Tensor q, Tensor k, Tensor v, Tensor? bias, Tensor? sinks, Tensor? cu_q, "
    "Tensor? cu_kv, Tensor? kv_lengths, Tensor out, Tensor lse, *, float? scale, int window_left, int window_right, "
    "float softcap, str layout) -> (Tensor dq, Tensor dk, Tensor dv, Tensor dbias, Tensor dsinks)"
)


# ---- the calls that _C hands over; also what Dynamo traces instead of _C's functions ------------------------------


def _attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *,
    causal: bool = False,
    scale: float | None = None,
    window: tuple[int, int] = (-1, -1),
    softcap: float = 0.0,
    bias: Tensor | None = None,
    sinks: Tensor | None = None,
    cu_q: Tensor | None = None,
    cu_kv: Tensor | None = None,
    kv_lengths: Tensor | None = None,
    block_table: Tensor | None = None,
    bias2: Tensor | None = None,
    kv_starts: Tensor | None = None,
    q_lengths: Tensor | None = None,
    mask: Tensor | None = None,
    k_scales: Tensor | None = None,
    v_scales: Tensor | None = None,
    max_q: int | None = None,
    max_kv: int | None = None,
    layout: str = "bhsd",
    return_lse: bool = False,
    num_splits: int = 0,
    top_left: bool = False,
    partial: bool = False,
    out: Tensor | None = None,
) -> Any:
    _refuse_other_devices(q)
    _refuse_nested(q=q, k=k, v=v)
    device = _autocast_device(q)
    if torch.is_autocast_enabled(device) and q.dtype in (torch.float32, torch.float16, torch.bfloat16):
        dtype = torch.get_autocast_dtype(device)
        q = q.to(dtype)
        if k_scales is None:
            k, v = k.to(dtype), v.to(dtype)
    if torch.is_grad_enabled() and any(t is not None and t.requires_grad for t in (q, k, v, bias, sinks, bias2)):
        bias, bias2, mask = _one_term(q, cu_q, bias, bias2, mask), None, None
    left, right = window
    result, lse = torch.ops.flashmoe_science.attention(
        q,
        k,
        v,
        bias,
        sinks,
        cu_q,
        cu_kv,
        kv_lengths,
        block_table,
        bias2,
        kv_starts,
        q_lengths,
        mask,
        k_scales,
        v_scales,
        scale=scale,
        window_left=left,
        window_right=0 if causal else right,
        softcap=softcap,
        max_q=max_q,
        max_kv=max_kv,
        layout=layout,
        num_splits=num_splits,
        top_left=top_left,
        partial=partial,
    )
    if out is not None:
        if result.requires_grad:
            raise ValueError("out cannot be used when a gradient is recorded; leave it out or use torch.no_grad()")
        if out.shape != result.shape or out.dtype != result.dtype:  # copy_ would broadcast and convert
            raise ValueError(
                f"out is {out.dtype} of shape {tuple(out.shape)}; expected {result.dtype} {tuple(result.shape)}"
            )
        result = out.copy_(result)
    return (result, lse) if return_lse else result


def _one_term(
    q: Tensor, cu_q: Tensor | None, bias: Tensor | None, bias2: Tensor | None, mask: Tensor | None
) -> Tensor | None:
    """The sum of all in at most four dimensions: what the gradient is known of. Its own gradient is torch's."""
    batch = q.shape[0] if cu_q is None else cu_q.shape[0] - 1
    total = None
    if mask is not None and mask.dtype != torch.bool:
        raise ValueError(f"mask is {mask.dtype}; it must be bool, True where a key is seen")
    hidden = None if mask is None else torch.zeros_like(mask, dtype=q.dtype).masked_fill(~mask, -torch.inf)
    for term in (bias, bias2, hidden):
        if term is None:
            continue
        if term.dim() == 5:
            term = term.expand(-1, batch // term.shape[0], -1, -1, -1).flatten(0, 1)
        total = term if total is None else total + term
    return total


def _merge_states(o_a: Tensor, lse_a: Tensor, o_b: Tensor, lse_b: Tensor, *, layout: str = "bhsd") -> Any:
    _refuse_other_devices(o_a)
    _refuse_nested(o_a=o_a, o_b=o_b)
    return torch.ops.flashmoe_science.merge_states(o_a, lse_a, o_b, lse_b, layout=layout)


def _merge_states_eager(o_a: Tensor, lse_a: Tensor, o_b: Tensor, lse_b: Tensor, **options: Any) -> Any:
    _refuse_forward_mode((o_a, lse_a, o_b, lse_b))
    return _merge_states(o_a, lse_a, o_b, lse_b, **options)


def _refuse_other_devices(tensor: Tensor) -> None:
    if tensor.device.type not in ("cpu", "cuda", "meta"):
        raise NotImplementedError(
            f"the tensors are on {tensor.device}; there are kernels for the CPU and for CUDA devices only"
        )


def _refuse_nested(**tensors: Tensor) -> None:
    for name, tensor in tensors.items():
        if tensor.is_nested:
            raise ValueError(
                f"{name} is a nested tensor; pass the packed rows and their offsets instead: for layout torch.jagged "
                "attention(q.values(), k.values(), v.values(), cu_q=q.offsets().int(), cu_kv=k.offsets().int(), "
                "layout='bshd')"
            )


def _autocast_device(tensor: Tensor) -> str:
    return "cuda" if tensor.device.type == "cuda" else "cpu"


def _refuse_forward_mode(tensors: Sequence[Tensor]) -> None:
    """The operators have no rule for dual numbers, and torch would drop their tangents without a word."""
    functorch: Any = torch._C._functorch
    transforms = [interpreter.key() for interpreter in functorch.get_interpreter_stack() or ()]
    has_tangent = torch.autograd.forward_ad._current_level >= 0 and any(
        torch.autograd.forward_ad.unpack_dual(tensor).tangent is not None for tensor in tensors
    )
    if has_tangent or functorch.TransformType.Jvp in transforms:
        raise NotImplementedError("forward-mode differentiation is not supported; use reverse mode")


def _is_ordinary(tensor: Any) -> bool:
    ordinary_type = type(tensor) in (Tensor, torch.nn.Parameter)
    return tensor is None or (ordinary_type and tensor.device.type in ("cpu", "cuda"))


def _attention_eager(q: Tensor, k: Tensor, v: Tensor, **options: Any) -> Any:
    """``_attention`` with errors in the library's words and types, and with float64."""
    _refuse_nested(q=q, k=k, v=v)
    if q.dtype == torch.float64 and q.device.type == "cpu":
        return _attention_double(q, k, v, **options)
    tensors = [q, k, v, *(option for option in options.values() if isinstance(option, Tensor))]
    _refuse_forward_mode(tensors)
    transformed = torch._C._functorch.peek_interpreter_stack() is not None
    converted = torch.is_autocast_enabled(_autocast_device(q))
    checkable = not transformed and not converted and all(map(_is_ordinary, tensors))
    if checkable and q.device.type == "cpu":
        _C.check_attention(*(t.detach() for t in (q, k, v)), **options)
    try:
        return _attention(q, k, v, **options)
    except RuntimeError:  # all that an operator can raise; on a GPU it is not worth a check before every call
        if checkable and q.device.type == "cuda":
            _C.check_attention(*(t.detach() for t in (q, k, v)), **options)
        raise


class _DoubleAttention(torch.autograd.Function):
    """float64, by the composite forward and the very backward that the operator uses."""

    @staticmethod
    def forward(
        ctx: Any,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        bias: Tensor | None,
        sinks: Tensor | None,
        lengths: _composite.Lengths,
        options: _composite.Options,
    ) -> tuple[Tensor, Tensor]:
        out, lse = _composite.forward(q, k, v, bias, sinks, lengths, options)
        ctx.save_for_backward(q, k, v, bias, sinks, out, lse)
        ctx.lengths, ctx.options = lengths, options
        return out, lse

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad_out: Tensor, grad_lse: Tensor) -> tuple[Tensor | None, ...]:
        q, k, v, bias, sinks, out, lse = ctx.saved_tensors
        gradients = _composite.backward(grad_out, grad_lse, q, k, v, bias, sinks, out, lse, ctx.lengths, ctx.options)
        return (*gradients, None, None)


def _attention_double(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *,
    causal: bool = False,
    scale: float | None = None,
    window: tuple[int, int] = (-1, -1),
    softcap: float = 0.0,
    bias: Tensor | None = None,
    sinks: Tensor | None = None,
    cu_q: Tensor | None = None,
    cu_kv: Tensor | None = None,
    kv_lengths: Tensor | None = None,
    block_table: Tensor | None = None,
    bias2: Tensor | None = None,
    kv_starts: Tensor | None = None,
    q_lengths: Tensor | None = None,
    mask: Tensor | None = None,
    k_scales: Tensor | None = None,
    v_scales: Tensor | None = None,
    max_q: int | None = None,
    max_kv: int | None = None,
    layout: str = "bhsd",
    return_lse: bool = False,
    num_splits: int = 0,
    top_left: bool = False,
    partial: bool = False,
    out: Tensor | None = None,
) -> Any:
    """For gradcheck: slow, forms the scores. max_q, max_kv and num_splits change nothing here."""
    others = (block_table, out, kv_starts, q_lengths, k_scales, v_scales)
    if any(other is not None for other in others) or top_left or partial:
        raise NotImplementedError(
            "q is float64, which only a composite for gradcheck takes: "
            "no block_table, out, kv_starts, q_lengths, k_scales, v_scales, top_left, partial"
        )
    if k.dtype != torch.float64 or v.dtype != torch.float64:
        raise ValueError(f"k is {k.dtype} and v is {v.dtype}, but q is torch.float64; they must be the same")
    options = _composite.Options(scale, window[0], 0 if causal else window[1], softcap, layout)
    bias = _one_term(q, cu_q, bias, bias2, mask)
    result = _DoubleAttention.apply(q, k, v, bias, sinks, _composite.Lengths(cu_q, cu_kv, kv_lengths), options)
    return result if return_lse else result[0]


# ---- autograd --------------------------------------------------------------------------------------------------


def _attention_backward(
    grad_out: Tensor,
    grad_lse: Tensor | None,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    bias: Tensor | None,
    sinks: Tensor | None,
    cu_q: Tensor | None,
    cu_kv: Tensor | None,
    kv_lengths: Tensor | None,
    out: Tensor,
    lse: Tensor,
    *,
    scale: float | None,
    window_left: int,
    window_right: int,
    softcap: float,
    layout: str,
) -> tuple[Tensor, ...]:
    options = _composite.Options(scale, window_left, window_right, softcap, layout)
    lengths = _composite.Lengths(cu_q, cu_kv, kv_lengths)
    gradients = _composite.backward(grad_out, grad_lse, q, k, v, bias, sinks, out, lse, lengths, options)
    return tuple(q.new_empty(0) if gradient is None else gradient for gradient in gradients)


def _save_for_backward(ctx: Any, inputs: Sequence[Any], keyword_only_inputs: dict[str, Any], output: Any) -> None:
    q, k, v, bias, sinks, cu_q, cu_kv, kv_lengths, block_table, bias2, kv_starts, q_lengths, mask, k_scales, _ = inputs
    has_padding = kv_starts is not None or q_lengths is not None
    if has_padding or keyword_only_inputs["top_left"] or keyword_only_inputs["partial"]:
        raise NotImplementedError(
            "there is no gradient with kv_starts, q_lengths, top_left or partial; call under torch.no_grad()"
        )
    if k_scales is not None:
        raise NotImplementedError("k_scales: there is no gradient with keys and values of 8 bits; call under no_grad()")
    if bias2 is not None or mask is not None or (bias is not None and bias.dim() == 5):
        raise NotImplementedError("the operator has a gradient of one bias of four dimensions; call attention()")
    if block_table is not None:
        raise NotImplementedError(
            "block_table: there is no gradient through paged keys and values; call under torch.no_grad()"
        )
    out, lse = output
    ctx.save_for_backward(q, k, v, bias, sinks, cu_q, cu_kv, kv_lengths, out, lse)
    names = ("scale", "window_left", "window_right", "softcap", "layout")
    ctx.options = {name: keyword_only_inputs[name] for name in names}


def _backward(ctx: Any, grad_out: Tensor | None, grad_lse: Tensor | None) -> tuple[Tensor | None, ...]:
    q, k, v, bias, sinks, cu_q, cu_kv, kv_lengths, out, lse = ctx.saved_tensors
    if grad_out is None:
        grad_out = torch.zeros_like(out)
    dq, dk, dv, dbias, dsinks = torch.ops.flashmoe_science.attention_backward(
        grad_out, grad_lse, q, k, v, bias, sinks, cu_q, cu_kv, kv_lengths, out, lse, **ctx.options
    )
    return (
        dq,
        dk,
        dv,
        None if bias is None else dbias,
        None if sinks is None else dsinks,
        *(None,) * 10,
    )


def _refuse_second_order(ctx: Any, *gradients: Any) -> None:
    raise NotImplementedError("the gradient of attention cannot be differentiated again")


def _save_merge(ctx: Any, inputs: Sequence[Any], keyword_only_inputs: dict[str, Any], output: Any) -> None:
    ctx.save_for_backward(*inputs, *output)
    ctx.layout = keyword_only_inputs["layout"]


def _merge_backward(ctx: Any, grad_o: Tensor | None, grad_lse: Tensor | None) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """o = w_a o_a + w_b o_b with w = exp(lse_part - lse): dlse_part = w (dlse + do . (o_part - o))."""
    o_a, lse_a, o_b, lse_b, o, lse = ctx.saved_tensors
    grad_o = torch.zeros_like(o) if grad_o is None else grad_o
    safe_lse = torch.where(lse == -torch.inf, torch.inf, lse)
    gradients: list[Tensor] = []
    for part, lse_part in ((o_a, lse_a), (o_b, lse_b)):
        weight = torch.exp(lse_part - safe_lse)  # (batch, heads, rows)
        aligned = weight if ctx.layout == "bhsd" else weight.transpose(-1, -2)
        dot = (grad_o.float() * (part.float() - o.float())).sum(-1)
        dot = dot if ctx.layout == "bhsd" else dot.transpose(-1, -2)
        gradients.append((aligned.unsqueeze(-1) * grad_o.float()).to(part.dtype))
        gradients.append(weight * (dot if grad_lse is None else dot + grad_lse))
    return gradients[0], gradients[1], gradients[2], gradients[3]


# ---- registration ----------------------------------------------------------------------------------------------


def _register_operators() -> None:
    torch.ops.load_library(str(_OPERATORS))
    library = torch.library
    library.define("flashmoe_science::attention_backward", _BACKWARD_SCHEMA)
    library.impl("flashmoe_science::attention_backward", "CompositeExplicitAutograd", _attention_backward)
    library.impl("flashmoe_science::merge_states", "CUDA", _composite.merge_states)
    library.register_fake("flashmoe_science::attention", _fake.attention)
    library.register_fake("flashmoe_science::merge_states", _fake.merge_states)
    library.register_fake("flashmoe_science::attention_backward", _fake.attention_backward)
    library.register_autograd("flashmoe_science::attention", _backward, setup_context=_save_for_backward)
    library.register_autograd("flashmoe_science::attention_backward", _refuse_second_order)
    library.register_autograd("flashmoe_science::merge_states", _merge_backward, setup_context=_save_merge)


_NO_OPERATORS = (
    "this build of flashmoe_science has no torch operators (FLASHMOE_PYTHON_TORCH=OFF), so gradients, torch.compile, "
    "modes and transforms do not work; plain tensors do"
)


def _without_operators(*args: Any, **kwargs: Any) -> Any:
    raise NotImplementedError(_NO_OPERATORS)


def _substitute_in_graph() -> None:
    try:
        torch.compiler.substitute_in_graph(_C.attention)(_attention)
        torch.compiler.substitute_in_graph(_C.merge_states)(_merge_states)
    except Exception as error:  # called while Dynamo is imported, which must not fail because of us
        warnings.warn(f"torch.compile will break the graph at flashmoe_science: {error}", stacklevel=2)


class _AfterImport(MetaPathFinder):
    """Calls an action when a module has been imported: importing Dynamo costs more than all of torch's start-up."""

    def __init__(self, name: str, action: Callable[[], None]) -> None:
        self._name = name
        self._action = action

    @classmethod
    def call(cls, name: str, action: Callable[[], None]) -> None:
        """Now, if the module is there already."""
        if name in sys.modules:
            action()
        else:
            sys.meta_path.insert(0, cls(name, action))

    def find_spec(self, fullname: str, path: Any, target: ModuleType | None = None) -> ModuleSpec | None:
        if fullname != self._name:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(fullname)
        if spec is None or spec.loader is None:
            return None
        execute = spec.loader.exec_module

        def execute_then_act(module: ModuleType) -> None:
            execute(module)
            self._action()

        spec.loader.exec_module = execute_then_act  # type: ignore[method-assign]
        return spec


def _guards() -> tuple[Callable[[], Any], ...]:
    """Functions that all answer something false when torch's dispatcher may be passed over."""
    binding: Any = torch._C
    try:
        return (
            binding._len_torch_dispatch_stack,
            binding._is_torch_function_mode_enabled,
            binding._functorch.peek_interpreter_stack,
            binding._is_any_autocast_enabled,
            binding._get_tracing_state,
            binding._autograd._profiler_enabled,
        )
    except AttributeError:  # a torch that names them otherwise: right and slower
        return (lambda: True,)


def register() -> None:
    """Called once, by the package's ``__init__``."""
    if not hasattr(Tensor, "__dlpack_c_exchange_api__"):
        warnings.warn(
            f"torch {torch.__version__} is too old for flashmoe_science: 2.10 or later is needed", stacklevel=3
        )
        return
    attention: Callable[..., Any] = _without_operators
    merge_states: Callable[..., Any] = _without_operators
    if _OPERATORS.exists():
        _register_operators()
        attention, merge_states = _attention_eager, _merge_states_eager
        _AfterImport.call("torch._dynamo", _substitute_in_graph)
        _AfterImport.call("torch.utils.flop_counter", _flops.register)
    else:
        warnings.warn(_NO_OPERATORS, stacklevel=3)
    _C.register_torch(
        Tensor,
        attention,
        merge_states,
        torch.is_grad_enabled,
        torch.autograd.graph.increment_version,
        torch.autograd.forward_ad,
        _guards(),
    )
