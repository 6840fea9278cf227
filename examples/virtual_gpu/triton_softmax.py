"""A softmax over rows in Triton, on CUDA tensors of the stock PyTorch wheel.

    pip install torch triton                                            # Triton itself wants a C compiler
    cudadent run --device virtual:l4 -- python -m cudadent.examples.triton_softmax
"""

# Triton reads the annotations of its kernels: what has none is a pointer or a number.
# ruff: noqa: ANN001, ANN201

import torch
import triton
import triton.language as tl


@triton.jit
def softmax(x_ptr, y_ptr, columns, BLOCK: tl.constexpr):
    offsets = tl.arange(0, BLOCK)
    row, inside = tl.program_id(0) * columns, offsets < columns
    x = tl.load(x_ptr + row + offsets, mask=inside, other=-float("inf"))
    weights = tl.exp(x - tl.max(x, axis=0))
    tl.store(y_ptr + row + offsets, weights / tl.sum(weights, axis=0), mask=inside)


x = torch.randn(64, 100)
y = torch.empty_like(x, device="cuda")
softmax[(64,)](x.cuda(), y, 100, BLOCK=128)
torch.testing.assert_close(y.cpu(), x.softmax(1))
print("softmax of 64 rows is right, on", torch.cuda.get_device_name())
