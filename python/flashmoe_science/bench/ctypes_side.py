"""libflashmoe.so through ctypes: the C library without the Python package.

The plan, the workspace and the output are made once; a call is fms_attention_run alone. That favours it by a few
microseconds over a side that allocates its output, and ctypes costs it about one: for tiny cells use the package.
"""

from __future__ import annotations

import ctypes
import functools
from ctypes import POINTER, byref, c_char_p, c_int, c_int64, c_size_t, c_void_p

import torch

from .abi import BF16, F16, F32, OK, WORKSPACE_ALIGNMENT, Args, Error, Plan, PlanOptions, Problem
from .cells import Cell
from .implementation import TORCH_DTYPES, Inputs, NotAvailable, PreparedCall

FMS_DTYPES = {"fp16": F16, "bf16": BF16, "fp32": F32}


class CLibrary:
    def __init__(self, path: str) -> None:
        try:
            self._library = ctypes.CDLL(path)
        except OSError as error:
            raise NotAvailable(f"--impl ctypes: cannot load the library: {error}") from error
        self.name = "libflashmoe"
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
                f"--impl ctypes: the library's problem has {problem.contents.struct_size} bytes, this program's "
                f"{ctypes.sizeof(Problem)}: they are of different versions"
            )

    def prepare(self, cell: Cell, dtype: str, inputs: Inputs, threads: int) -> PreparedCall:
        if not cell.is_plain:
            raise NotAvailable("--impl ctypes runs plain cells only; this one needs the package")
        torch.set_num_threads(threads)
        library, error = self._library, Error()
        problem = Problem()
        library.fms_attention_problem_init(
            byref(problem), FMS_DTYPES[dtype], cell.batch, cell.q_heads, cell.kv_heads, cell.q_len, cell.kv_len,
            cell.head_dim,
        )  # fmt: skip
        if cell.causal:
            problem.window_right = 0
        options = PlanOptions(ctypes.sizeof(PlanOptions), threads, 0, 0)
        plan = Plan(struct_size=ctypes.sizeof(Plan))
        self._check(
            library.fms_attention_plan_make(self._context, byref(problem), byref(options), byref(plan), byref(error)),
            error,
        )
        output = torch.empty(inputs.q.shape, dtype=TORCH_DTYPES[dtype])
        storage = torch.empty(plan.workspace_bytes + WORKSPACE_ALIGNMENT, dtype=torch.uint8)
        workspace = (storage.data_ptr() + WORKSPACE_ALIGNMENT - 1) // WORKSPACE_ALIGNMENT * WORKSPACE_ALIGNMENT
        args = Args(
            struct_size=ctypes.sizeof(Args), q=inputs.q.data_ptr(), k=inputs.k.data_ptr(), v=inputs.v.data_ptr(),
            o=output.data_ptr(),
        )  # fmt: skip
        run = functools.partial(
            library.fms_attention_run, self._context, byref(plan), byref(args), c_void_p(workspace),
            c_size_t(plan.workspace_bytes), None, byref(error),
        )  # fmt: skip
        run.memory = (inputs, output, storage)  # type: ignore[attr-defined]  # what the raw pointers point to

        def to_tensor(status: object) -> torch.Tensor:
            self._check(int(status), error)  # type: ignore[call-overload]
            return output

        text = ctypes.create_string_buffer(library.fms_plan_explain(byref(plan), None, 0) + 1)
        library.fms_plan_explain(byref(plan), text, len(text))
        return PreparedCall(run, to_tensor, note=text.value.decode())
