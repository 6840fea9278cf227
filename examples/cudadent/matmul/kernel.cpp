// C = A B, row-major. C is cut into tiles of 8 rows (or what the point says) and 32 columns that stay in registers
// while k runs: 16 vectors of 16 floats, and per k two loads of B, eight broadcasts of A and 16 multiply-adds.
#include <cudadent/kernel.h>

#include <algorithm>
#include <cstring>
#include <vector>

#ifndef TILE_ROWS  // cudadent says it: a tunable of cudadent.toml
#define TILE_ROWS 8
#endif

namespace {

constexpr int64_t tile_rows = TILE_ROWS;
constexpr int64_t tile_cols = 32;
using Vector = float __attribute__((vector_size(64), aligned(4), may_alias));  // two of them are a row of the tile

struct Row {
  Vector left, right;
};

// (rows, K) times the panel (K, 32), of which the first `cols` columns are wanted.
template <int64_t rows>
void tile(const float* a, int64_t K, const float* panel, float* c, int64_t N, int64_t cols) {
  Row sum[rows]{};
  for (int64_t k = 0; k < K; ++k) {
    const Row& b = reinterpret_cast<const Row*>(panel)[k];
    for (int64_t i = 0; i < rows; ++i) {
      sum[i].left += a[i * K + k] * b.left;
      sum[i].right += a[i * K + k] * b.right;
    }
  }
  for (int64_t i = 0; i < rows; ++i) std::memcpy(c + i * N, &sum[i], static_cast<size_t>(cols) * sizeof(float));
}

}  // namespace

extern "C" int matmul(const cudadent_call* call) {
  const cudadent_tensor* A = cudadent_find_tensor(call, "A");  // (M, K)
  const cudadent_tensor* B = cudadent_find_tensor(call, "B");  // (K, N)
  const auto* a = static_cast<const float*>(A->data);
  const auto* b = static_cast<const float*>(B->data);
  auto* c = static_cast<float*>(cudadent_find_tensor(call, "C")->data);  // (M, N)
  const int64_t M = A->shape[0];
  const int64_t K = A->shape[1];
  const int64_t N = B->shape[1];

  // A copy of 32 columns of B, padded with zeros: rows of B a power of two apart would share a few sets of the cache.
  std::vector<float> panel(static_cast<size_t>(K * tile_cols));
  for (int64_t j = 0; j < N; j += tile_cols) {
    const int64_t cols = std::min(tile_cols, N - j);
    for (int64_t k = 0; k < K; ++k) std::copy_n(b + k * N + j, cols, panel.data() + k * tile_cols);
    int64_t i = 0;
    for (; i + tile_rows <= M; i += tile_rows) tile<tile_rows>(a + i * K, K, panel.data(), c + i * N + j, N, cols);
    for (; i < M; ++i) tile<1>(a + i * K, K, panel.data(), c + i * N + j, N, cols);
  }
  return 0;
}
