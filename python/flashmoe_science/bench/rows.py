"""Rows of sequences of several lengths: packed one behind the other, and keys and values in pages."""

from __future__ import annotations

import functools

import torch

from .cells import Cell

PAGE_SIZE = 128


def row_starts(cell: Cell, side: int) -> torch.Tensor:
    """Where each sequence's queries (side 0) or keys (1) begin, and where the last one's end."""
    lengths = torch.tensor([0] + [sequence[side] for sequence in cell.sequences])
    return lengths.cumsum(0).int()


def packed_rows(cell: Cell, tensor: torch.Tensor, side: int) -> torch.Tensor:
    """(batch, heads, length, dim) -> (rows of all sequences, heads, dim)."""
    rows = [tensor[b, :, : sequence[side]] for b, sequence in enumerate(cell.sequences)]
    return torch.cat(rows, dim=1).transpose(0, 1).contiguous()


def kv_lengths(cell: Cell) -> torch.Tensor:
    return torch.tensor([kv_len for _, kv_len in cell.sequences], dtype=torch.int32)


def padded_rows(cell: Cell, packed: torch.Tensor) -> torch.Tensor:
    """The way back for outputs, with 0 where a sequence has no row."""
    result = packed.new_zeros(cell.batch, cell.q_heads, cell.q_len, packed.shape[-1])
    starts = row_starts(cell, 0).tolist()
    for b, (q_len, _) in enumerate(cell.sequences):
        result[b, :, :q_len] = packed[starts[b] : starts[b + 1]].transpose(0, 1)
    return result


@functools.lru_cache(maxsize=1)
def paged(cell: Cell, k: torch.Tensor, v: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Keys and values as (pages, heads, PAGE_SIZE, dim), and the block table. Pages lie in a random order.

    Sides that read the same form read the same memory: where pages lie makes a tenth of a call's time.
    """
    counts = [-(-kv_len // PAGE_SIZE) for _, kv_len in cell.sequences]
    order = torch.randperm(sum(counts), generator=torch.Generator().manual_seed(7)).int()
    table = torch.zeros(cell.batch, max(counts), dtype=torch.int32)
    shape = (sum(counts), cell.kv_heads, PAGE_SIZE, cell.head_dim)
    k_pages, v_pages = k.new_zeros(shape), v.new_zeros(shape)
    used = 0
    for b, (_, kv_len) in enumerate(cell.sequences):
        for i in range(counts[b]):
            page = table[b, i] = order[used]
            used += 1
            rows = slice(i * PAGE_SIZE, min((i + 1) * PAGE_SIZE, kv_len))
            k_pages[page, :, : rows.stop - rows.start] = k[b, :, rows]
            v_pages[page, :, : rows.stop - rows.start] = v[b, :, rows]
    return k_pages, v_pages, table


def slots_of_new_keys(cell: Cell, block_table: torch.Tensor) -> torch.Tensor:
    """Where in the pages the last keys of each sequence are, one for each of its queries."""
    slots = []
    for b, (q_len, kv_len) in enumerate(cell.sequences):
        keys = torch.arange(kv_len - q_len, kv_len)
        slots.append(block_table[b, keys // PAGE_SIZE].long() * PAGE_SIZE + keys % PAGE_SIZE)
    return torch.cat(slots)
