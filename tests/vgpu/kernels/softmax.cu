// One row of 64 per warp, numerically safe.
extern "C" __global__ void softmax(const float* in, float* out, unsigned* work, int n) {
  const int row = blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32, lane = threadIdx.x % 32;
  if (row >= n) return;
  const float a = in[row * 64 + lane], b = in[row * 64 + 32 + lane];
  float most = fmaxf(a, b);
  for (int d = 16; d > 0; d >>= 1) most = fmaxf(most, __shfl_xor_sync(0xffffffffu, most, d));
  const float ea = __expf(a - most), eb = __expf(b - most);
  float sum = ea + eb;
  for (int d = 16; d > 0; d >>= 1) sum += __shfl_xor_sync(0xffffffffu, sum, d);
  out[row * 64 + lane] = ea / sum;
  out[row * 64 + 32 + lane] = eb / sum;
}
