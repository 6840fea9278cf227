"""Kernels in the manner of Triton's tutorials 01 to 06, in our own words, on CUDA tensors, against torch on the CPU.

triton_tutorials.py CASES PACKAGES     PACKAGES: where Triton is, in another environment
"""

# Triton reads the annotations of its kernels: what has none is a pointer or a number.
# ruff: noqa: ANN001, ANN201

from __future__ import annotations

import functools
import os
import sys
from pathlib import Path

os.environ["PYTORCH_NO_CUDA_MEMORY_CACHING"] = "1"  # in blocks of the caching allocator an overrun meets a neighbour
sys.path.append(sys.argv[2])  # after what torch brings itself
sys.path.append(str(Path(__file__).resolve().parents[1]))

import torch
import triton
import triton.language as tl
import triton_flash
from cases import Suite
from triton_kernels import add_kernel


@triton.jit
def softmax_kernel(in_ptr, out_ptr, rows, columns, BLOCK: tl.constexpr):
    offsets = tl.arange(0, BLOCK)
    for row in tl.range(tl.program_id(0), rows, tl.num_programs(0), num_stages=2):
        x = tl.load(in_ptr + row * columns + offsets, mask=offsets < columns, other=-float("inf"))
        power = tl.exp(x - tl.max(x, 0))
        tl.store(out_ptr + row * columns + offsets, power / tl.sum(power, 0), mask=offsets < columns)


@triton.jit
def matmul_kernel(
    a_ptr,
    b_ptr,
    c_ptr,
    m,
    n,
    k,
    M: tl.constexpr,
    N: tl.constexpr,
    K: tl.constexpr,
    GROUP: tl.constexpr,
    LEAKY: tl.constexpr,
):
    # Blocks of a group of rows one after the other, so that their columns of B stay in the cache.
    in_group = GROUP * tl.cdiv(n, N)
    first = tl.program_id(0) // in_group * GROUP
    height = tl.minimum(tl.cdiv(m, M) - first, GROUP)
    block_m = first + tl.program_id(0) % in_group % height
    block_n = tl.program_id(0) % in_group // height
    rows = (block_m * M + tl.arange(0, M)) % m
    columns = (block_n * N + tl.arange(0, N)) % n
    total = tl.zeros((M, N), tl.float32)
    for step in range(tl.cdiv(k, K)):
        inner = step * K + tl.arange(0, K)
        a = tl.load(a_ptr + rows[:, None] * k + inner[None, :], mask=inner[None, :] < k, other=0.0)
        b = tl.load(b_ptr + inner[:, None] * n + columns[None, :], mask=inner[:, None] < k, other=0.0)
        total = tl.dot(a, b, total)
    if LEAKY:
        total = tl.where(total >= 0, total, 0.01 * total)
    rows = block_m * M + tl.arange(0, M)
    columns = block_n * N + tl.arange(0, N)
    inside = (rows[:, None] < m) & (columns[None, :] < n)
    tl.store(c_ptr + rows[:, None] * n + columns[None, :], total.to(tl.float16), mask=inside)


SIZES = [
    triton.Config({"M": 32, "N": 32, "K": 32, "GROUP": 2}, num_warps=4),
    triton.Config({"M": 64, "N": 32, "K": 16, "GROUP": 4}, num_warps=4),
]
# By default as often as fill a tenth of a second: of the virtual clock's, whose launches take microseconds.
once = functools.partial(triton.testing.do_bench, warmup=0, rep=0)
tuned_matmul_kernel = triton.autotune(SIZES, key=["m", "n", "k"], do_bench=once)(matmul_kernel)


@triton.jit
def dropout_kernel(x_ptr, out_ptr, count, chance, seed, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offsets, mask=offsets < count)
    tl.store(out_ptr + offsets, tl.where(tl.rand(seed, offsets) > chance, x / (1 - chance), 0.0), mask=offsets < count)


@triton.jit
def norm_kernel(x_ptr, w_ptr, b_ptr, out_ptr, mean_ptr, rstd_ptr, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    offsets = tl.arange(0, BLOCK)
    inside = offsets < columns
    x = tl.load(x_ptr + row * columns + offsets, mask=inside, other=0.0)
    mean = tl.sum(x, 0) / columns
    centred = tl.where(inside, x - mean, 0.0)
    rstd = 1 / tl.sqrt(tl.sum(centred * centred, 0) / columns + 1e-5)
    w = tl.load(w_ptr + offsets, mask=inside)
    b = tl.load(b_ptr + offsets, mask=inside)
    tl.store(out_ptr + row * columns + offsets, centred * rstd * w + b, mask=inside)
    tl.store(mean_ptr + row, mean)
    tl.store(rstd_ptr + row, rstd)


@triton.jit
def norm_backward_kernel(
    x_ptr,
    w_ptr,
    dy_ptr,
    mean_ptr,
    rstd_ptr,
    dx_ptr,
    dw_ptr,
    db_ptr,
    lock_ptr,
    columns,
    GROUPS: tl.constexpr,
    BLOCK: tl.constexpr,
):
    row = tl.program_id(0)
    offsets = tl.arange(0, BLOCK)
    inside = offsets < columns
    x = tl.load(x_ptr + row * columns + offsets, mask=inside, other=0.0)
    dy = tl.load(dy_ptr + row * columns + offsets, mask=inside, other=0.0)
    w = tl.load(w_ptr + offsets, mask=inside, other=0.0)
    rstd = tl.load(rstd_ptr + row)
    normed = tl.where(inside, (x - tl.load(mean_ptr + row)) * rstd, 0.0)
    wdy = w * dy
    c1 = tl.sum(normed * wdy, 0) / columns
    c2 = tl.sum(wdy, 0) / columns
    tl.store(dx_ptr + row * columns + offsets, (wdy - normed * c1 - c2) * rstd, mask=inside)
    # Partial sums of a group of rows, which take turns by a lock.
    group = row % GROUPS
    while tl.atomic_cas(lock_ptr + group, 0, 1) == 1:
        pass
    at = group * columns + offsets
    tl.store(dw_ptr + at, tl.load(dw_ptr + at, mask=inside) + dy * normed, mask=inside)
    tl.store(db_ptr + at, tl.load(db_ptr + at, mask=inside) + dy, mask=inside)
    tl.debug_barrier()
    tl.atomic_xchg(lock_ptr + group, 0)


def close(ours: torch.Tensor, wanted: torch.Tensor, roundings: float) -> None:
    """Within so many roundings of the type that ours has, of the largest wanted."""
    error = (ours.cpu().double() - wanted.double()).abs().max().item()
    bound = roundings * torch.finfo(ours.dtype).eps * max(1.0, wanted.double().abs().max().item())
    assert error <= bound, f"off by {error:.3g}, allowed {bound:.3g}"


def vector_add() -> None:
    x, y = torch.rand(98_432), torch.rand(98_432)
    out = torch.empty(98_432, device="cuda")
    add_kernel[(triton.cdiv(98_432, 1024),)](x.cuda(), y.cuda(), out, 98_432, BLOCK=1024)
    assert torch.equal(out.cpu(), x + y)


def fused_softmax() -> None:
    x = torch.randn(203, 781)
    out = torch.empty(203, 781, device="cuda")
    softmax_kernel[(16,)](x.cuda(), out, 203, 781, BLOCK=1024, num_warps=8)
    close(out, x.double().softmax(1), 4)


def product(kernel: object, leaky: bool, **sizes: int) -> None:
    m, n, k = 130, 90, 70
    a, b = torch.randn(m, k).half(), torch.randn(k, n).half()
    c = torch.empty(m, n, dtype=torch.float16, device="cuda")
    kernel[lambda size: (triton.cdiv(m, size["M"]) * triton.cdiv(n, size["N"]),)](
        a.cuda(), b.cuda(), c, m, n, k, LEAKY=leaky, **sizes
    )
    wanted = a.double() @ b.double()
    close(c, torch.where(wanted >= 0, wanted, 0.01 * wanted) if leaky else wanted, 1)


def matrix_product() -> None:
    product(matmul_kernel, leaky=False, M=64, N=32, K=32, GROUP=2)


def matrix_product_leaky() -> None:
    product(matmul_kernel, leaky=True, M=32, N=64, K=32, GROUP=8)


def autotuned_product() -> None:
    product(tuned_matmul_kernel, leaky=False)


def dropout() -> None:
    x = torch.rand(5000) + 1
    drawn = []
    for seed in (123, 123, 512):
        out = torch.empty(5000, device="cuda")
        dropout_kernel[(5,)](x.cuda(), out, 5000, 0.5, seed, BLOCK=1024)
        drawn.append(out.cpu())
    assert torch.equal(drawn[0], drawn[1]) and not torch.equal(drawn[0], drawn[2])
    kept = drawn[0] != 0
    assert torch.equal(drawn[0][kept], (x * 2)[kept]) and 2300 < int(kept.sum()) < 2700


def layer_norm() -> None:
    rows, columns, groups = 25, 300, 4
    x, dy = torch.randn(rows, columns), torch.randn(rows, columns)
    w, b = torch.rand(columns), torch.rand(columns)
    here_x, here_w = x.cuda(), w.cuda()
    out, dx = torch.empty(rows, columns, device="cuda"), torch.empty(rows, columns, device="cuda")
    mean, rstd = torch.empty(rows, device="cuda"), torch.empty(rows, device="cuda")
    norm_kernel[(rows,)](here_x, here_w, b.cuda(), out, mean, rstd, columns, BLOCK=512)
    dw, db = torch.zeros(groups, columns).cuda(), torch.zeros(groups, columns).cuda()
    locks = torch.zeros(groups, dtype=torch.int32).cuda()
    norm_backward_kernel[(rows,)](
        here_x, here_w, dy.cuda(), mean, rstd, dx, dw, db, locks, columns, GROUPS=groups, BLOCK=512
    )
    exact = [value.double().requires_grad_() for value in (x, w, b)]
    wanted = torch.nn.functional.layer_norm(exact[0], (columns,), exact[1], exact[2])
    wanted.backward(dy.double())
    close(out, wanted.detach(), 8)
    close(dx, exact[0].grad, 8)
    close(dw.cpu().sum(0), exact[1].grad, 32)
    close(db.cpu().sum(0), exact[2].grad, 32)


def attention(causal: bool) -> None:
    q, k, v = (torch.randn(2, length, 64).half() for length in (100, 130, 130))
    here = [x.cuda() for x in (q, k, v)]
    o, lse = triton_flash.forward(*here, causal)
    exact = [x.double().requires_grad_() for x in (q, k, v)]
    hidden = torch.ones(100, 130, dtype=torch.bool).triu(31) if causal else torch.zeros(100, 130, dtype=torch.bool)
    scores = (exact[0] @ exact[1].mT / 8).masked_fill(hidden, -float("inf"))
    wanted = scores.softmax(-1) @ exact[2]
    close(o, wanted.detach(), 2)
    close(lse, scores.detach().logsumexp(-1) * triton_flash.LOG2_E, 32)
    do = torch.randn(2, 100, 64).half()
    wanted.backward(do.double())
    gradients = triton_flash.backward(*here, o, lse, do.cuda(), causal)
    for ours, one in zip(gradients, exact, strict=True):
        close(ours, one.grad, 4)  # O and the weights are rounded to half on the way


CASES = {
    "01 vector addition": vector_add,
    "02 fused softmax": fused_softmax,
    "03 matrix product": matrix_product,
    "03 matrix product with leaky ReLU": matrix_product_leaky,
    "03 matrix product, autotuned": autotuned_product,
    "04 dropout by seed": dropout,
    "05 layer norm, forward and backward": layer_norm,
    "06 attention, forward and backward": lambda: attention(causal=False),
    "06 attention, causal, forward and backward": lambda: attention(causal=True),
}


def main() -> None:
    suite = Suite(sys.argv[1])
    for name, case in CASES.items():
        torch.manual_seed(4)
        suite.run(name, case)


main()
