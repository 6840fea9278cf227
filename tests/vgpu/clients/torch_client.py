"""The stock PyTorch wheel on the virtual GPU: tensors, streams, events, a graph, matrix products by cuBLAS, and Triton
kernels on CUDA tensors.

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


def matrix_products() -> None:
    """What torch asks of cuBLAS and cublasLt, against the CPU's; numbers that are exact in all types."""
    for dtype in (torch.float64, torch.float32, torch.float16, torch.bfloat16):
        a, b = (torch.randint(-2, 3, shape).to(dtype) for shape in ((33, 70), (70, 19)))
        many_a, many_b = (torch.randint(-2, 3, shape).to(dtype) for shape in ((3, 5, 70), (3, 70, 9)))
        weight, bias = (torch.randint(-2, 3, shape).to(dtype) for shape in ((40, 70), (40,)))

        def here(x: torch.Tensor) -> torch.Tensor:
            return x.cuda()

        assert torch.equal(torch.mm(here(a), here(b)).cpu(), torch.mm(a, b)), dtype
        assert torch.equal(torch.mm(here(b).t(), here(a).t()).cpu(), torch.mm(b.t(), a.t())), dtype
        assert torch.equal(torch.bmm(here(many_a), here(many_b)).cpu(), torch.bmm(many_a, many_b)), dtype
        linear = torch.nn.functional.linear
        assert torch.equal(linear(here(a), here(weight), here(bias)).cpu(), linear(a, weight, bias)), dtype
        assert torch.equal(torch.dot(here(a[0]), here(a[1])).cpu(), torch.dot(a[0], a[1])), dtype

    out = torch.zeros(33, 19, device="cuda")
    a, b = torch.randint(-2, 3, (33, 70)).float(), torch.randint(-2, 3, (70, 19)).float()
    here_a, here_b = a.cuda(), b.cuda()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        torch.mm(here_a, here_b, out=out)
    assert not out.cpu().any(), "done while it was captured"
    graph.replay()
    assert torch.equal(out.cpu(), a @ b)


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

    matrix_products()

    try:
        here_x + here_y
    except RuntimeError as error:
        assert "no kernel image" in str(error), error
    else:
        raise AssertionError("SASS ran")
    print(f"torch {torch.__version__}, triton {triton.__version__}: all hold")


main()
