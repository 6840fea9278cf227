"""Triton's operators and types on CUDA tensors, a kernel a row: each against torch on the CPU.

    triton_operators.py CASES PACKAGES [PART OF A NAME]     PACKAGES: where Triton is, in another environment

A row is an expression of Triton over x and y, what it has to be (over the same values, in float64 or int64), and the
types it is compiled for. Triton reads the sources of its kernels, so those of the rows are written to a module first.
"""

from __future__ import annotations

import importlib
import sys
import tempfile
from pathlib import Path

sys.path.append(sys.argv[2])  # after what torch brings itself

import torch
from cases import Suite

COUNT = 128
FLOATS = "float32 float16 bfloat16 float64"
INTEGERS = "int32 int64 int16 int8 uint8"
SINGLE = "float32 float64"

# name: (Triton, torch, types, least and greatest x, roundings of the type's own that the result may have)
EXPRESSIONS: dict[str, tuple[str, str, str, tuple[float, float], float]] = {
    "add": ("x + y", "x + y", f"{FLOATS} {INTEGERS}", (-5, 5), 1),
    "subtract": ("x - y", "x - y", f"{FLOATS} {INTEGERS}", (-5, 5), 1),
    "multiply": ("x * y", "x * y", f"{FLOATS} {INTEGERS}", (-5, 5), 1),
    "divide": ("x / y", "x / y", FLOATS, (1, 5), 2),
    "floor divide": ("x // y", "torch.div(x, y, rounding_mode='trunc')", "int32 int64", (1, 90), 0),
    "remainder": ("x % y", "torch.fmod(x, y)", "int32 int64", (1, 90), 0),
    "negate": ("-x", "-x", "float32 float16 int32", (-5, 5), 0),
    "and": ("x & y", "x & y", INTEGERS, (0, 100), 0),
    "or": ("x | y", "x | y", INTEGERS, (0, 100), 0),
    "xor": ("x ^ y", "x ^ y", INTEGERS, (0, 100), 0),
    "not": ("~x", "~x", "int32 int64", (0, 100), 0),
    "shift left": ("x << 3", "x << 3", "int32 int64 int16", (0, 100), 0),
    "shift right": ("x >> 2", "x >> 2", "int32 int64 uint8", (0, 100), 0),
    "minimum": ("tl.minimum(x, y)", "torch.minimum(x, y)", "float32 float16 bfloat16 int32", (-5, 5), 0),
    "maximum": ("tl.maximum(x, y)", "torch.maximum(x, y)", "float32 float16 bfloat16 int32", (-5, 5), 0),
    "where": ("tl.where(x < y, x, y * 2)", "torch.where(x < y, x, y * 2)", "float32 float16 int32", (-5, 5), 0),
    "compare": ("((x < y) | (x == y)).to(tl.int32)", "(x <= y).long()", "float32 int32 int8", (-3, 3), 0),
    "clamp": ("tl.clamp(x, -1.0, 1.5)", "x.clamp(-1, 1.5)", "float32", (-5, 5), 0),
    "abs": ("tl.abs(x)", "x.abs()", "float32 float16 int32", (-5, 5), 0),
    "fma": ("tl.fma(x, y, x)", "x * y + x", SINGLE, (-5, 5), 2),
    "exp": ("tl.exp(x)", "x.exp()", SINGLE, (-5, 5), 8),
    "exp2": ("tl.exp2(x)", "x.exp2()", SINGLE, (-5, 5), 4),
    "log": ("tl.log(x)", "x.log()", SINGLE, (0.1, 5), 4),
    "log2": ("tl.log2(x)", "x.log2()", SINGLE, (0.1, 5), 4),
    "sin": ("tl.sin(x)", "x.sin()", SINGLE, (-3, 3), 4),
    "cos": ("tl.cos(x)", "x.cos()", SINGLE, (-3, 3), 4),
    "sqrt": ("tl.sqrt(x)", "x.sqrt()", SINGLE, (0, 5), 4),
    "sqrt_rn": ("tl.sqrt_rn(x)", "x.sqrt()", "float32", (0, 5), 1),
    "div_rn": ("tl.div_rn(x, y)", "x / y", "float32", (1, 5), 1),
    "rsqrt": ("tl.rsqrt(x)", "x.rsqrt()", SINGLE, (0.1, 5), 4),
    "erf": ("tl.erf(x)", "x.erf()", SINGLE, (-3, 3), 4),
    "floor": ("tl.floor(x)", "x.floor()", SINGLE, (-5, 5), 0),
    "ceil": ("tl.ceil(x)", "x.ceil()", SINGLE, (-5, 5), 0),
    "sigmoid": ("tl.sigmoid(x)", "x.sigmoid()", "float32", (-5, 5), 8),
    "softmax": ("tl.softmax(x)", "x.softmax(0)", "float32", (-5, 5), 8),
    "tanh of libdevice": ("libdevice.tanh(x)", "x.tanh()", SINGLE, (-3, 3), 4),
    "asin of libdevice": ("libdevice.asin(x)", "x.asin()", SINGLE, (-0.9, 0.9), 4),
    "pow of libdevice": ("libdevice.pow(x, y)", "x.pow(y)", SINGLE, (0.5, 3), 8),
    "log1p of libdevice": ("libdevice.log1p(x)", "x.log1p()", SINGLE, (0, 3), 4),
    "umulhi": ("tl.umulhi(x, y)", "(x * y) >> 32", "int32", (0, 2e9), 0),
    "cdiv": ("tl.cdiv(x, 7)", "(x + 6) // 7", "int32", (0, 90), 0),
    "sum": ("tl.sum(x, 0) + x * 0", "x.sum() + x * 0", "float32 int32 int64", (0, 3), 8),
    "max": ("tl.max(x, 0) + x * 0", "x.max() + x * 0", "float32 float16 int32", (-5, 5), 0),
    "min": ("tl.min(x, 0) + x * 0", "x.min() + x * 0", "float32 bfloat16 int32", (-5, 5), 0),
    "xor sum": (
        "tl.xor_sum(x, 0) ^ (x * 0)",
        "functools.reduce(operator.xor, x.tolist()) + x * 0",
        "int32",
        (0, 99),
        0,
    ),
    "argmax": ("tl.argmax(x, 0) + i * 0", "x.argmax() + torch.arange(128) * 0", "float32", (-5, 5), 0),
    "argmin": ("tl.argmin(x, 0) + i * 0", "x.argmin() + torch.arange(128) * 0", "float32", (-5, 5), 0),
    "cumsum": ("tl.cumsum(x, 0)", "x.cumsum(0)", "float32 int32", (0, 3), 128),
    "cumprod": ("tl.cumprod(x, 0)", "x.cumprod(0)", "float32", (0.95, 1.05), 128),
    "sort": ("tl.sort(x)", "x.sort().values", "float32 int32", (-99, 99), 0),
    "flip": ("tl.flip(x)", "x.flip(0)", "float32 int32", (-99, 99), 0),
    "gather": ("tl.gather(x, i ^ 5, 0)", "x[torch.arange(128) ^ 5]", "float32 int32", (-99, 99), 0),
    "histogram": ("tl.histogram(x, 128)", "torch.bincount(x, minlength=128)", "int32", (0, 127), 0),
    "reshape and trans": (
        "tl.reshape(tl.trans(tl.reshape(x, 8, 16)), 128)",
        "x.reshape(8, 16).T.flatten()",
        "float32 float16 int8",
        (-9, 9),
        0,
    ),
    "to float32": ("x.to(tl.float32)", "x", f"float16 bfloat16 float64 {INTEGERS}", (-5, 5), 1),
    "to float16": ("x.to(tl.float16)", "x", "float32 bfloat16 int32", (-5, 5), 1),
    "to bfloat16": ("x.to(tl.bfloat16)", "x", "float32 float16 int32", (-5, 5), 1),
    "to float8e5 and back": (
        "x.to(tl.float8e5).to(tl.float32)",
        "x.to(torch.float8_e5m2).double()",
        "float32",
        (-5, 5),
        0,
    ),
    "to float8e4nv and back": (
        "x.to(tl.float8e4nv).to(tl.float32)",
        "x.to(torch.float8_e4m3fn).double()",
        "float32",
        (-5, 5),
        0,
    ),
    "to int32": ("x.to(tl.int32)", "x.trunc()", "float32 float16 float64", (-99, 99), 0),
    "bits": ("x.to(tl.int32, bitcast=True)", "x.float().view(torch.int32)", "float32", (-9, 9), 0),
    "assembly": (
        "tl.inline_asm_elementwise('abs.f32 $0, $1;', '=r,r', [x], dtype=tl.float32, is_pure=True, pack=1)",
        "x.abs()",
        "float32",
        (-5, 5),
        0,
    ),
}

TEMPLATE = """
@triton.jit
def kernel_{index}(x_ptr, y_ptr, out_ptr, COUNT: tl.constexpr):
    i = tl.arange(0, COUNT)
    x = tl.load(x_ptr + i)
    y = tl.load(y_ptr + i)
    tl.store(out_ptr + i, {expression})
"""
HEADER = """import triton
import triton.language as tl
from triton.language.extra import libdevice
"""


def values(element: torch.dtype, least: float, greatest: float) -> torch.Tensor:
    if element.is_floating_point:
        return (torch.rand(COUNT, dtype=torch.float64) * (greatest - least) + least).to(element)
    least = max(least, torch.iinfo(element).min)
    return torch.randint(int(least), int(min(greatest, torch.iinfo(element).max)) + 1, (COUNT,)).to(element)


def result_type(name: str, element: torch.dtype) -> torch.dtype:
    if name.startswith("to ") and not name.endswith("back"):
        return getattr(torch, name[3:])
    if name in {"compare", "argmax", "argmin", "histogram", "bits"}:
        return torch.int32
    return element


def check(kernel: object, name: str, type_name: str) -> None:
    _, wanted_text, _, limits, roundings = EXPRESSIONS[name]
    element = getattr(torch, type_name)
    torch.manual_seed(len(name))
    x, y = values(element, *limits), values(element, *limits)
    kind = result_type(name, element)
    out = torch.empty(COUNT, dtype=kind, device="cuda")
    kernel[(1,)](x.cuda(), y.cuda(), out, COUNT=COUNT)
    wide = torch.float64 if element.is_floating_point else torch.int64
    names = {"x": x.to(wide), "y": y.to(wide), "torch": torch, "functools": importlib.import_module("functools")}
    wanted = eval(wanted_text, {**names, "operator": importlib.import_module("operator")})
    if not kind.is_floating_point:
        assert torch.equal(out.cpu(), wanted.to(kind)), f"{out.cpu()[:4].tolist()} for {wanted[:4].tolist()}"
        return
    error = (out.cpu().double() - wanted).abs()
    # Of the result, of 1 and of the operands: where terms cancel, their roundings stay.
    size = torch.stack([wanted.double().abs(), x.double().abs(), torch.ones(COUNT).double()]).amax(0)
    bound = roundings * torch.finfo(kind).eps / 2 * size
    assert bool((error <= bound).all()), f"off by {error.max():.3g}"


def main() -> None:
    suite = Suite(sys.argv[1])
    only = sys.argv[3] if len(sys.argv) > 3 else ""
    with tempfile.TemporaryDirectory() as directory:
        text = HEADER + "\n".join(
            TEMPLATE.format(index=index, expression=row[0]) for index, row in enumerate(EXPRESSIONS.values())
        )
        (Path(directory) / "rows_of_triton.py").write_text(text)
        sys.path.insert(0, directory)
        kernels = importlib.import_module("rows_of_triton")
        for index, (name, row) in enumerate(EXPRESSIONS.items()):
            for type_name in row[2].split():
                if only in f"{name} {type_name}":
                    kernel = getattr(kernels, f"kernel_{index}")
                    suite.run(f"{name} {type_name}", lambda k=kernel, n=name, t=type_name: check(k, n, t))


main()
