"""torch's own attention functions, answered by this library on the CPU while a route is open.

    with flashmoe_science.routing.open("varlen", "sdpa"):
        torch.nn.attention.varlen.varlen_attn(...)                 # torch has no kernel for it on the CPU
        torch.nn.functional.scaled_dot_product_attention(...)      # models that do not know this library

``open`` answers with a handle whose ``restore`` (or the end of its ``with``) makes everything as it was. Both routes
are C++ kernels of torch's dispatcher: they work in every thread, in compiled graphs, and profilers and FLOP counters
see them. ``sdpa`` takes what it is ahead in (fp16 and bf16 on a machine with AMX, fp32 without a mask) and leaves the
rest to torch.

The same under torch's own names, where torch has them:
``torch.nn.attention.activate_flash_attention_impl("flashmoe_science")`` and ``restore_flash_attention_impl()``.
"""

from types import TracebackType
from typing import Any

import torch
from torch import Tensor

from . import _composite
from ._torch import _OPERATORS

_ROUTES = ("varlen", "sdpa")
_SDPA = "aten::_scaled_dot_product_flash_attention_for_cpu"
_opened: set[str] = set()


class Handle:
    """Open routes; closed by ``restore``, once."""

    def __init__(self, routes: tuple[str, ...]) -> None:
        self._open: list[str] = []
        self._libraries: list[Any] = []
        try:
            for route in routes:
                if route in _opened:  # before anything of torch's is replaced a second time
                    raise RuntimeError(f"the route {route} is open already")
                self._libraries += _before(route)
                torch.ops.flashmoe_science.open_route(route)
                self._open.append(route)
                _opened.add(route)
        except BaseException:
            self.restore()
            raise

    def restore(self) -> None:
        for route in self._open:
            torch.ops.flashmoe_science.close_route(route)
            _opened.discard(route)
        for library in self._libraries:
            library._destroy()
        self._open, self._libraries = [], []

    remove = restore  # what torch calls it

    def __enter__(self) -> "Handle":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.restore()


def open(*routes: str) -> Handle:
    """Opens the routes, all of them if none is named."""
    if not _OPERATORS.exists():
        raise NotImplementedError("this build of flashmoe_science has no torch operators (FLASHMOE_PYTHON_TORCH=OFF)")
    unknown = [route for route in routes if route not in _ROUTES]
    if unknown:
        raise ValueError(f"there is no route {unknown[0]!r}; there are {', '.join(_ROUTES)}")
    return Handle(routes or _ROUTES)


def _before(route: str) -> list[Any]:
    """What a route needs of Python: gradients of varlen_attn, and torch's own kernel for what sdpa leaves to it."""
    if route == "varlen":
        library = torch.library.Library("aten", "IMPL")
        library.impl("_flash_attention_backward", _flash_attention_backward, "CPU")
        return [library]
    library = torch.library.Library("flashmoe_science", "IMPL")
    original = torch.library.get_kernel(_SDPA, "CPU")

    def original_sdpa(
        keys: Any,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        dropout: float,
        causal: bool,
        mask: Tensor | None,
        scale: float | None,
    ) -> Any:
        return original.call_boxed(keys, q, k, v, dropout, causal, attn_mask=mask, scale=scale)

    library.impl("original_sdpa", original_sdpa, "CPU", with_keyset=True)
    return [library]


def _flash_attention_backward(
    grad_out: Tensor,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    out: Tensor,
    lse: Tensor,
    cu_q: Tensor,
    cu_kv: Tensor,
    max_q: int,
    max_kv: int,
    dropout: float,
    causal: bool,
    rng_state: Tensor,
    unused: Tensor,
    *,
    scale: float | None = None,
    window_size_left: int | None = None,
    window_size_right: int | None = None,
) -> tuple[Tensor, Tensor, Tensor]:
    left = -1 if window_size_left is None else window_size_left
    right = 0 if causal else -1 if window_size_right is None else window_size_right
    options = _composite.Options(scale, left, right, 0.0, "bshd")
    lengths = _composite.Lengths(cu_q, cu_kv, None)
    return _composite.backward(grad_out, None, q, k, v, None, None, out, lse, lengths, options)[:3]


def _offer_to_torch() -> None:
    """torch.nn.attention knows this library by name; nothing changes until somebody activates it."""
    register = getattr(torch.nn.attention, "register_flash_attention_impl", None)
    if register is not None:
        register("flashmoe_science", register_fn=open)


_offer_to_torch()
