// One thread per query row, 64 rows per block, keys and values through shared memory in tiles of 32. Online softmax in
// fp32, so the S x S scores never exist. Right, and slow for a reason that needs no GPU to be seen: at S = 128 and one
// head the grid has two blocks. `cudadent profile examples/attention_naive --device virtual:l4` says so.
#include <cuda_fp16.h>

constexpr int rows = 64;  // queries of a block, one per thread
constexpr int keys = 32;  // of a tile
constexpr int depth = 64;

extern "C" __global__ void __launch_bounds__(rows)
    attention_naive(const __half* __restrict__ q, const __half* __restrict__ k, const __half* __restrict__ v,
                    __half* __restrict__ o, float* __restrict__ lse, int length, int causal) {
  __shared__ __half k_tile[keys][depth];  // (keys, depth)
  __shared__ __half v_tile[keys][depth];  // (keys, depth)
  const long long head = static_cast<long long>(blockIdx.y) * length;
  const int row = blockIdx.x * rows + threadIdx.x;
  const float scale = rsqrtf(static_cast<float>(depth));

  float query[depth];
  float sum[depth] = {};
  for (int d = 0; d < depth; ++d)
    query[d] = row < length ? __half2float(q[(head + row) * depth + d]) * scale : 0.0f;
  float largest = -INFINITY;
  float weight_sum = 0.0f;

  for (int first = 0; first < length; first += keys) {
    for (int i = threadIdx.x; i < keys * depth; i += rows) {
      const int key = first + i / depth;
      const long long at = (head + key) * depth + i % depth;
      k_tile[i / depth][i % depth] = key < length ? k[at] : __float2half(0.0f);
      v_tile[i / depth][i % depth] = key < length ? v[at] : __float2half(0.0f);
    }
    __syncthreads();
    for (int j = 0; j < keys; ++j) {
      const int key = first + j;
      if (key >= length || (causal && key > row)) continue;
      float score = 0.0f;
      for (int d = 0; d < depth; ++d) score += query[d] * __half2float(k_tile[j][d]);
      const float now = fmaxf(largest, score);
      const float from = now == -INFINITY && score == now ? 0.0f : now;  // weight 0 before any other: no -inf - (-inf)
      const float shrink = __expf(largest - from);
      const float weight = __expf(score - from);
      weight_sum = weight_sum * shrink + weight;
      for (int d = 0; d < depth; ++d) sum[d] = sum[d] * shrink + weight * __half2float(v_tile[j][d]);
      largest = now;
    }
    __syncthreads();
  }

  if (row >= length) return;
  const float inverse = weight_sum > 0.0f ? 1.0f / weight_sum : weight_sum;
  for (int d = 0; d < depth; ++d)
    o[(head + row) * depth + d] = __float2half(weight_sum == 0.0f ? 0.0f : sum[d] * inverse);
  lse[head + row] = largest + logf(weight_sum);
}
