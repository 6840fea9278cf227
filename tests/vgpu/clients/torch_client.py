"""The stock PyTorch wheel on the virtual GPU: tensors, streams, events, a graph, and Triton kernels on CUDA tensors.

    torch_client.py PACKAGES     PACKAGES: where Triton is, in another environment

ATen's own kernels are in the wheel as SASS only: what asks for one is told so, and nothing else breaks.
"""

# Triton reads the annotations of its kernels: what has none is a pointer or a number.
# ruff: noqa: ANN001, ANN201

from __future__ import annotations

import sys

sys.path.append(sys.argv[1])  # after what torch brings itself

import torch
import triton
import triton.language as tl
from triton_kernels import add_kernel

COUNT = 3000


@triton.jit
def row_sums_kernel(x_ptr, out_ptr, columns, BLOCK: tl.constexpr):
    offsets = tl.arange(0, BLOCK)
    row = tl.load(x_ptr + tl.program_id(0) * columns + offsets, mask=offsets < columns, other=0.0)
    tl.store(out_ptr + tl.program_id(0), tl.sum(row.to(tl.float32), axis=0))


def add(x: torch.Tensor, y: torch.Tensor, out: torch.Tensor) -> None:
    add_kernel[(triton.cdiv(COUNT, 1024),)](x, y, out, COUNT, BLOCK=1024)


def main() -> None:
    assert torch.cuda.is_available()
    assert torch.cuda.device_count() == 1
    facts = torch.cuda.get_device_properties(0)
    assert "virtual" in facts.name, facts
    assert (facts.major, facts.minor, facts.multi_processor_count) == (8, 9, 58), facts

    x, y = torch.rand(COUNT), torch.rand(COUNT)
    here_x, here_y = x.cuda(), y.to("cuda:0")
    out = torch.empty_like(here_x)
    add(here_x, here_y, out)
    assert torch.equal(out.cpu(), x + y)

    half = torch.randn(7, 100, dtype=torch.float16)
    sums = torch.empty(7, device="cuda")
    row_sums_kernel[(7,)](half.cuda(), sums, 100, BLOCK=128)
    torch.testing.assert_close(sums.cpu(), half.float().sum(1), rtol=1e-5, atol=1e-4)

    stream, begin, end = torch.cuda.Stream(), *(torch.cuda.Event(enable_timing=True) for _ in range(2))
    out.zero_()
    with torch.cuda.stream(stream):
        begin.record()
        add(here_x, here_y, out)
        end.record()
    torch.cuda.synchronize()
    assert begin.elapsed_time(end) >= 0
    assert torch.equal(out.cpu(), x + y)

    graph = torch.cuda.CUDAGraph()
    out.zero_()
    with torch.cuda.graph(graph):
        add(here_x, here_y, out)
    assert not out.cpu().any(), "done while it was captured"
    here_x.copy_(y)
    graph.replay()
    assert torch.equal(out.cpu(), y + y)

    try:
        here_x + here_y
    except RuntimeError as error:
        assert "binary for gpu" in str(error), error
    else:
        raise AssertionError("SASS ran")
    print(f"torch {torch.__version__}, triton {triton.__version__}: tensors, streams, events, a graph, two kernels")


main()
