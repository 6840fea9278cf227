// The functions of the softmax, value by value.
#include "kernels/cuda/atoms/row_math.cuh"

extern "C" __global__ void functions(const float* x, int count, float* exp2, float* log2, float* inverse, float* tanh) {
  using namespace flashmoe::cuda;
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (i >= count) return;
  exp2[i] = exp2_fast(x[i]);
  log2[i] = log2_fast(x[i]);
  inverse[i] = reciprocal(x[i]);
  tanh[i] = hyperbolic_tangent(x[i]);
}

extern "C" __global__ void quads(const float* x, float* largest, float* sum, unsigned* thread, float* nan) {
  using namespace flashmoe::cuda;
  largest[threadIdx.x] = quad_max(x[threadIdx.x]);
  sum[threadIdx.x] = quad_sum(x[threadIdx.x]);
  thread[threadIdx.x] = thread_index_anew();
  nan[threadIdx.x] = not_a_number();
}
