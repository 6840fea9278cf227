from collections.abc import Callable
from types import ModuleType
from typing import Any, Literal, TypeVar, overload

_Array = TypeVar("_Array")  # torch.Tensor, numpy.ndarray or what has __dlpack__: what goes in comes out

__version__: str

@overload
def attention(
    q: _Array,
    k: _Array,
    v: _Array,
    *,
    causal: bool = False,
    scale: float | None = None,
    window: tuple[int, int] = (-1, -1),
    softcap: float = 0.0,
    bias: _Array | None = None,
    sinks: _Array | None = None,
    cu_q: _Array | None = None,
    cu_kv: _Array | None = None,
    kv_lengths: _Array | None = None,
    block_table: _Array | None = None,
    bias2: _Array | None = None,
    kv_starts: _Array | None = None,
    q_lengths: _Array | None = None,
    mask: _Array | None = None,
    k_scales: _Array | None = None,
    v_scales: _Array | None = None,
    max_q: int | None = None,
    max_kv: int | None = None,
    layout: Literal["bhsd", "bshd"] = "bhsd",
    return_lse: Literal[False] = False,
    num_splits: int = 0,
    top_left: bool = False,
    partial: bool = False,
    out: _Array | None = None,
) -> _Array: ...
@overload
def attention(
    q: _Array,
    k: _Array,
    v: _Array,
    *,
    causal: bool = False,
    scale: float | None = None,
    window: tuple[int, int] = (-1, -1),
    softcap: float = 0.0,
    bias: _Array | None = None,
    sinks: _Array | None = None,
    cu_q: _Array | None = None,
    cu_kv: _Array | None = None,
    kv_lengths: _Array | None = None,
    block_table: _Array | None = None,
    bias2: _Array | None = None,
    kv_starts: _Array | None = None,
    q_lengths: _Array | None = None,
    mask: _Array | None = None,
    k_scales: _Array | None = None,
    v_scales: _Array | None = None,
    max_q: int | None = None,
    max_kv: int | None = None,
    layout: Literal["bhsd", "bshd"] = "bhsd",
    return_lse: Literal[True],
    num_splits: int = 0,
    top_left: bool = False,
    partial: bool = False,
    out: _Array | None = None,
) -> tuple[_Array, _Array]: ...
@overload
def attention(
    q: _Array,
    k: _Array,
    v: _Array,
    *,
    causal: bool = False,
    scale: float | None = None,
    window: tuple[int, int] = (-1, -1),
    softcap: float = 0.0,
    bias: _Array | None = None,
    sinks: _Array | None = None,
    cu_q: _Array | None = None,
    cu_kv: _Array | None = None,
    kv_lengths: _Array | None = None,
    block_table: _Array | None = None,
    bias2: _Array | None = None,
    kv_starts: _Array | None = None,
    q_lengths: _Array | None = None,
    mask: _Array | None = None,
    k_scales: _Array | None = None,
    v_scales: _Array | None = None,
    max_q: int | None = None,
    max_kv: int | None = None,
    layout: Literal["bhsd", "bshd"] = "bhsd",
    return_lse: bool = False,
    num_splits: int = 0,
    top_left: bool = False,
    partial: bool = False,
    out: _Array | None = None,
) -> Any: ...
def merge_states(
    o_a: _Array, lse_a: _Array, o_b: _Array, lse_b: _Array, *, layout: Literal["bhsd", "bshd"] = "bhsd"
) -> tuple[_Array, _Array]: ...
@overload
def flash_attention_forward(
    Q: _Array, K: _Array, V: _Array, lse: _Array | None = None, causal: bool = False, scale: float | None = None
) -> _Array: ...
@overload
def flash_attention_forward(Q: _Array, K: _Array, V: _Array, causal: bool, scale: float | None = None) -> _Array: ...
def plan_attention(
    q: Any, k: Any, v: Any, *, dtype: str | None = None, device: str | None = None, **options: Any
) -> tuple[str, str]: ...
def check_attention(q: Any, k: Any, v: Any, *, dtype: str | None = None, **options: Any) -> None: ...
def check_merge(o_a: Any, lse_a: Any, o_b: Any, lse_b: Any, *, layout: str = "bhsd") -> None: ...
def as_bfloat16(capsule: Any, /) -> Any: ...
def isa() -> str: ...
def last_run() -> dict[str, Any]: ...
def register_torch(
    tensor_type: type,
    attention_fallback: Callable[..., Any],
    merge_fallback: Callable[..., Any],
    is_grad_enabled: Callable[[], bool],
    increment_version: Callable[[Any], None],
    forward_ad: ModuleType,
    guards: tuple[Callable[[], Any], ...],
    /,
) -> None: ...
