"""The stock PyTorch wheel: device, tensors, streams, events, graphs, a C++ extension, and its operators on the CPU.

torch_suite.py CASES PACKAGES     PACKAGES: where Triton is, in another environment
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

os.environ["TORCH_CUDA_ARCH_LIST"] = "8.0+PTX"
sys.path.append(sys.argv[2])  # after what torch brings itself
sys.path += [str(Path(__file__).resolve().parents[4] / "python"), str(Path(__file__).resolve().parents[1])]

import torch
import triton
from cases import Suite
from torch.utils import cpp_extension
from triton_kernels import add_kernel

from cudadent.aten import AtenOnCpu

COUNT = 3000
TYPES = (
    torch.float32,
    torch.float64,
    torch.float16,
    torch.bfloat16,
    torch.int8,
    torch.int64,
    torch.bool,
    torch.complex64,
)
# What nvcc compiles knows nothing of torch, whose headers take it minutes.
KERNEL = r"""
__global__ void scaled(const float* x, float* out, float by, long count) {
  const long i = blockIdx.x * long(blockDim.x) + threadIdx.x;
  if (i < count) out[i] = by * x[i];
}
void scale_on_device(const float* x, float* out, float by, long count, cudaStream_t stream) {
  scaled<<<(count + 255) / 256, 256, 0, stream>>>(x, out, by, count);
}
"""
BINDING = r"""
#include <ATen/ops/empty_like.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/csrc/utils/pybind.h>
void scale_on_device(const float* x, float* out, float by, long count, cudaStream_t stream);
at::Tensor scale(const at::Tensor& x, double by) {
  TORCH_CHECK(x.is_cuda() && x.scalar_type() == at::kFloat && x.is_contiguous(), "a dense float tensor on the device");
  at::Tensor out = at::empty_like(x);
  scale_on_device(x.data_ptr<float>(), out.data_ptr<float>(), float(by), x.numel(), c10::cuda::getCurrentCUDAStream());
  C10_CUDA_CHECK(cudaGetLastError());
  return out;
}
PYBIND11_MODULE(TORCH_EXTENSION_NAME, module) { module.def("scale", &scale); }
"""


def add(x: torch.Tensor, y: torch.Tensor, out: torch.Tensor) -> None:
    add_kernel[(triton.cdiv(COUNT, 1024),)](x, y, out, COUNT, BLOCK=1024)


def device() -> None:
    assert torch.cuda.is_available() and torch.cuda.device_count() == 1
    facts = torch.cuda.get_device_properties(0)
    assert "virtual" in facts.name and facts.total_memory > 2**33
    free, total = torch.cuda.mem_get_info()
    assert 0 < free <= total
    assert torch.cuda.get_device_capability() == (8, 9)


def round_trip(kind: torch.dtype) -> None:
    x = (torch.randn(7, 33) * 9).to(kind)
    here = x.cuda()
    assert here.is_cuda and torch.equal(here.cpu(), x)
    assert torch.equal(here.clone().cpu(), x) and torch.equal(here[2:5].cpu(), x[2:5])


def pinned() -> None:
    x = torch.arange(1000).pin_memory()
    here = x.to("cuda", non_blocking=True)
    torch.cuda.synchronize()
    assert x.is_pinned() and torch.equal(here.cpu(), x)


def memory() -> None:
    before = torch.cuda.memory_allocated()
    x = torch.empty(1 << 20, dtype=torch.uint8, device="cuda")
    assert torch.cuda.memory_allocated() - before == 1 << 20
    del x
    assert torch.cuda.memory_allocated() == before
    torch.cuda.empty_cache()


def streams() -> None:
    x, y = torch.rand(COUNT), torch.rand(COUNT)
    first, second = torch.cuda.Stream(), torch.cuda.Stream()
    here_x, here_y = x.cuda(), y.cuda()
    middle, out = torch.empty_like(here_x), torch.empty_like(here_x)
    with torch.cuda.stream(first):
        add(here_x, here_y, middle)
    second.wait_stream(first)
    with torch.cuda.stream(second):
        add(middle, here_y, out)
    second.synchronize()
    assert first.query() and torch.equal(out.cpu(), (x + y) + y)


def events() -> None:
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    x = torch.rand(COUNT).cuda()
    out = torch.empty_like(x)
    begin.record()
    add(x, x, out)
    end.record()
    end.synchronize()
    assert end.query() and begin.elapsed_time(end) > 0


def graph() -> None:
    x = torch.rand(COUNT)
    here, out = torch.zeros(COUNT).cuda(), torch.zeros(COUNT).cuda()
    add(here, here, out)  # compiled before the capture
    one = torch.cuda.CUDAGraph()
    with torch.cuda.graph(one):
        add(here, here, out)
        add(out, here, out)
    for factor in (1, 2):
        here.copy_(x * factor)
        one.replay()
        assert torch.equal(out.cpu(), (x * factor + x * factor) + x * factor)


def extension() -> None:
    with tempfile.TemporaryDirectory() as directory:
        sources = {Path(directory) / "scale.cu": KERNEL, Path(directory) / "scale.cpp": BINDING}
        for file, text in sources.items():
            file.write_text(text)
        module = cpp_extension.load(
            "scale_extension",
            [str(file) for file in sources],
            build_directory=directory,
            with_cuda=True,
            extra_cflags=["-O0"],
            extra_cuda_cflags=["-lineinfo", "-cudart=shared"],
        )
        x = torch.randn(1000)
        assert torch.equal(module.scale(x.cuda(), 3.0).cpu(), x * 3)
        with torch.cuda.stream(torch.cuda.Stream()):
            assert torch.equal(module.scale(x.cuda(), 0.5).cpu(), x * 0.5)


def refused() -> None:
    """ATen's own kernels are in the wheel as SASS only: it says so."""
    x = torch.rand(3).cuda()
    try:
        x + x
    except RuntimeError as error:
        assert "no kernel image" in str(error), error
    else:
        raise AssertionError("SASS ran")


# Over a, b (6, 8), positive.
OPERATORS = (
    "a + b",
    "a * 2 - b",
    "a / b",
    "a @ b.mT",
    "a.exp()",
    "a.log()",
    "a.softmax(-1)",
    "a.sum(0)",
    "a.mean()",
    "a.max(1).values",
    "a.argmax(1)",
    "a.sort(1).values",
    "a.cumsum(0)",
    "a.mT.contiguous()",
    "torch.cat([a, b])",
    "torch.where(a > b, a, b)",
    "a[a > 1]",
    "a.half().float()",
    "torch.nn.functional.gelu(a)",
    "torch.nn.functional.layer_norm(a, (8,))",
    "torch.nn.functional.linear(a, b)",
    "torch.einsum('ij,kj->ik', a, b)",
    "a.topk(3).values",
    "torch.linalg.norm(a)",
    "a.view(4, 12).T.clone()",
    "torch.nn.functional.scaled_dot_product_attention(a[None], b[None], b[None])",
)


def on_the_cpu(expression: str) -> None:
    a, b = torch.rand(6, 8) + 0.5, torch.rand(6, 8) + 0.5
    with AtenOnCpu():
        ours = eval(expression, {"a": a.cuda(), "b": b.cuda(), "torch": torch})
        assert ours.is_cuda, "the result left its device"
    torch.testing.assert_close(ours.cpu(), eval(expression, {"a": a, "b": b, "torch": torch}))


def main() -> None:
    suite = Suite(sys.argv[1])
    suite.run("device", device)
    for kind in TYPES:
        suite.run(f"tensors of {str(kind).removeprefix('torch.')}, there and back", lambda kind=kind: round_trip(kind))
    for case in (pinned, memory, streams, events, graph, extension):
        suite.run(case.__name__, case)
    suite.run("operators as SASS are refused with a reason", refused)
    for expression in OPERATORS:
        suite.run(f"on the CPU: {expression}", lambda one=expression: on_the_cpu(one))


main()
