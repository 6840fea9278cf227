"""Where a problem can run: an ISA of this machine's CPU, or a GPU behind a driver. Both go through the C ABI."""

from __future__ import annotations

import json
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import fms_abi as abi
import torch
from device_buffer import Buffer, Gpu
from gpu_problems import Forced
from random_attention import AttentionProblem

ADDRESS_STEP = 16  # the kernels choose their loads by addresses modulo this


class CpuTarget:
    def __init__(self, library: Path, isa: str) -> None:
        self._library = abi.Library(library, isa)

    def run(self, one: AttentionProblem, _forced: Forced) -> str:
        """Results in one.o and one.lse. Answers with how it ran."""
        info = self._library.attention(one.problem, one.args, one.threads)
        return f"family {info.family}, kv_splits {info.kv_splits}"


class GpuTarget:
    """Copies a problem to the device, each tensor at the same distance from a multiple of 16 bytes, and back."""

    def __init__(self, library: Path, device: str, virtual_driver: Path) -> None:
        self.gpu = Gpu(device, virtual_driver)
        self.library = abi.Library(library, device_kind=abi.CUDA, device_index=self.gpu.device_index)

    def run(self, one: AttentionProblem, forced: Forced) -> str:
        plan = self.library.plan(one.problem, kv_splits=forced.kv_splits, q_tile=forced.q_tile)
        with ExitStack() as frees:
            args = abi.Args(struct_size=one.args.struct_size)
            there: dict[str, tuple[Buffer, int]] = {}
            for name, tensor in one.tensors.items():
                at = tensor.data_ptr() % ADDRESS_STEP
                buffer = frees.enter_context(self.gpu.buffer(at + span_bytes(tensor)))
                buffer.write(tensor.data_ptr(), span_bytes(tensor), at)
                setattr(args, name, buffer.address + at)
                there[name] = buffer, at
            # Not filled: a read of what the kernel has not written is a finding.
            workspace = frees.enter_context(self.gpu.buffer(plan.workspace_bytes, fill=None))
            self.library.run(plan, args, workspace.address if plan.workspace_bytes else 0)
            self.gpu.synchronize()
            for name in ("o", "lse"):
                buffer, at = there[name]
                buffer.read(one.tensors[name].data_ptr(), span_bytes(one.tensors[name]), at)
        self._raise_findings(self.gpu.reports())
        return f"q_tile {plan.q_tile}, kv_splits {plan.kv_splits}"

    def _raise_findings(self, reports: list[dict[str, Any]]) -> None:
        found = [finding for report in reports for finding in report["findings"]]
        if found:
            raise abi.FlashmoeError(f"{len(found)} findings, the first: {json.dumps(found[0])[:600]}")
        if self.gpu.is_virtual and not reports:
            raise abi.FlashmoeError("the virtual GPU reported no launch")


def span_bytes(tensor: torch.Tensor) -> int:
    """From the first element's first byte to the last one's last."""
    if tensor.numel() == 0:
        return 0
    last = sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True))
    return (last + 1) * tensor.element_size()
