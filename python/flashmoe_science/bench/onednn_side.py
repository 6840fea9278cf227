"""oneDNN's decode: matmul, softmax, matmul over all heads, through oneDNN 3's own C API.

There is no Python binding of these primitives, but the library's C functions are stable within version 3 and ctypes can
call them: `pip install onednn-cpu-gomp` is enough. With GQA the query heads of a group are the rows of one product,
which is the best form this peer has.
"""

from __future__ import annotations

import ctypes
import functools
import os
import sys
from collections.abc import Callable, Sequence
from ctypes import c_float, c_int, c_int64, c_void_p
from pathlib import Path
from typing import cast

import torch

from .cells import Cell
from .implementation import TORCH_DTYPES, Inputs, NotAvailable, PreparedCall

ENVIRONMENT_VARIABLE = "FLASHMOE_ONEDNN"
# Values of dnnl_types.h, the same in all of version 3.
CPU, IN_ORDER_STREAM, FORWARD_INFERENCE = 1, 1, 96
ELTWISE_LINEAR, SOFTMAX_ACCURATE = 0x26, 0x30000
DATA_TYPES = {"fp16": 1, "bf16": 2, "fp32": 3}
ARG_SRC, ARG_DST, ARG_WEIGHTS = 1, 17, 33


class ExecutionArgument(ctypes.Structure):
    _fields_ = [("arg", c_int), ("memory", c_void_p)]


class OneDnnDecode:
    name = "onednn"
    isa = ""

    def __init__(self, path: str | None = None) -> None:
        explicit = path or os.environ.get(ENVIRONMENT_VARIABLE)
        candidate = explicit or str(Path(sys.prefix) / "lib" / "libdnnl.so.3")
        try:
            self._library = ctypes.CDLL(candidate)
        except OSError as error:
            raise NotAvailable(
                f"--peers onednn: {error}; pip install onednn-cpu-gomp, or name oneDNN 3's libdnnl.so with --onednn"
            ) from error
        version = ctypes.cast(self._function("dnnl_version", c_void_p)(), ctypes.POINTER(c_int))
        self.version = ".".join(str(version[i]) for i in range(3))
        if version[0] != 3:
            raise NotAvailable(f"--peers onednn: {candidate} is version {self.version}; version 3 is needed")
        self._engine = self._make("dnnl_engine_create", c_int(CPU), ctypes.c_size_t(0))
        self._stream = self._make("dnnl_stream_create", self._engine, c_int(IN_ORDER_STREAM))

    def _function(self, name: str, result: type | None = c_int) -> Callable[..., int]:
        function = getattr(self._library, name)
        function.restype = result
        return cast(Callable[..., int], function)

    def _make(self, function: str, *arguments: object) -> c_void_p:
        """Calls a dnnl_..._create function and returns what it made."""
        made = c_void_p()
        self._call(function, ctypes.byref(made), *arguments)
        return made

    def _call(self, function: str, *arguments: object) -> None:
        status = self._function(function)(*arguments)
        if status != 0:
            raise NotAvailable(f"oneDNN: {function} answers {status}")

    def _description(self, shape: Sequence[int], strides: Sequence[int], dtype: str) -> c_void_p:
        rank = len(shape)
        return self._make(
            "dnnl_memory_desc_create_with_strides", c_int(rank), (c_int64 * rank)(*shape), c_int(DATA_TYPES[dtype]),
            (c_int64 * rank)(*strides),
        )  # fmt: skip

    def _primitive(self, description: c_void_p, arguments: dict[int, c_void_p]) -> Callable[[], int]:
        primitive = self._make("dnnl_primitive_create", description)
        packed = (ExecutionArgument * len(arguments))()
        for slot, (argument, memory) in zip(packed, arguments.items(), strict=True):
            slot.arg, slot.memory = argument, memory.value
        execute = self._function("dnnl_primitive_execute")
        return functools.partial(execute, primitive, self._stream, c_int(len(arguments)), packed)

    def _scale_attribute(self, factor: float) -> c_void_p:
        post_ops = self._make("dnnl_post_ops_create")
        self._call("dnnl_post_ops_append_eltwise", post_ops, c_int(ELTWISE_LINEAR), c_float(factor), c_float(0.0))
        attribute = self._make("dnnl_primitive_attr_create")
        self._call("dnnl_primitive_attr_set_post_ops", attribute, post_ops)
        return attribute

    def prepare(self, cell: Cell, dtype: str, inputs: Inputs, threads: int) -> PreparedCall:
        if cell.kind != "decode":
            raise NotAvailable("the oneDNN peer is for decode: its primitives do not fuse prefill")
        torch.set_num_threads(threads)  # the same OpenMP runtime
        heads, group, keys, dim = cell.batch * cell.kv_heads, cell.gqa_group, cell.kv_len, cell.head_dim
        scores = torch.empty(heads, group, keys)  # fp32
        weights = torch.empty(heads, group, keys, dtype=TORCH_DTYPES[dtype])
        output = torch.empty(inputs.q.shape, dtype=TORCH_DTYPES[dtype])

        def rows(length: int, width: int) -> tuple[list[int], list[int]]:
            return [heads, length, width], [length * width, width, 1]

        described = {
            "q": self._description(*rows(group, dim), dtype),
            "k": self._description([heads, dim, keys], [keys * dim, 1, dim], dtype),  # K transposed, in place
            "v": self._description(*rows(keys, dim), dtype),
            "scores": self._description(*rows(group, keys), "fp32"),
            "weights": self._description(*rows(group, keys), dtype),
            "output": self._description(*rows(group, dim), dtype),
        }
        tensors = {
            "q": inputs.q, "k": inputs.k, "v": inputs.v, "scores": scores, "weights": weights, "output": output
        }  # fmt: skip
        memory = {
            name: self._make("dnnl_memory_create", description, self._engine, c_void_p(tensors[name].data_ptr()))
            for name, description in described.items()
        }
        score_product = self._make(
            "dnnl_matmul_primitive_desc_create", self._engine, described["q"], described["k"], None,
            described["scores"], self._scale_attribute(dim**-0.5),
        )  # fmt: skip
        softmax = self._make(
            "dnnl_softmax_forward_primitive_desc_create", self._engine, c_int(FORWARD_INFERENCE),
            c_int(SOFTMAX_ACCURATE), described["scores"], described["weights"], c_int(2), None,
        )  # fmt: skip
        value_product = self._make(
            "dnnl_matmul_primitive_desc_create", self._engine, described["weights"], described["v"], None,
            described["output"], None,
        )  # fmt: skip
        steps: list[Callable[[], int]] = [
            self._primitive(
                score_product, {ARG_SRC: memory["q"], ARG_WEIGHTS: memory["k"], ARG_DST: memory["scores"]}
            ),
            self._primitive(softmax, {ARG_SRC: memory["scores"], ARG_DST: memory["weights"]}),
            self._primitive(
                value_product, {ARG_SRC: memory["weights"], ARG_WEIGHTS: memory["v"], ARG_DST: memory["output"]}
            ),
            functools.partial(self._function("dnnl_stream_wait"), self._stream),
        ]

        def run() -> torch.Tensor:
            for step in steps:
                if step() != 0:
                    raise RuntimeError("oneDNN: a primitive failed")
            return output

        run.memory = tensors  # type: ignore[attr-defined]  # what the raw pointers point to
        return PreparedCall(run, lambda result: result)  # type: ignore[arg-type,return-value]
