"""libflashmoe.so through ctypes: the C library without the Python package.

The plan, the workspace and the output are made once; a call is fms_attention_run alone. That favours it by a few
microseconds over a side that allocates its output, and ctypes costs it about one: for tiny cells use the package.
"""

from __future__ import annotations

import ctypes
import functools
import os
from ctypes import POINTER, byref, c_char_p, c_int, c_int64, c_size_t, c_void_p

import torch

from . import abi
from .abi import BF16, F16, F32, OK, WORKSPACE_ALIGNMENT, Args, Error, Plan, PlanOptions, Problem, Strides
from .cells import PAGED_KINDS, Cell
from .implementation import TORCH_DTYPES, Inputs, NotAvailable, PreparedCall
from .rows import PAGE_SIZE, kv_lengths, packed_rows, padded_rows, paged, row_starts

FMS_DTYPES = {"fp16": F16, "bf16": BF16, "fp32": F32}


class CLibrary:
    def __init__(self, path: str, name: str = "libflashmoe") -> None:
        try:
            self._library = ctypes.CDLL(os.path.abspath(path))
        except OSError as error:
            raise NotAvailable(f"{name}: cannot load the library: {error}") from error
        self.name = name
        library = self._library
        library.fms_version.restype = c_char_p
        library.fms_cpu_isa_name.restype = c_char_p
        library.fms_context_cpu_isa.argtypes = [c_void_p]
        library.fms_plan_explain.argtypes = [c_void_p, c_char_p, c_size_t]
        library.fms_plan_explain.restype = c_size_t
        library.fms_attention_problem_init.argtypes = [POINTER(Problem), c_int, *([c_int64] * 6)]
        self._context = c_void_p()
        error_text = Error()
        self._check(library.fms_context_create(None, byref(self._context), byref(error_text)), error_text)
        self.isa = library.fms_cpu_isa_name(library.fms_context_cpu_isa(self._context)).decode()
        self._refuse_other_layout()
        self.version = f"{library.fms_version().decode()} ({self.isa})"

    @staticmethod
    def _check(status: int, error: Error) -> None:
        if status != OK:
            raise NotAvailable(f"libflashmoe: {error.message.decode()} [{error.argument.decode()}]")

    def _refuse_other_layout(self) -> None:
        room = (ctypes.c_char * 4096)()
        problem = ctypes.cast(room, POINTER(Problem))
        self._library.fms_attention_problem_init(problem, FMS_DTYPES["fp32"], 1, 1, 1, 1, 1, 64)
        if problem.contents.struct_size != ctypes.sizeof(Problem):
            raise NotAvailable(
                f"{self.name}: the library's problem has {problem.contents.struct_size} bytes, this program's "
                f"{ctypes.sizeof(Problem)}: they are of different versions"
            )

    def prepare(self, cell: Cell, dtype: str, inputs: Inputs, threads: int) -> PreparedCall:
        is_paged = cell.kind in PAGED_KINDS
        if not (cell.is_plain or is_paged):
            raise NotAvailable(f"{self.name} runs plain and paged cells only; this one needs the package")
        torch.set_num_threads(threads)
        library, error = self._library, Error()
        problem = Problem()
        library.fms_attention_problem_init(
            byref(problem), FMS_DTYPES[dtype], cell.batch, cell.q_heads, cell.kv_heads, cell.q_len, cell.kv_len,
            cell.head_dim,
        )  # fmt: skip
        if cell.causal:
            problem.window_right = 0
        operands = self._paged_operands(cell, inputs, problem) if is_paged else _plain_operands(inputs)
        output = torch.empty(operands["q"].shape, dtype=TORCH_DTYPES[dtype])
        options = PlanOptions(ctypes.sizeof(PlanOptions), threads, 0, 0)
        plan = Plan(struct_size=ctypes.sizeof(Plan))
        self._check(
            library.fms_attention_plan_make(self._context, byref(problem), byref(options), byref(plan), byref(error)),
            error,
        )
        storage = torch.empty(plan.workspace_bytes + WORKSPACE_ALIGNMENT, dtype=torch.uint8)
        workspace = (storage.data_ptr() + WORKSPACE_ALIGNMENT - 1) // WORKSPACE_ALIGNMENT * WORKSPACE_ALIGNMENT
        pointers = {name: tensor.data_ptr() for name, tensor in operands.items()}
        args = Args(struct_size=ctypes.sizeof(Args), o=output.data_ptr(), **pointers)
        run = functools.partial(
            library.fms_attention_run, self._context, byref(plan), byref(args), c_void_p(workspace),
            c_size_t(plan.workspace_bytes), None, byref(error),
        )  # fmt: skip
        run.memory = (operands, output, storage)  # type: ignore[attr-defined]  # what the raw pointers point to

        def to_tensor(status: object) -> torch.Tensor:
            self._check(int(status), error)  # type: ignore[call-overload]
            return padded_rows(cell, output) if is_paged else output

        text = ctypes.create_string_buffer(library.fms_plan_explain(byref(plan), None, 0) + 1)
        library.fms_plan_explain(byref(plan), text, len(text))
        return PreparedCall(run, to_tensor, note=text.value.decode())

    @staticmethod
    def _paged_operands(cell: Cell, inputs: Inputs, problem: Problem) -> dict[str, torch.Tensor]:
        """Packed queries, keys and values in pages, as the package is asked (torch_side)."""
        q = packed_rows(cell, inputs.q, 0)
        k, v, block_table = paged(cell, inputs.k, inputs.v)
        problem.features |= abi.RAGGED_Q | abi.KV_LENGTHS | abi.PAGED_KV
        if cell.window:
            problem.window_left = cell.window - 1
        problem.total_q = q.shape[0]
        problem.q = problem.o = Strides(0, q.stride(1), q.stride(0))
        problem.k = problem.v = Strides(*k.stride()[:3])
        problem.page_size, problem.page_count = PAGE_SIZE, k.shape[0]
        problem.block_table_stride = block_table.stride(0)
        operands = {
            "q": q, "k": k, "v": v, "cu_q": row_starts(cell, 0), "kv_lengths": kv_lengths(cell),
            "block_table": block_table,
        }  # fmt: skip
        if inputs.sinks is not None:
            problem.features |= abi.SINKS
            operands["sinks"] = inputs.sinks
        return operands


def _plain_operands(inputs: Inputs) -> dict[str, torch.Tensor]:
    return {"q": inputs.q, "k": inputs.k, "v": inputs.v}
