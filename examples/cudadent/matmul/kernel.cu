// The CUDA twin: a block computes tile x tile of C, staging slices of A and B through shared memory; every thread holds
// (tile / threads) x (tile / threads) results in registers.
#include <cstdint>

template <int tile, int threads>
__global__ void __launch_bounds__(threads* threads)
    matmul_kernel(const float* __restrict__ a, const float* __restrict__ b, float* __restrict__ c, std::int64_t M,
                  std::int64_t N, std::int64_t K) {
  constexpr int depth = 16;           // of a slice
  constexpr int each = tile / threads;  // results of a thread, per axis
  __shared__ float a_slice[depth][tile + 4];  // transposed; the padding keeps the stores off one bank
  __shared__ float b_slice[depth][tile];
  const int thread = threadIdx.y * threads + threadIdx.x;
  const std::int64_t row0 = static_cast<std::int64_t>(blockIdx.y) * tile;
  const std::int64_t col0 = static_cast<std::int64_t>(blockIdx.x) * tile;

  float sum[each][each] = {};
  for (std::int64_t k0 = 0; k0 < K; k0 += depth) {
    for (int at = thread; at < depth * tile; at += threads * threads) {
      const int row = at / depth, k = at % depth;
      a_slice[k][row] = row0 + row < M && k0 + k < K ? a[(row0 + row) * K + k0 + k] : 0;
    }
    for (int at = thread; at < depth * tile; at += threads * threads) {
      const int k = at / tile, col = at % tile;
      b_slice[k][col] = col0 + col < N && k0 + k < K ? b[(k0 + k) * N + col0 + col] : 0;
    }
    __syncthreads();
    for (int k = 0; k < depth; ++k) {
      for (int i = 0; i < each; ++i) {
        for (int j = 0; j < each; ++j) {
          sum[i][j] += a_slice[k][threadIdx.y * each + i] * b_slice[k][threadIdx.x + j * threads];
        }
      }
    }
    __syncthreads();
  }
  for (int i = 0; i < each; ++i) {
    for (int j = 0; j < each; ++j) {
      const std::int64_t row = row0 + threadIdx.y * each + i, col = col0 + threadIdx.x + j * threads;
      if (row < M && col < N) c[row * N + col] = sum[i][j];
    }
  }
}

template __global__ void matmul_kernel<TILE, SIDE>(const float*, const float*, float*, std::int64_t, std::int64_t,
                                                  std::int64_t);  // tunables of cudadent.toml
