"""The C ABI of flashmoe.h for ctypes, and the oracle's. Mirrors the structs field by field; nothing else."""

from __future__ import annotations

import ctypes
from ctypes import POINTER, byref, c_char, c_char_p, c_float, c_int32, c_int64, c_size_t, c_uint32, c_uint64, c_void_p
from pathlib import Path
from typing import Any

CPU, CUDA = 0, 1
ISAS = {"scalar": 1, "avx2": 2, "avx512": 3, "amx": 4}
DTYPES = {"fp16": 1, "bf16": 2, "fp32": 3}
LSE, BIAS, SINKS, RAGGED_Q, RAGGED_KV, KV_LENGTHS, PAGED_KV = (1 << bit for bit in range(7))
WORKSPACE_ALIGNMENT = 64


class Error(ctypes.Structure):
    _fields_ = [("code", c_int32), ("argument", c_char * 48), ("message", c_char * 464)]


class ContextOptions(ctypes.Structure):
    _fields_ = [
        ("struct_size", c_uint32),
        ("device_kind", c_int32),
        ("device_index", c_int32),
        ("cpu_isa", c_int32),
    ]


class Strides(ctypes.Structure):
    _fields_ = [("batch", c_int64), ("head", c_int64), ("seq", c_int64)]


class BiasStrides(ctypes.Structure):
    _fields_ = [("batch", c_int64), ("head", c_int64), ("q", c_int64), ("kv", c_int64)]


class Problem(ctypes.Structure):
    _fields_ = [
        ("struct_size", c_uint32),
        ("dtype", c_int32),
        ("features", c_uint32),
        ("bias_dtype", c_int32),
        ("batch", c_int64),
        ("q_heads", c_int64),
        ("kv_heads", c_int64),
        ("q_len", c_int64),
        ("kv_len", c_int64),
        ("head_dim", c_int64),
        ("q", Strides),
        ("k", Strides),
        ("v", Strides),
        ("o", Strides),
        ("lse", Strides),
        ("softmax_scale", c_float),
        ("softcap", c_float),
        ("window_left", c_int64),
        ("window_right", c_int64),
        ("bias", BiasStrides),
        ("total_q", c_int64),
        ("total_kv", c_int64),
        ("page_size", c_int64),
        ("page_count", c_int64),
        ("block_table_stride", c_int64),
    ]


class PlanOptions(ctypes.Structure):
    _fields_ = [("struct_size", c_uint32), ("threads", c_int32), ("kv_splits", c_int32), ("q_tile", c_int32)]


class Plan(ctypes.Structure):
    _fields_ = [
        ("struct_size", c_uint32),
        ("version", c_uint32),
        ("fingerprint", c_uint64),
        ("device_kind", c_int32),
        ("cpu_isa", c_int32),
        ("family", c_int32),
        ("pack", c_int32),
        ("threads", c_int32),
        ("kv_splits", c_int32),
        ("q_tile", c_int32),
        ("kv_tile", c_int32),
        ("instance", c_int32),
        ("kernel_head_dim", c_int32),
        ("sm_count", c_int32),
        ("ctas_per_sm", c_int32),
        ("work_items", c_int64),
        ("workspace_bytes", c_uint64),
        ("thread_bytes", c_uint64),
        ("problem", Problem),
    ]


class RunInfo(ctypes.Structure):
    _fields_ = [("cpu_isa", c_int32), ("family", c_int32), ("threads", c_int32), ("kv_splits", c_int32)]


class Args(ctypes.Structure):
    _fields_ = [
        ("struct_size", c_uint32),
        ("flags", c_uint32),
        ("q", c_void_p),
        ("k", c_void_p),
        ("v", c_void_p),
        ("o", c_void_p),
        ("lse", c_void_p),
        ("bias", c_void_p),
        ("sinks", c_void_p),
        ("cu_q", c_void_p),
        ("cu_kv", c_void_p),
        ("kv_lengths", c_void_p),
        ("block_table", c_void_p),
        ("info", POINTER(RunInfo)),
    ]


class FlashmoeError(RuntimeError):
    """A call that did not answer FMS_OK."""


class Library:
    """libflashmoe.so with a context for one device: a CPU's ISA, or a GPU whose CUDA context is current."""

    def __init__(self, path: Path, isa: str = "", device_kind: int = CPU, device_index: int = 0) -> None:
        self._lib = ctypes.CDLL(str(path))
        self._lib.fms_attention_run.argtypes = [c_void_p, c_void_p, c_void_p, c_void_p, c_size_t, c_void_p, c_void_p]
        self._lib.fms_plan_explain.argtypes = self._lib.fms_plan_json.argtypes = [c_void_p, c_char_p, c_size_t]
        self._lib.fms_plan_explain.restype = self._lib.fms_plan_json.restype = c_size_t
        self._lib.fms_context_destroy.argtypes = [c_void_p]
        self._lib.fms_context_destroy.restype = None
        self._context = c_void_p()
        options = ContextOptions(ctypes.sizeof(ContextOptions), device_kind, device_index, ISAS.get(isa, 0))
        error = Error()
        if self._lib.fms_context_create(byref(options), byref(self._context), byref(error)) != 0:
            raise FlashmoeError(error.message.decode())

    def close(self) -> None:
        self._lib.fms_context_destroy(self._context)
        self._context = c_void_p()

    def plan(self, problem: Problem, threads: int = 0, kv_splits: int = 0, q_tile: int = 0) -> Plan:
        """Zero: the planner chooses."""
        error, plan = Error(), Plan()
        options = PlanOptions(ctypes.sizeof(PlanOptions), threads, kv_splits, q_tile)
        if self._lib.fms_attention_plan_make(self._context, byref(problem), byref(options), byref(plan), byref(error)):
            raise FlashmoeError(error.message.decode())
        return plan

    def run(self, plan: Plan, args: Args, workspace: int, stream: int = 0) -> RunInfo:
        """workspace: the address of plan.workspace_bytes in the device's memory."""
        error, info = Error(), RunInfo()
        args.info = ctypes.pointer(info)
        where = (workspace or None, plan.workspace_bytes, stream or None)
        if self._lib.fms_attention_run(self._context, byref(plan), byref(args), *where, byref(error)) != 0:
            raise FlashmoeError(error.message.decode())
        return info

    def explain(self, plan: Plan) -> str:
        return self._text(self._lib.fms_plan_explain, plan)

    def json(self, plan: Plan) -> str:
        return self._text(self._lib.fms_plan_json, plan)

    @staticmethod
    def _text(write: Any, plan: Plan) -> str:
        text = ctypes.create_string_buffer(write(byref(plan), None, 0) + 1)
        write(byref(plan), text, len(text))
        return text.value.decode()

    def attention(self, problem: Problem, args: Args, threads: int) -> RunInfo:
        """On the CPU, where every address is this process's."""
        plan = self.plan(problem, threads)
        memory = ctypes.create_string_buffer(plan.workspace_bytes + WORKSPACE_ALIGNMENT)
        address = -(-ctypes.addressof(memory) // WORKSPACE_ALIGNMENT) * WORKSPACE_ALIGNMENT
        return self.run(plan, args, address)


class Oracle:
    """libfms_oracle.so: the fp64 reference."""

    def __init__(self, path: Path) -> None:
        self._lib = ctypes.CDLL(str(path))
        self._lib.fms_oracle_attention.argtypes = [c_void_p] * 4
        self._lib.fms_oracle_attention.restype = None

    def attention(self, problem: Problem, args: Args, o: int, lse: int) -> None:
        """o and lse: addresses of dense doubles, (B, H, S, D) and (B, H, S)."""
        self._lib.fms_oracle_attention(byref(problem), byref(args), o, lse)
