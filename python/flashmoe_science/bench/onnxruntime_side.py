"""onnxruntime on the CPU: the standard Attention operator, or its own MultiHeadAttention, whichever is faster."""

from __future__ import annotations

import importlib
from typing import Any

import torch

from .cells import Cell
from .implementation import Inputs, NotAvailable, PreparedCall
from .sampling import time_calls

ATTENTION_OPSET = 23
IR_VERSION = 11


class OnnxRuntime:
    name = "onnxruntime"
    isa = ""

    def __init__(self) -> None:
        try:
            onnx = importlib.import_module("onnx")
            onnxruntime = importlib.import_module("onnxruntime")
        except ImportError as error:
            raise NotAvailable(f"--peers onnxruntime: {error}; pip install onnxruntime onnx") from error
        self._onnx, self._runtime = onnx, onnxruntime
        self.version = str(onnxruntime.__version__)

    def prepare(self, cell: Cell, dtype: str, inputs: Inputs, threads: int) -> PreparedCall:
        if dtype == "bf16":
            raise NotAvailable("onnxruntime has no bf16 attention on the CPU")
        candidates: list[PreparedCall] = []
        reasons: list[str] = []
        for build in (self._attention, self._multi_head_attention):
            try:
                candidates.append(build(cell, dtype, inputs, threads))
                candidates[-1].run()
            except NotAvailable as error:
                reasons.append(str(error))
        if not candidates:
            raise NotAvailable("; ".join(reasons))
        # A peer is judged by the best it offers.
        return min(candidates, key=lambda candidate: min(time_calls(candidate.run, 1) for _ in range(2)))

    def _attention(self, cell: Cell, dtype: str, inputs: Inputs, threads: int) -> PreparedCall:
        node = self._onnx.helper.make_node("Attention", ["q", "k", "v"], ["o"], is_causal=int(cell.causal))
        tensors = {"q": inputs.q, "k": inputs.k, "v": inputs.v}
        run = self._session(node, tensors, tuple(inputs.q.shape), dtype, threads, [("", ATTENTION_OPSET)])

        def to_tensor(outputs: Any) -> torch.Tensor:
            tensor: torch.Tensor = torch.from_numpy(outputs[0])
            return tensor

        return PreparedCall(run, to_tensor, note="Attention")

    def _multi_head_attention(self, cell: Cell, dtype: str, inputs: Inputs, threads: int) -> PreparedCall:
        if cell.gqa_group > 1:
            raise NotAvailable("MultiHeadAttention has no GQA")
        node = self._onnx.helper.make_node(
            "MultiHeadAttention", ["q", "k", "v"], ["o"], domain="com.microsoft", num_heads=cell.q_heads,
            unidirectional=int(cell.causal),
        )  # fmt: skip

        def flat(tensor: torch.Tensor) -> torch.Tensor:  # (batch, heads, length, dim) -> (batch, length, heads * dim)
            return tensor.transpose(1, 2).flatten(2).contiguous()

        tensors = {"q": flat(inputs.q), "k": flat(inputs.k), "v": flat(inputs.v)}
        opsets = [("", ATTENTION_OPSET), ("com.microsoft", 1)]
        run = self._session(node, tensors, tuple(tensors["q"].shape), dtype, threads, opsets)

        def to_tensor(outputs: Any) -> torch.Tensor:
            heads: torch.Tensor = torch.from_numpy(outputs[0]).unflatten(2, (cell.q_heads, cell.head_dim))
            return heads.transpose(1, 2)

        return PreparedCall(run, to_tensor, note="MultiHeadAttention")

    def _session(
        self,
        node: Any,
        tensors: dict[str, torch.Tensor],
        output_shape: tuple[int, ...],
        dtype: str,
        threads: int,
        opsets: list[tuple[str, int]],
    ) -> Any:
        helper, onnx = self._onnx.helper, self._onnx
        element = onnx.TensorProto.FLOAT16 if dtype == "fp16" else onnx.TensorProto.FLOAT
        graph = helper.make_graph(
            [node],
            "attention",
            [helper.make_tensor_value_info(name, element, list(tensor.shape)) for name, tensor in tensors.items()],
            [helper.make_tensor_value_info("o", element, list(output_shape))],
        )
        model = helper.make_model(
            graph, opset_imports=[helper.make_opsetid(domain, version) for domain, version in opsets]
        )
        model.ir_version = IR_VERSION
        options = self._runtime.SessionOptions()
        options.intra_op_num_threads = threads
        options.log_severity_level = 4
        try:
            session = self._runtime.InferenceSession(
                model.SerializeToString(), options, providers=["CPUExecutionProvider"]
            )
        except Exception as error:  # onnxruntime's exceptions have no common base but Exception
            raise NotAvailable(f"onnxruntime {node.op_type}, {dtype}: {str(error).splitlines()[0][:160]}") from error
        feed = {name: tensor.numpy() for name, tensor in tensors.items()}
        return lambda: session.run(None, feed)
