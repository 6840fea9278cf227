"""Attention on torch's tensors at cuda:0 against the fp64 oracle: Triton's kernel, ours by the C ABI, FlashInfer's.

    attention_suite.py CASES PACKAGES LIBFLASHMOE ORACLE PEERS     PACKAGES: where Triton is; PEERS: tests/peers

Every kernel is judged as those of the library are (tests/accuracy/judgement.py): its RMS error relative to that of
PyTorch's own attention in the same type, and its largest difference.
"""

from __future__ import annotations

import ctypes
import math
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

os.environ["PYTORCH_NO_CUDA_MEMORY_CACHING"] = "1"  # in blocks of the caching allocator an overrun meets a neighbour
sys.path.append(sys.argv[2])  # after what torch brings itself
sys.path += [str(Path(__file__).resolve().parents[3] / "accuracy"), sys.argv[5]]

import fms_abi as abi
import torch
import triton_flash
from build_peers import build
from cases import Suite
from judgement import GPU_LIMITS, PROBLEM_LIMIT

WORKSPACE_BYTES = 8 << 20


@dataclass(frozen=True)
class Shape:
    heads: int
    kv_heads: int
    queries: int
    keys: int
    dim: int
    causal: bool
    element: str = "fp16"

    def __str__(self) -> str:
        mask = " causal" if self.causal else ""
        return f"{self.heads}/{self.kv_heads} heads of {self.dim}, {self.queries} x {self.keys}{mask}, {self.element}"


Tensors = tuple[torch.Tensor, torch.Tensor, torch.Tensor]


def inputs(shape: Shape) -> Tensors:
    """(H, S, D), dense, on the host."""
    torch.manual_seed(11)
    kind = {"fp16": torch.float16, "bf16": torch.bfloat16}[shape.element]
    q = torch.randn(shape.heads, shape.queries, shape.dim).to(kind)
    k, v = (torch.randn(shape.kv_heads, shape.keys, shape.dim).to(kind) for _ in range(2))
    return q, k, v


def describe(shape: Shape) -> abi.Problem:
    def dense(heads: int, length: int) -> abi.Strides:
        return abi.Strides(heads * length * shape.dim, length * shape.dim, shape.dim)

    p = abi.Problem(struct_size=ctypes.sizeof(abi.Problem), dtype=abi.DTYPES[shape.element], features=abi.LSE)
    p.bias_dtype = p.dtype
    p.batch, p.q_heads, p.kv_heads, p.q_len, p.kv_len = 1, shape.heads, shape.kv_heads, shape.queries, shape.keys
    p.head_dim = p.value_dim = shape.dim
    p.q = p.o = dense(shape.heads, shape.queries)
    p.k = p.v = dense(shape.kv_heads, shape.keys)
    p.lse = abi.Strides(shape.heads * shape.queries, shape.queries, 1)
    p.softmax_scale = 1 / math.sqrt(shape.dim)
    p.window_left, p.window_right = -1, 0 if shape.causal else -1
    return p


def arguments(tensors: dict[str, torch.Tensor]) -> abi.Args:
    args = abi.Args(struct_size=ctypes.sizeof(abi.Args))
    for name, tensor in tensors.items():
        setattr(args, name, tensor.data_ptr())
    return args


def judge(o: torch.Tensor, shape: Shape, host: Tensors, oracle: abi.Oracle) -> None:
    q, k, v = host
    exact = torch.full(q.shape, math.nan, dtype=torch.float64)
    exact_lse = torch.full(q.shape[:2], math.nan, dtype=torch.float64)
    args = arguments({"q": q, "k": k, "v": v})
    oracle.attention(describe(shape), args, exact.data_ptr(), exact_lse.data_ptr())
    group = shape.heads // shape.kv_heads
    seen = torch.ones(shape.queries, shape.keys, dtype=torch.bool)
    seen = seen.tril(shape.keys - shape.queries) if shape.causal else seen
    k, v = k.repeat_interleave(group, 0), v.repeat_interleave(group, 0)
    torchs = torch.nn.functional.scaled_dot_product_attention(q[None], k[None], v[None], attn_mask=seen)[0]
    difference = o.cpu().double() - exact
    assert difference.isfinite().all(), "not a number"
    baseline = max((torchs.double() - exact).square().sum(), (exact.to(q.dtype).double() - exact).square().sum())
    ratio = (difference.square().sum() / baseline).sqrt().item()
    assert ratio <= PROBLEM_LIMIT, f"RMS error {ratio:.2f} times PyTorch's own"
    assert difference.abs().max() < GPU_LIMITS.max_diff[shape.element], f"off by {difference.abs().max():.3g}"


class PeerProblem(ctypes.Structure):
    """tests/peers/peer.h"""

    _fields_ = (
        [(name, ctypes.c_uint32) for name in ("batch", "heads_q", "heads_kv", "len_q", "len_kv", "head_dim")]
        + [("causal", ctypes.c_int), ("scale", ctypes.c_float)]
        + [(name, ctypes.c_void_p) for name in ("q", "k", "v", "o", "lse", "workspace")]
        + [("workspace_bytes", ctypes.c_size_t)]
    )


def flashinfer(instance: str, shape: Shape, host: Tensors) -> torch.Tensor:
    """Its layout is (S, H, D)."""
    q, k, v = (x.transpose(0, 1).contiguous().cuda() for x in host)
    o, lse = torch.empty_like(q), torch.empty(shape.queries, shape.heads, device="cuda")
    workspace = torch.empty(WORKSPACE_BYTES, dtype=torch.uint8, device="cuda")
    problem = PeerProblem(
        1, shape.heads, shape.kv_heads, shape.queries, shape.keys, shape.dim, shape.causal, shape.dim**-0.5
    )
    for name, tensor in {"q": q, "k": k, "v": v, "o": o, "lse": lse, "workspace": workspace}.items():
        setattr(problem, name, tensor.data_ptr())
    problem.workspace_bytes = WORKSPACE_BYTES
    # What it wants of the runtime is there already: torch and this process have loaded one.
    library = ctypes.CDLL(str(build(instance) / "peer.so"))
    library.peer_run.restype = ctypes.c_char_p
    said = library.peer_run(ctypes.byref(problem))
    assert said is None, said.decode()
    torch.cuda.synchronize()
    return o.cpu().transpose(0, 1)


def ours(library: abi.Library, shape: Shape, host: Tensors) -> torch.Tensor:
    q, k, v = (x.cuda() for x in host)
    o, lse = torch.empty_like(q), torch.empty(shape.heads, shape.queries, device="cuda")
    plan = library.plan(describe(shape))
    workspace = torch.empty(max(plan.workspace_bytes, 1), dtype=torch.uint8, device="cuda")
    args = arguments({"q": q, "k": k, "v": v, "o": o, "lse": lse})
    library.run(
        plan, args, workspace.data_ptr() if plan.workspace_bytes else 0, torch.cuda.current_stream().cuda_stream
    )
    torch.cuda.synchronize()
    return o


def triton_attention(_shape: Shape, host: Tensors) -> torch.Tensor:
    return triton_flash.forward(*(x.cuda() for x in host), _shape.causal)[0]


def main() -> None:
    suite = Suite(sys.argv[1])
    torch.empty(1, device="cuda")  # the primary context, which everything below is in
    oracle = abi.Oracle(Path(sys.argv[4]))

    def run(who: str, shape: Shape, kernel: Callable[[Shape, Tensors], torch.Tensor]) -> None:
        host = inputs(shape)
        suite.run(f"{who}: {shape}", lambda: judge(kernel(shape, host), shape, host, oracle))

    common = [Shape(2, 2, 128, 192, 64, False), Shape(4, 2, 100, 130, 64, True), Shape(2, 1, 70, 96, 128, True)]
    more = [Shape(2, 2, 60, 100, 64, True, "bf16"), Shape(8, 2, 1, 300, 128, False)]
    for shape in common + more:
        run("Triton", shape, triton_attention)
    library = abi.Library(Path(sys.argv[3]), device_kind=abi.CUDA)
    for shape in common + more:
        run("ours", shape, lambda s, h: ours(library, s, h))
    library.close()
    for instance, shape in (
        ("fi_prefill_hd64", Shape(2, 2, 128, 192, 64, False)),
        ("fi_prefill_hd64_causal", Shape(4, 2, 100, 130, 64, True)),
        ("fi_prefill_hd128_causal", Shape(4, 2, 70, 96, 128, True)),
        ("fi_decode_hd128_g4", Shape(8, 2, 1, 600, 128, False)),
    ):
        run(f"FlashInfer {instance}", shape, lambda s, h, i=instance: flashinfer(i, s, h))


main()
