"""The baseline, torch's scaled_dot_product_attention, and the installed package's own attention()."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, cast

import torch
import torch.nn.functional as F

from .cells import Cell
from .implementation import Inputs, NotAvailable, PreparedCall


def as_tensor(output: object) -> torch.Tensor:
    return cast(torch.Tensor, output)


def torch_has_fp16_tiles() -> bool:
    """Whether torch multiplies fp16 by AMX-FP16 on this CPU."""
    asked = getattr(torch.cpu, "_is_amx_fp16_supported", None)  # of torch >= 2.6
    return asked is not None and bool(asked())


class TorchSdpa:
    name = "torch"
    version = str(torch.__version__)
    isa = ""

    def prepare(self, cell: Cell, dtype: str, inputs: Inputs, threads: int) -> PreparedCall:
        torch.set_num_threads(threads)
        arguments: dict[str, Any] = {"is_causal": True} if cell.causal else {}
        if cell.gqa_group > 1:
            arguments["enable_gqa"] = True
        call = functools.partial(F.scaled_dot_product_attention, inputs.q, inputs.k, inputs.v, **arguments)
        return PreparedCall(call, as_tensor)


class Package:
    """flashmoe_science.attention, as a user calls it: plan, output tensor and all."""

    name = "flashmoe_science"

    def __init__(self) -> None:
        try:
            import flashmoe_science
        except ImportError as error:
            raise NotAvailable(
                f"flashmoe_science cannot be imported ({error}); install the package, or time the C library alone: "
                "python <bench folder> --impl ctypes:<path of libflashmoe.so>"
            ) from error
        attention = getattr(flashmoe_science, "attention", None)
        if attention is None:
            raise NotAvailable("flashmoe_science has no attention(): the compiled package is not installed")
        self._attention = cast(Callable[..., torch.Tensor], attention)
        self.version = flashmoe_science.__version__
        self.isa = flashmoe_science.isa()

    def prepare(self, cell: Cell, dtype: str, inputs: Inputs, threads: int) -> PreparedCall:
        torch.set_num_threads(threads)  # the package follows torch's thread count
        arguments = {"causal": True} if cell.causal else {}
        return PreparedCall(functools.partial(self._attention, inputs.q, inputs.k, inputs.v, **arguments), as_tensor)
