"""Attention over keys that are spread over processes, by torch.distributed: gloo here, NCCL where there are GPUs.

    python examples/distributed/sharded_attention.py [processes ...]        # 2 and 4 unless given

Prefill: every process has a part of one long sequence, and keys and values go round in a ring. While the next part is
on its way, a process attends to the one it has. Decode: every process has a part of the keys of all sequences and the
same queries, and the partial results meet. Both merge partial results exactly, in fp32, by their log-sum-exp.
"""

import os
import sys
import tempfile

import torch
import torch.distributed as dist
from torch import Tensor

import flashmoe_science as fms

Partial = tuple[Tensor, Tensor]  # fp32 result (batch, heads, rows, dim), log-sum-exp (batch, heads, rows)


def send_to_next(tensors: list[Tensor]) -> tuple[list[Tensor], list[dist.Work]]:
    """What comes from the previous process, and what to wait for before it is read."""
    rank, world = dist.get_rank(), dist.get_world_size()
    received = [torch.empty_like(tensor) for tensor in tensors]
    exchange = [dist.P2POp(dist.isend, tensor, (rank + 1) % world) for tensor in tensors]
    exchange += [dist.P2POp(dist.irecv, tensor, (rank - 1) % world) for tensor in received]
    return received, dist.batch_isend_irecv(exchange)


def ring_prefill(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Causal attention of this process's rows to all rows before them; part r of the sequence is in process r."""
    rank, world = dist.get_rank(), dist.get_world_size()
    result: Partial = fms.attention(q, k, v, causal=True, partial=True, return_lse=True)
    here = [k.contiguous(), v.contiguous()]
    for step in range(1, world):
        there, transfers = send_to_next(here)
        for transfer in transfers:
            transfer.wait()
        here = there
        if rank - step >= 0:  # a part before this one: all of it is seen
            part: Partial = fms.attention(q, *here, partial=True, return_lse=True)
            result = fms.merge_states(*result, *part)
    return result[0].to(q.dtype)


def sharded_decode(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Attention of the same queries, in every process, to keys of which each process has its own."""
    mine: Partial = fms.attention(q, k, v, partial=True, return_lse=True)
    parts = [[torch.empty_like(x) for _ in range(dist.get_world_size())] for x in mine]
    for gathered, x in zip(parts, mine, strict=True):
        dist.all_gather(gathered, x)
    result, *others = zip(*parts, strict=True)
    for other in others:  # in the same order everywhere: all processes have the same bits
        result = fms.merge_states(*result, *other)
    return result[0].to(q.dtype)


# ---- a trial: every process knows the whole, and compares its part with it ---------------------------------------


def error_of(ours: Tensor, q: Tensor, k: Tensor, v: Tensor, **options: bool) -> tuple[float, float]:
    """How far ours and the undivided result are from the same in float32."""
    whole = fms.attention(q, k, v, **options)
    exact = fms.attention(q.float(), k.float(), v.float(), **options)
    rows = ours.shape[2]
    begin = dist.get_rank() * rows if options else 0
    mine = slice(begin, begin + rows)
    return tuple((x - exact[:, :, mine]).abs().max().item() for x in (ours.float(), whole[:, :, mine].float()))


def run(rank: int, world: int, store: str) -> None:
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=world)
    torch.set_num_threads(1)
    torch.manual_seed(1)
    length, heads, kv_heads, dim = 512, 8, 2, 64
    q, k, v = (torch.randn(1, h, length, dim).bfloat16() for h in (heads, kv_heads, kv_heads))
    step = length // world
    mine = slice(rank * step, (rank + 1) * step)
    prefill = ring_prefill(q[:, :, mine], k[:, :, mine], v[:, :, mine])
    decode = sharded_decode(q[:, :, -1:], k[:, :, mine], v[:, :, mine])
    for name, (error, whole) in {
        "ring prefill": error_of(prefill, q, k, v, causal=True),
        "sharded decode": error_of(decode, q[:, :, -1:], k, v),
    }.items():
        # bf16 has 8 bits; both results are of one rounding each, and of weights in bf16 on AMX.
        fits = error <= 2 * max(whole, 2**-8)
        print(f"process {rank} of {world}, {name}: error {error:.1e}, undivided {whole:.1e}", flush=True)
        if not fits:
            raise SystemExit(f"{name} is not as exact as the undivided result")
    dist.destroy_process_group()


def main() -> int:
    for world in [int(argument) for argument in sys.argv[1:]] or [2, 4]:
        with tempfile.TemporaryDirectory() as folder:
            # Forked before any thread was started: torch is imported once.
            torch.multiprocessing.start_processes(
                run, (world, os.path.join(folder, "store")), nprocs=world, start_method="fork"
            )
    return 0


if __name__ == "__main__":
    sys.exit(main())
