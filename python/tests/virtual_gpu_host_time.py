"""Run by test_virtual_gpu.py: what a call on CUDA tensors costs on the host, S=128, beside torch's own attention.

The tensors are on the virtual GPU; launches do nothing, ours by the counting driver, torch's by a library that is
preloaded. Prints one JSON object.

    virtual_gpu_host_time.py COUNTING_DRIVER EMPTY_LAUNCHES
"""

import ctypes
import json
import statistics
import sys
import time
from collections.abc import Callable

import torch
from torch.nn.functional import scaled_dot_product_attention

import flashmoe_science as fs

BLOCKS, CALLS = 21, 200


def block(call: Callable[[], object]) -> float:
    """Microseconds of a call."""
    begin = time.perf_counter_ns()
    for _ in range(CALLS):
        call()
    return (time.perf_counter_ns() - begin) / 1000 / CALLS


def main() -> None:
    counting, empty = ctypes.CDLL(sys.argv[1]), ctypes.CDLL(sys.argv[2])
    q, k, v = (torch.empty(1, 1, 128, 64, dtype=torch.float16, device="cuda") for _ in range(3))
    calls = {"ours": lambda: fs.attention(q, k, v), "torch": lambda: scaled_dot_product_attention(q, k, v)}
    with torch.inference_mode():
        for call in calls.values():
            block(call)
        before = empty.empty_launches()
        calls["torch"]()
        launched = empty.empty_launches() - before
        before = torch.cuda.memory_stats()["allocation.all.allocated"]
        counting.counting_driver_reset()
        calls["ours"]()
        asked = ("cuLaunchKernel", "cuCtxGetCurrent", "cuCtxPushCurrent_v2", "cuCtxPopCurrent_v2")
        counts = {name: counting.counting_driver_calls(name.encode()) for name in asked}
        counts["all"] = counting.counting_driver_all_calls()
        allocations = torch.cuda.memory_stats()["allocation.all.allocated"] - before
        # In turns: a neighbour slows both.
        times = {name: [] for name in calls}
        for _ in range(BLOCKS):
            for name, call in calls.items():
                times[name].append(block(call))
    print(
        json.dumps(
            {
                **{name: statistics.median(blocks) for name, blocks in times.items()},
                "ratio": statistics.median(a / b for a, b in zip(times["ours"], times["torch"], strict=True)),
                "torch_launches": launched,
                "driver_calls": counts,
                "allocations": allocations,
            }
        )
    )


if __name__ == "__main__":
    main()
