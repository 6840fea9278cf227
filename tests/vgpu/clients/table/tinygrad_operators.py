"""tinygrad's operators and types with DEV=CUDA, each against its own CPU backend.

    tinygrad_operators.py CASES [PART OF A NAME]

A row is an expression over two tensors and the types it is computed in. Both backends compute the same expression;
floats may differ by roundings of their type, integers not at all.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from cases import Suite

os.environ["DEV"] = "CUDA"
os.environ["NVRTC_PATH"] = str(
    next(file for place in sys.path for file in Path(place).glob("nvidia/cu13/lib/libnvrtc.so.*"))
)

import numpy as np
from tinygrad import Tensor, dtypes

FLOATS = ("float32", "float16", "float64")
INTEGERS = ("int32", "int8", "uint8", "int64", "uint32", "int16")
BOTH = FLOATS + INTEGERS

# Types, and expressions over positive small numbers: x and y (5, 12), a square s (8, 8), an image i (1, 3, 9, 9) and
# weights w (4, 3, 3, 3).
ROWS: list[tuple[tuple[str, ...], list[str]]] = [
    (
        BOTH,
        [
            "x + y",
            "x - y",
            "x * y",
            "x + 3",
            "x.maximum(y)",
            "x.minimum(y)",
            "(x < y).int()",
            "(x == y).int()",
            "(x < 3).where(x, y)",
            "x.sum()",
            "x.sum(0)",
            "x.max(1)",
            "x.min(0)",
            "x.T.contiguous()",
            "x.reshape(12, 5) * 2",
            "x.flip(0).contiguous()",
            "x.cat(y, dim=0)",
            "x.cast('int32')",
            "x.cast('float32')",
            "x[1:4, ::2].contiguous()",
        ],
    ),
    (INTEGERS[:4], ["x // (y + 1)", "x % (y + 1)", "x & y", "x | y", "x ^ y"]),
    (("int32", "uint32"), ["x << 2", "x >> 1", "x.prod(1)", "x.argmax(1)"]),
    (
        FLOATS,
        [
            "x / (y + 1)",
            "-x",
            "x.abs()",
            "x.relu()",
            "x.mean()",
            "x.mean(1)",
            "x @ y.T",
            "x.pad((1, 2, 0, 1))",
            "x.square()",
            "x.expand(3, 5, 12).sum(0)",
            "x.leaky_relu(0.1)",
            "x.clip(1, 2)",
        ],
    ),
    (
        ("float32",),
        [
            "x.exp()",
            "x.exp2()",
            "(x + 1).log()",
            "(x + 1).log2()",
            "x.sin()",
            "x.cos()",
            "(x / 9).tan()",
            "x.sqrt()",
            "(x + 1).rsqrt()",
            "(x + 1).reciprocal()",
            "x.sigmoid()",
            "x.tanh()",
            "x.gelu()",
            "x.silu()",
            "x.elu()",
            "x.softplus()",
            "x.mish()",
            "x.hardswish()",
            "x.erf()",
            "x.floor()",
            "x.ceil()",
            "x.round()",
            "x.trunc()",
            "x.sign()",
            "x.pow(2.5)",
            "(x + 1).pow(y / 4)",
            "x.softmax(1)",
            "x.log_softmax(1)",
            "x.logsumexp(1)",
            "x.std(1)",
            "x.var(0)",
            "x.cumsum(1)",
            "x.argmax(1)",
            "x.argmin(0)",
            "x.layernorm()",
            "x.unsqueeze(1).squeeze(1) + 1",
            "x.permute(1, 0) + y.T",
            "x.roll(3, 1).contiguous()",
            "x.repeat(2, 2)",
            "x.triu()",
            "x.tril()",
            "x.stack(y)",
            "x.split(3, 1)[1].contiguous()",
            "x.gather(1, (y.int() % 12))",
            "x.int().one_hot(9)",
            "x.dot(y.T)",
            "x.lerp(y, 0.3)",
            "x.isnan().int()",
            "x.sort(dim=1)[0]",
            "x.topk(3, dim=1)[0]",
            "x.cross_entropy(y.int()[:, 0] % 12)",
            "x.scaled_dot_product_attention(y, y)",
            "x.masked_fill(y > 3, 7)",
            "x.swish()",
            "x.celu()",
            "x.selu()",
            "x.hardsigmoid()",
            "x.relu6()",
            "x.logsigmoid()",
            "(x / 9).asin()",
            "(x / 9).acos()",
            "x.atan()",
            "x.sinh()",
            "x.cosh()",
            "(x / 9).atanh()",
            "(x + 1).acosh()",
            "x.asinh()",
            "x.copysign(-y)",
            "x.logaddexp(y)",
            "x.prod(1)",
            "x.all().int()",
            "x.any().int()",
        ],
    ),
    (
        ("float32", "float16"),
        [
            "s @ s",
            "i.conv2d(w)",
            "i.conv2d(w, padding=1)",
            "i.conv2d(w, stride=2)",
            "i.conv_transpose2d(w.permute(1, 0, 2, 3))",
            "i.avg_pool2d((3, 3))",
            "i.max_pool2d((3, 3))",
            "i.batchnorm(None, None, i.mean((0, 2, 3)), (i.var((0, 2, 3)) + 1).rsqrt())",
            "i.interpolate((5, 5))",
            "s.linear(s, s[0])",
            "Tensor.einsum('ij,kj->ik', s, s)",
        ],
    ),
    (
        ("float32",),
        [
            f"gradient({one!r})"
            for one in (
                "x.square().sum()",
                "(x @ y.T).sum()",
                "x.softmax(1).square().sum()",
                "x.exp().mean()",
                "x.tanh().sum()",
                "x.relu().sum()",
                "x.layernorm().square().sum()",
                "x.max()",
                "(x / (y + 1)).sum()",
                "x.sqrt().sum()",
                "x.sigmoid().sum()",
                "x.gelu().sum()",
                "x.cumsum(1).square().sum()",
                "x.reshape(12, 5).T[1:3].sum()",
                "x.cat(y).square().sum()",
            )
        ],
    ),
]


def inputs(type_name: str) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(3)
    shapes = {"x": (5, 12), "y": (5, 12), "s": (8, 8), "i": (1, 3, 9, 9), "w": (4, 3, 3, 3)}
    if type_name.startswith("float"):
        return {name: (rng.random(shape) * 5 + 0.25).astype(type_name) for name, shape in shapes.items()}
    return {name: rng.integers(1, 7, shape).astype(type_name) for name, shape in shapes.items()}


def evaluate(expression: str, arrays: dict[str, np.ndarray], device: str) -> np.ndarray:
    names = {name: Tensor(array, device=device) for name, array in arrays.items()}

    def gradient(of: str) -> Tensor:
        return eval(of, {**names, "Tensor": Tensor}).gradient(names["x"])[0]

    return eval(expression, {**names, "Tensor": Tensor, "dtypes": dtypes, "gradient": gradient}).numpy()


def check(expression: str, type_name: str) -> None:
    arrays = inputs(type_name)
    ours, wanted = evaluate(expression, arrays, "CUDA"), evaluate(expression, arrays, "CPU")
    assert ours.shape == wanted.shape and ours.dtype == wanted.dtype, (
        f"{ours.dtype}{ours.shape} for {wanted.dtype}{wanted.shape}"
    )
    if ours.dtype.kind != "f":
        assert np.array_equal(ours, wanted), f"{ours.ravel()[:4]} for {wanted.ravel()[:4]}"
        return
    # Sums of up to 128 terms, in whatever order, of functions that are good to a few roundings.
    bound = 64 * np.finfo(ours.dtype).eps * max(1.0, float(np.abs(wanted.astype(np.float64)).max()))
    error = np.abs(ours.astype(np.float64) - wanted.astype(np.float64)).max()
    assert error <= bound, f"off by {error:.3g}, allowed {bound:.3g}"


def main() -> None:
    suite = Suite(sys.argv[1])
    only = sys.argv[2] if len(sys.argv) > 2 else ""
    for types, expressions in ROWS:
        for expression in expressions:
            for type_name in types:
                name = f"{expression} {type_name}"
                if only in name:
                    suite.run(name, lambda e=expression, t=type_name: check(e, t))


if __name__ == "__main__":
    main()
