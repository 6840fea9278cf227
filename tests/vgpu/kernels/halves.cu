#include <cuda_fp16.h>
// Pairs of halves.
extern "C" __global__ void halves(const float* in, float* out, unsigned* work, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (2 * i + 1 >= n) return;
  const __half2 pair = __floats2half2_rn(in[2 * i], in[2 * i + 1]);
  const float2 result = __half22float2(__hfma2(pair, pair, __floats2half2_rn(1.0f, 2.0f)));
  out[2 * i] = result.x;
  out[2 * i + 1] = result.y;
}
