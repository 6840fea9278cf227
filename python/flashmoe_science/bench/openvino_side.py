"""openvino on the CPU: its ScaledDotProductAttention operator, compiled for the cell's own precision."""

from __future__ import annotations

import importlib
from typing import Any

import torch

from .cells import Cell
from .implementation import TORCH_DTYPES, Inputs, NotAvailable, PreparedCall


class OpenVino:
    name = "openvino"
    isa = ""

    def __init__(self) -> None:
        try:
            openvino = importlib.import_module("openvino")
            opset13 = importlib.import_module("openvino.opset13")
        except ImportError as error:
            raise NotAvailable(f"--peers openvino: {error}; pip install openvino") from error
        self._openvino, self._ops = openvino, opset13
        self._core = openvino.Core()
        self.version = str(openvino.__version__)

    def prepare(self, cell: Cell, dtype: str, inputs: Inputs, threads: int) -> PreparedCall:
        openvino, ops = self._openvino, self._ops
        element = {"fp16": openvino.Type.f16, "bf16": openvino.Type.bf16, "fp32": openvino.Type.f32}[dtype]
        tensors = [inputs.q, inputs.k, inputs.v]
        parameters = [ops.parameter(list(tensor.shape), element) for tensor in tensors]
        q, k, v = parameters
        if cell.gqa_group > 1:
            k, v = self._repeat_heads(k, cell), self._repeat_heads(v, cell)
        attention = ops.scaled_dot_product_attention(q, k, v, causal=cell.causal)
        # The plugin may compute in another type inside; in and out stay in the cell's.
        result = ops.result(ops.convert(attention, element) if attention.get_element_type() != element else attention)
        model = openvino.Model([result], parameters, "attention")
        configuration = {
            "INFERENCE_NUM_THREADS": threads,
            "NUM_STREAMS": 1,
            "PERFORMANCE_HINT": "LATENCY",
            "INFERENCE_PRECISION_HINT": element,
            "ENABLE_CPU_PINNING": False,
        }
        try:
            request = self._core.compile_model(model, "CPU", configuration).create_infer_request()
        except RuntimeError as error:
            raise NotAvailable(f"openvino, {dtype}: {str(error).splitlines()[-1][:160]}") from error
        for index, tensor in enumerate(tensors):
            holder = openvino.Tensor(element, openvino.Shape(list(tensor.shape)))
            as_bytes(holder)[:] = tensor.contiguous().view(torch.uint8).numpy().reshape(-1)
            request.set_input_tensor(index, holder)

        def to_tensor(_: object) -> torch.Tensor:
            raw = torch.from_numpy(as_bytes(request.get_output_tensor(0)).copy())
            return raw.view(TORCH_DTYPES[dtype]).reshape(inputs.q.shape)

        return PreparedCall(request.infer, to_tensor)

    def _repeat_heads(self, node: Any, cell: Cell) -> Any:
        """(B, Hkv, S, D) -> (B, Hq, S, D), the way exported models write GQA; the plugin fuses it."""
        ops = self._ops
        grouped = ops.unsqueeze(node, ops.constant([2]))
        shape = [cell.batch, cell.kv_heads, cell.gqa_group, cell.kv_len, cell.head_dim]
        repeated = ops.broadcast(grouped, ops.constant(shape), broadcast_spec="BIDIRECTIONAL")
        return ops.reshape(repeated, ops.constant([cell.batch, cell.q_heads, cell.kv_len, cell.head_dim]), False)


def as_bytes(tensor: Any) -> Any:
    """An openvino tensor's memory as a flat byte array; bf16 has no NumPy type of its own."""
    return tensor.data.view("uint8").reshape(-1)
