// The CUDA twin: one block per row. A thread keeps its maximum and sum of a strided part of the row; they are joined in
// a warp by shuffles, then over the warps through shared memory.
#include <cstdint>

namespace {

struct Partial {
  float largest;
  float sum;  // of exp(x - largest)
};

__device__ Partial join(Partial a, Partial b) {
  if (a.largest == -INFINITY && b.largest == -INFINITY) return {-INFINITY, a.sum + b.sum};  // no -inf - (-inf)
  const float largest = fmaxf(a.largest, b.largest);  // of a NaN and a number the number; the sum is NaN then
  return {largest, a.sum * __expf(a.largest - largest) + b.sum * __expf(b.largest - largest)};
}

__device__ Partial join_warp(Partial p) {
  for (int distance = 16; distance > 0; distance /= 2) {
    p = join(p, {__shfl_xor_sync(~0u, p.largest, distance), __shfl_xor_sync(~0u, p.sum, distance)});
  }
  return p;
}

}  // namespace

template <int threads>
__global__ void __launch_bounds__(threads)
    softmax_kernel(const float* __restrict__ x, float* __restrict__ y, std::int64_t cols) {
  __shared__ Partial of_warp[threads / 32];
  const float* in = x + blockIdx.x * cols;
  float* out = y + blockIdx.x * cols;

  Partial p{-INFINITY, 0};
  for (std::int64_t j = threadIdx.x; j < cols; j += threads) p = join(p, {in[j], 1});
  p = join_warp(p);
  if (threadIdx.x % 32 == 0) of_warp[threadIdx.x / 32] = p;
  __syncthreads();
  const int lane = threadIdx.x % 32;
  p = join_warp(lane < threads / 32 ? of_warp[lane] : Partial{-INFINITY, 0});

  const float scale = 1 / p.sum;
  for (std::int64_t j = threadIdx.x; j < cols; j += threads) out[j] = __expf(in[j] - p.largest) * scale;
}

template __global__ void softmax_kernel<128>(const float*, float*, std::int64_t);
template __global__ void softmax_kernel<256>(const float*, float*, std::int64_t);
