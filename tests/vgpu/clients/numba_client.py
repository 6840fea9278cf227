"""numba-cuda on the virtual GPU: saxpy, a tiled matmul, a histogram, a warp-shuffle reduction, the grid's barrier."""

from __future__ import annotations

import gc
import sys

import numpy as np
from numba import cuda, float32, int32

TILE = 16
BINS = 64


@cuda.jit
def saxpy(a: float, x: np.ndarray, y: np.ndarray, out: np.ndarray) -> None:
    i = cuda.grid(1)
    if i < out.size:
        out[i] = a * x[i] + y[i]


@cuda.jit
def matmul(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> None:
    tile_a = cuda.shared.array((TILE, TILE), float32)
    tile_b = cuda.shared.array((TILE, TILE), float32)
    column, row = cuda.grid(2)
    tx, ty = cuda.threadIdx.x, cuda.threadIdx.y
    total = float32(0)
    for step in range((a.shape[1] + TILE - 1) // TILE):
        k = step * TILE
        tile_a[ty, tx] = a[row, k + tx] if row < a.shape[0] and k + tx < a.shape[1] else float32(0)
        tile_b[ty, tx] = b[k + ty, column] if column < b.shape[1] and k + ty < b.shape[0] else float32(0)
        cuda.syncthreads()
        for j in range(TILE):
            total += tile_a[ty, j] * tile_b[j, tx]
        cuda.syncthreads()
    if row < c.shape[0] and column < c.shape[1]:
        c[row, column] = total


@cuda.jit
def histogram(values: np.ndarray, counts: np.ndarray) -> None:
    local = cuda.shared.array(BINS, int32)
    if cuda.threadIdx.x < BINS:
        local[cuda.threadIdx.x] = 0
    cuda.syncthreads()
    for i in range(cuda.grid(1), values.size, cuda.gridsize(1)):
        cuda.atomic.add(local, values[i], 1)
    cuda.syncthreads()
    if cuda.threadIdx.x < BINS:
        cuda.atomic.add(counts, cuda.threadIdx.x, local[cuda.threadIdx.x])


@cuda.jit
def warp_sums(values: np.ndarray, sums: np.ndarray) -> None:
    i = cuda.grid(1)
    value = values[i] if i < values.size else 0
    offset = 16
    while offset > 0:
        value += cuda.shfl_down_sync(0xFFFFFFFF, value, offset)
        offset //= 2
    if cuda.laneid == 0:
        sums[i // 32] = value


@cuda.jit
def mirrored_rows(rows: np.ndarray) -> None:
    """Each row is the one above it, written by other blocks, from right to left."""
    grid = cuda.cg.this_grid()
    column = cuda.grid(1)
    for row in range(1, rows.shape[0]):
        rows[row, column] = rows[row - 1, rows.shape[1] - 1 - column] + 1
        grid.sync()


def run_saxpy(rng: np.random.Generator) -> None:
    x, y = (rng.standard_normal(5_001, dtype=np.float32) for _ in range(2))
    out = cuda.device_array_like(x)
    saxpy[(x.size + 127) // 128, 128](np.float32(3), cuda.to_device(x), cuda.to_device(y), out)
    expected = (3 * x.astype(np.float64) + y).astype(np.float32)
    assert np.array_equal(out.copy_to_host(), expected)
    print("saxpy: right")


def run_matmul(rng: np.random.Generator) -> None:
    # Small integers: every order of summation gives the same float.
    a = rng.integers(-8, 8, (45, 70)).astype(np.float32)
    b = rng.integers(-8, 8, (70, 33)).astype(np.float32)
    c = cuda.device_array((45, 33), np.float32)
    matmul[((33 + TILE - 1) // TILE, (45 + TILE - 1) // TILE), (TILE, TILE)](cuda.to_device(a), cuda.to_device(b), c)
    assert np.array_equal(c.copy_to_host(), a @ b)
    print("tiled matmul in shared memory: right")


def run_histogram(rng: np.random.Generator) -> None:
    values = rng.integers(0, BINS, 20_000).astype(np.int32)
    counts = cuda.to_device(np.zeros(BINS, np.int32))
    histogram[8, 128](cuda.to_device(values), counts)
    assert np.array_equal(counts.copy_to_host(), np.bincount(values, minlength=BINS))
    print("atomic histogram: right")


def run_warp_sums(rng: np.random.Generator) -> None:
    values = rng.integers(-1000, 1000, 64 * 32).astype(np.int32)
    sums = cuda.device_array(64, np.int32)
    warp_sums[values.size // 256, 256](cuda.to_device(values), sums)
    assert np.array_equal(sums.copy_to_host(), values.reshape(-1, 32).sum(axis=1))
    print("warp-shuffle reduction: right")


def run_mirrored_rows(_rng: np.random.Generator) -> None:
    rows = np.full((6, 4 * 64), -1000, np.int32)
    rows[0] = np.arange(rows.shape[1])
    on_device = cuda.to_device(rows)
    mirrored_rows[4, 64](on_device)
    for row in range(1, rows.shape[0]):
        rows[row] = rows[row - 1, ::-1] + 1
    assert np.array_equal(on_device.copy_to_host(), rows)
    print("the grid's barrier: right")


def main() -> int:
    name = cuda.get_current_device().name
    name = name.decode() if isinstance(name, bytes) else name
    print(name)
    assert name.endswith("(virtual)"), name
    rng = np.random.default_rng(7)
    for run in (run_saxpy, run_matmul, run_histogram, run_warp_sums, run_mirrored_rows):
        run(rng)
    # numba puts frees off; memcheck would call them leaks.
    gc.collect()
    cuda.current_context().memory_manager.deallocations.clear()
    return 0


if __name__ == "__main__":
    sys.exit(main())
