"""Taichi with arch=ti.cuda: kernels over fields and arrays, each against NumPy.    taichi_suite.py CASES"""

# Taichi reads the annotations of its kernels as objects: no "from __future__ import annotations" here,
# and what returns nothing must not say so.
# ruff: noqa: ANN202

import importlib
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import numpy as np
import taichi as ti
from cases import Suite

ti.init(arch=ti.cuda, offline_cache=False, device_memory_GB=0.25, log_level=ti.ERROR)
COUNT = 1000

# Expressions over x, of floats in [0.5, 2), and what they are in NumPy.
FUNCTIONS = {
    "x * 2 + 1": "x * 2 + 1",
    "x / 3": "x / 3",
    "ti.sin(x)": "np.sin(x)",
    "ti.cos(x)": "np.cos(x)",
    "ti.exp(x)": "np.exp(x)",
    "ti.log(x)": "np.log(x)",
    "ti.sqrt(x)": "np.sqrt(x)",
    "ti.rsqrt(x)": "1 / np.sqrt(x)",
    "ti.tanh(x)": "np.tanh(x)",
    "ti.floor(x)": "np.floor(x)",
    "ti.max(x, 1.0)": "np.maximum(x, 1)",
    "ti.abs(x - 1)": "np.abs(x - 1)",
    "x ** 3": "x ** 3",
    "ti.atan2(x, 2.0)": "np.arctan2(x, 2)",
    "ti.asin(x / 2)": "np.arcsin(x / 2)",
    "ti.select(x > 1, x, 0.0)": "np.where(x > 1, x, 0)",
}


TEMPLATE = """
@ti.kernel
def run_{index}(field: ti.template()):
    for i in field:
        x = field[i]
        field[i] = {expression}
"""


def write_kernels(directory: str) -> ModuleType:
    """Taichi, too, reads the sources of its kernels from files, when they are first called."""
    kernels = [TEMPLATE.format(index=index, expression=one) for index, one in enumerate(FUNCTIONS)]
    (Path(directory) / "rows_of_taichi.py").write_text("import taichi as ti\n" + "".join(kernels))
    sys.path.insert(0, directory)
    return importlib.import_module("rows_of_taichi")


def function(kernel: Callable, wanted: str) -> None:
    for kind, numpy_kind in ((ti.f32, np.float32), (ti.f64, np.float64)):
        field = ti.field(kind, COUNT)
        x = np.random.default_rng(1).uniform(0.5, 2, COUNT).astype(numpy_kind)
        field.from_numpy(x)
        kernel(field)
        exact = eval(wanted, {"np": np, "x": x.astype(np.float64)})
        # Its fast mathematics are the device's approximations; constants in a kernel are of single precision.
        bound = 64 * np.finfo(np.float32).eps * max(1.0, np.abs(exact).max())
        error = np.abs(field.to_numpy() - exact).max()
        assert error <= bound, f"off by {error:.3g}, allowed {bound:.3g}"


def reduction() -> None:
    field, total = ti.field(ti.i32, COUNT), ti.field(ti.i32, ())

    @ti.kernel
    def run():
        for i in field:
            field[i] = i * i % 17
            total[None] += field[i]

    run()
    assert total[None] == sum(i * i % 17 for i in range(COUNT))


def matrices() -> None:
    field = ti.Matrix.field(3, 3, ti.f32, 10)

    @ti.kernel
    def run():
        for i in field:
            a = ti.Matrix([[1.0, i, 0.0], [0.0, 1.0, 2.0], [i, 0.0, 1.0]])
            field[i] = a @ a

    run()
    for i in range(10):
        a = np.array([[1, i, 0], [0, 1, 2], [i, 0, 1]], np.float32)
        assert np.array_equal(field[i].to_numpy(), a @ a)


def arrays() -> None:
    @ti.kernel
    def transposed(a: ti.types.ndarray(), b: ti.types.ndarray()):
        for i, j in a:
            b[j, i] = a[i, j]

    a = np.random.default_rng(2).random((20, 31), dtype=np.float32)
    b = np.zeros((31, 20), np.float32)
    transposed(a, b)
    assert np.array_equal(b, a.T)


def atomics() -> None:
    bins = ti.field(ti.i32, 8)

    @ti.kernel
    def run():
        for i in range(COUNT):
            ti.atomic_add(bins[i * 7 % 8], 1)

    run()
    assert np.array_equal(bins.to_numpy(), np.bincount(np.arange(COUNT) * 7 % 8, minlength=8))


def mandelbrot() -> None:
    image = ti.field(ti.i32, (40, 20))

    @ti.kernel
    def run():
        for i, j in image:
            c = ti.Vector([i / 20.0 - 1.5, j / 10.0 - 1.0])
            z = ti.Vector([0.0, 0.0])
            n = 0
            while z.norm_sqr() < 4.0 and n < 20:
                z = ti.Vector([z[0] * z[0] - z[1] * z[1] + c[0], 2.0 * z[0] * z[1] + c[1]])
                n += 1
            image[i, j] = n

    run()
    found = image.to_numpy()
    assert found.max() == 20 and found.min() >= 1 and found[30, 10] == 20 and found[0, 0] < 5


def differentiated() -> None:
    x, loss = ti.field(ti.f32, 16, needs_grad=True), ti.field(ti.f32, (), needs_grad=True)
    x.from_numpy(np.arange(16, dtype=np.float32))

    @ti.kernel
    def run():
        for i in x:
            loss[None] += x[i] * x[i]

    with ti.ad.Tape(loss):
        run()
    assert np.array_equal(x.grad.to_numpy(), 2 * np.arange(16, dtype=np.float32)) and loss[None] == sum(
        i * i for i in range(16)
    )


def sparse() -> None:
    field = ti.field(ti.i32)
    ti.root.pointer(ti.i, 16).dense(ti.i, 8).place(field)

    @ti.kernel
    def run():
        for i in range(10):
            field[i * 12] = i

    @ti.kernel
    def count() -> ti.i32:
        seen = 0
        for _ in field:
            seen += 1
        return seen

    run()
    assert count() == 8 * len({i * 12 // 8 for i in range(10)})


def main() -> None:
    suite = Suite(sys.argv[1])
    with tempfile.TemporaryDirectory() as directory:
        kernels = write_kernels(directory)
        for index, (expression, wanted) in enumerate(FUNCTIONS.items()):
            kernel = getattr(kernels, f"run_{index}")
            suite.run(expression, lambda k=kernel, w=wanted: function(k, w))
    for case in (reduction, matrices, arrays, atomics, mandelbrot, differentiated, sparse):
        suite.run(case.__name__, case)


main()
