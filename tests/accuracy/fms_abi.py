"""The C ABI of flashmoe.h and the oracle's, for ctypes."""

from __future__ import annotations

import ctypes
import importlib.util
from ctypes import byref, c_char_p, c_size_t, c_void_p
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from flashmoe_science.bench import abi
else:  # the file alone: the package wants to be installed
    _mirror = Path(__file__).parents[2] / "python" / "flashmoe_science" / "bench" / "abi.py"
    _spec = importlib.util.spec_from_file_location("flashmoe_abi", _mirror)
    abi = importlib.util.module_from_spec(_spec)
    _spec.loader.exec_module(abi)

CPU, CUDA = abi.DEVICE_CPU, abi.DEVICE_CUDA
ISAS = {"scalar": abi.ISA_SCALAR, "avx2": abi.ISA_AVX2, "avx512": abi.ISA_AVX512, "amx": abi.ISA_AMX}
DTYPES = {"fp16": abi.F16, "bf16": abi.BF16, "fp32": abi.F32}
LSE, BIAS, SINKS, RAGGED_Q, RAGGED_KV = abi.LSE, abi.BIAS, abi.SINKS, abi.RAGGED_Q, abi.RAGGED_KV
KV_LENGTHS, PAGED_KV, WORKSPACE_ALIGNMENT = abi.KV_LENGTHS, abi.PAGED_KV, abi.WORKSPACE_ALIGNMENT
Args, BiasStrides, ContextOptions, Error = abi.Args, abi.BiasStrides, abi.ContextOptions, abi.Error
Plan, PlanOptions, Problem, RunInfo, Strides = abi.Plan, abi.PlanOptions, abi.Problem, abi.RunInfo, abi.Strides


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
        args.info = ctypes.addressof(info)
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
