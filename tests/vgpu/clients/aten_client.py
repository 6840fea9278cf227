"""ATen's operators on the CPU (cudadent.aten), the program's own kernels on the virtual GPU; the stock PyTorch wheel.

    aten_client.py PACKAGES                               PACKAGES: where Triton is, in another environment
    python -m cudadent.aten aten_client.py PACKAGES --overrun
        the mode around a program that knows nothing of it, whose kernel writes one element too far

Every result is held against the same program on the CPU.
"""

# Triton reads the annotations of its kernels: what has none is a pointer or a number.
# ruff: noqa: ANN001, ANN201

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

sys.path.append(sys.argv[1])  # after what torch brings itself
sys.path.append(str(Path(__file__).resolve().parents[3] / "python"))

import torch
import triton
import triton.language as tl
from torch import nn
from torch.nn import functional
from triton_kernels import add_kernel

from cudadent.aten import AtenOnCpu


@triton.jit
def scale_kernel(x_ptr, out_ptr, count, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offsets, mask=offsets < count)
    tl.store(out_ptr + offsets, 2 * x, mask=offsets < count)


class Scale(torch.autograd.Function):
    """y = 2 x by a kernel of our own, forward and backward."""

    @staticmethod
    def forward(ctx: object, x: torch.Tensor) -> torch.Tensor:
        if not x.is_cuda:
            return 2 * x
        out = torch.empty_like(x)
        scale_kernel[(triton.cdiv(x.numel(), 256),)](x, out, x.numel(), BLOCK=256)
        return out

    @staticmethod
    def backward(ctx: object, gradient: torch.Tensor) -> torch.Tensor:
        return Scale.forward(ctx, gradient.contiguous())


class Model(nn.Module):
    """A bit of everything: a convolution, normalisations, attention, a kernel of our own, a head."""

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(11, 16)
        self.convolution = nn.Conv1d(16, 16, 3, padding=1)
        self.batch = nn.BatchNorm1d(16)
        self.layer = nn.LayerNorm(16)
        self.attention = nn.MultiheadAttention(16, 2, batch_first=True)
        self.head = nn.Linear(16, 11)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.words(tokens)
        x = x + functional.gelu(self.batch(self.convolution(x.mT))).mT
        x = Scale.apply(x)
        y = self.layer(x)
        x = x + self.attention(y, y, y, need_weights=False)[0]
        return self.head(x)


def same(ours: torch.Tensor, wanted: torch.Tensor) -> None:
    assert ours.is_cuda, "the result left its device"
    torch.testing.assert_close(ours.cpu(), wanted)


def operators(mode: AtenOnCpu) -> None:
    a, b = torch.randn(33, 17), torch.randn(17, 20)
    same(a.cuda() @ b.cuda(), a @ b)
    same(a.cuda().softmax(-1), a.softmax(-1))
    same(torch.arange(5, device="cuda"), torch.arange(5))
    same(a.cuda().half(), a.half())
    assert a.cuda().half().cpu().dtype == torch.float16
    values, places = a.cuda().sort(dim=0)
    same(values, a.sort(dim=0).values)
    same(places, a.sort(dim=0).indices)
    same(a.cuda()[a.cuda() > 0], a[a > 0])
    same(a.cuda()[[1, 5]], a[[1, 5]])
    assert mode.operators["aten::mm"] == 1 and mode.operators["aten::sort"] == 1, mode.operators
    assert a.cuda().sum().item() == a.sum().item()
    with torch.inference_mode():
        same(functional.linear(a.cuda(), b.mT.cuda()), functional.linear(a, b.mT))
        assert not a.cuda().to(b).is_cuda


def strides() -> None:
    """What lies in pieces, from one side to the other and in place."""

    def changes(x: torch.Tensor) -> torch.Tensor:
        x[:, ::2, 1:3] = 7
        x.mT[1].mul_(3)
        x[2].add_(x[1])
        torch.add(x[0], x[1], out=x[3])
        x.select(2, 4).copy_(x.select(2, 0))
        return x.permute(2, 0, 1) * 2

    x = torch.randn(4, 5, 6)
    here = x.cuda()
    same(changes(here), changes(x))
    same(here, x)
    same(here.permute(1, 2, 0).contiguous(), x.permute(1, 2, 0).contiguous())
    assert torch.equal(here[:, 1:4, ::3].cpu(), x[:, 1:4, ::3])
    same(here[0, :, :1].expand(5, 9) + 1, x[0, :, :1].expand(5, 9) + 1)
    same(here.flatten().unfold(0, 4, 2).clone(), x.flatten().unfold(0, 4, 2).clone())
    out = torch.empty(0, device="cuda")
    torch.mul(here, 2, out=out)
    same(out, x * 2)
    z = torch.randn(3, 4, dtype=torch.complex64)
    same(z.cuda().conj().mT @ z.cuda(), z.conj().mT @ z)
    images = torch.randn(2, 3, 8, 8).to(memory_format=torch.channels_last)
    ours = functional.avg_pool2d(images.cuda(), 2)
    same(ours, functional.avg_pool2d(images, 2))
    assert ours.is_contiguous(memory_format=torch.channels_last)
    # Half of it was never written, and nobody asks for that half.
    part = torch.empty(4, 8, device="cuda")
    part[:, :4] = 1
    same(part[:, :4] * 2, torch.full((4, 4), 2.0))


def printed() -> None:
    for x in torch.randn(3, 4), torch.tensor([1.0, float("inf")]), torch.arange(6).view(2, 3).mT, torch.tensor(7):
        assert repr(x.cuda()) == repr(x)[:-1] + ", device='cuda:0')", repr(x.cuda())


def random_numbers() -> None:
    host = torch.get_rng_state()

    def draw() -> torch.Tensor:
        return torch.cat([torch.randn(1000, device="cuda"), functional.dropout(torch.ones(1000, device="cuda"))])

    torch.cuda.manual_seed(3)
    state = torch.cuda.get_rng_state()
    first, second = draw().cpu(), draw().cpu()
    assert not torch.equal(first, second)
    assert abs(first[:1000].mean()) < 0.2 and abs(first[:1000].std() - 1) < 0.2
    torch.cuda.manual_seed(3)
    assert torch.equal(draw().cpu(), first)
    torch.cuda.set_rng_state(state)
    assert torch.equal(draw().cpu(), first)
    generator = torch.Generator("cuda").manual_seed(9)
    one = torch.rand(5, device="cuda", generator=generator).cpu()
    assert not torch.equal(torch.rand(5, device="cuda", generator=generator).cpu(), one)
    assert torch.equal(torch.rand(5, device="cuda", generator=generator.manual_seed(9)).cpu(), one)
    assert torch.equal(torch.get_rng_state(), host), "the CPU's numbers are its own"


def training(optimizer: Callable[..., torch.optim.Optimizer]) -> None:
    torch.manual_seed(1)
    theirs = Model()
    ours = Model().cuda()
    ours.load_state_dict(theirs.state_dict())
    tokens, wanted = torch.randint(11, (2, 6, 7))
    for model, place in ((theirs, "cpu"), (ours, "cuda")):
        steps = optimizer(model.parameters(), lr=0.01)
        for _ in range(3):
            steps.zero_grad()
            loss = functional.cross_entropy(model(tokens.to(place)).flatten(0, 1), wanted.to(place).flatten())
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            steps.step()
    for (name, parameter), expected in zip(ours.named_parameters(), theirs.parameters(), strict=True):
        assert parameter.is_cuda and parameter.grad is not None, name
        torch.testing.assert_close(parameter.grad.cpu(), expected.grad, rtol=1e-3, atol=1e-5, msg=name)
        torch.testing.assert_close(parameter.detach().cpu(), expected.detach(), rtol=1e-3, atol=1e-4, msg=name)


def refused(what: Callable[[], object], words: str) -> None:
    try:
        what()
    except (RuntimeError, NotImplementedError) as error:
        assert words in str(error), error
    else:
        raise AssertionError(f"done, where it should have said: {words}")


def refusals() -> None:
    x = torch.ones(3, device="cuda")
    refused(lambda: x + torch.ones(3), "same device")
    gates = (torch.ones(1, 4, device="cuda"),) * 3
    refused(lambda: torch.ops.aten._thnn_fused_lstm_cell(*gates), "no kernel for the CPU")

    def captured() -> None:
        with torch.cuda.graph(torch.cuda.CUDAGraph()):
            x.mul_(2)

    refused(captured, "a graph cannot hold it")


def overrun() -> None:
    """Blocks of torch's caching allocator are larger than what was asked for: nobody would see the last element."""
    x, out = torch.ones(3000, device="cuda"), torch.empty(3000, device="cuda")
    scale_kernel[(triton.cdiv(3001, 256),)](x, out, 3001, BLOCK=256)


def main() -> None:
    if "--overrun" in sys.argv:
        overrun()
        return
    with AtenOnCpu() as mode:
        torch.manual_seed(0)
        operators(mode)
        strides()
        printed()
        random_numbers()
        training(torch.optim.SGD)
        training(torch.optim.AdamW)
        x, y = torch.randn(3000, device="cuda"), torch.randn(3000, device="cuda")
        out = torch.empty_like(x)
        add_kernel[(3,)](x, y, out, 3000, BLOCK=1024)
        same(out, x.cpu() + y.cpu())
        refusals()
        told = len(mode.operators)
    refused(lambda: torch.ones(3, device="cuda"), "no kernel image")
    print(f"torch {torch.__version__}: {told} operators on the CPU, our kernels on {torch.cuda.get_device_name()}")


main()
