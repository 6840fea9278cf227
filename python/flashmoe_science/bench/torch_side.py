"""The baseline, torch's scaled_dot_product_attention, and the installed package's own attention()."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any, cast

import torch
import torch.nn.functional as F

from .cells import PAGED_KINDS, Cell
from .implementation import Inputs, NotAvailable, PreparedCall, visible, without_padding
from .rows import kv_lengths, packed_rows, padded_rows, paged, row_starts


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
        if cell.is_plain:
            call = functools.partial(F.scaled_dot_product_attention, inputs.q, inputs.k, inputs.v, **arguments)
            return PreparedCall(call, as_tensor)
        arguments.pop("is_causal", None)
        k, v, mask = inputs.k, inputs.v, self._mask(cell, inputs)
        if inputs.sinks is not None:
            # One more key, of zeros, whose score is the bias alone.
            k, v = (torch.cat([torch.zeros_like(x[:, :, :1]), x], dim=2) for x in (k, v))
        masked = functools.partial(F.scaled_dot_product_attention, inputs.q, k, v, attn_mask=mask, **arguments)
        return PreparedCall(masked, lambda output: without_padding(cell, as_tensor(output)))

    @staticmethod
    def _mask(cell: Cell, inputs: Inputs) -> torch.Tensor:
        """As its users give it: which keys are seen, or, where something is added to scores, -inf where none is."""
        seen = visible(cell)
        if not cell.causal:
            seen = seen[:, :, :1]  # the same for all queries
        if inputs.bias is None and inputs.sinks is None:
            return seen
        bias = torch.zeros_like(seen, dtype=inputs.q.dtype) if inputs.bias is None else inputs.bias
        mask = bias if bool(seen.all()) else bias.masked_fill(~seen, -math.inf)
        if inputs.sinks is None:
            return mask
        shape = (cell.batch, cell.q_heads, cell.q_len)
        sinks = inputs.sinks.to(mask.dtype)[:, None, None].expand(*shape, 1)
        return torch.cat([sinks, mask.expand(*shape, cell.kv_len)], dim=3)


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
        arguments: dict[str, Any] = {"causal": True} if cell.causal else {}
        if cell.window:
            arguments["window"] = (cell.window - 1, -1)
        if inputs.sinks is not None:
            arguments["sinks"] = inputs.sinks
        if inputs.bias is not None:
            arguments["bias"] = inputs.bias.expand(cell.batch, cell.q_heads, -1, -1)
        if cell.kind in PAGED_KINDS:
            return self._paged(cell, inputs, arguments)
        if cell.kind == "lengths":
            return self._packed(cell, inputs, arguments)
        if cell.kind == "mask":
            arguments.pop("causal", None)
            arguments["mask"] = TorchSdpa._mask(cell, inputs)
            call = functools.partial(self._attention, inputs.q, inputs.k, inputs.v, **arguments)
            return PreparedCall(call, lambda output: without_padding(cell, as_tensor(output)))
        if cell.kind == "padding":
            arguments["kv_lengths"] = kv_lengths(cell)
        return PreparedCall(functools.partial(self._attention, inputs.q, inputs.k, inputs.v, **arguments), as_tensor)

    def _packed(self, cell: Cell, inputs: Inputs, arguments: dict[str, Any]) -> PreparedCall:
        """Sequences one behind the other, without padding between them."""
        q, k, v = (packed_rows(cell, x, side) for x, side in ((inputs.q, 0), (inputs.k, 1), (inputs.v, 1)))
        cu_q, cu_kv = row_starts(cell, 0), row_starts(cell, 1)
        call = functools.partial(
            self._attention, q, k, v, cu_q=cu_q, cu_kv=cu_kv, max_q=cell.q_len, max_kv=cell.kv_len, layout="bshd",
            **arguments,
        )  # fmt: skip
        return PreparedCall(call, lambda output: padded_rows(cell, as_tensor(output)))

    def _paged(self, cell: Cell, inputs: Inputs, arguments: dict[str, Any]) -> PreparedCall:
        q = packed_rows(cell, inputs.q, 0)
        k, v, block_table = paged(cell, inputs.k, inputs.v)
        call = functools.partial(
            self._attention, q, k.transpose(1, 2), v.transpose(1, 2), cu_q=row_starts(cell, 0),
            kv_lengths=kv_lengths(cell),
            block_table=block_table, max_q=cell.q_len, max_kv=cell.kv_len, layout="bshd", **arguments,
        )  # fmt: skip
        return PreparedCall(call, lambda output: padded_rows(cell, as_tensor(output)))
