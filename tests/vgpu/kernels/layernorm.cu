// A row of 256 per block: mean and variance through shared memory.
extern "C" __global__ void layernorm(const float* in, float* out, unsigned* work, int n) {
  __shared__ float sums[8];
  __shared__ float mean, variance;
  const int t = threadIdx.x;
  const float value = in[blockIdx.x * 256 + t];
  float sum = value;
  for (int d = 16; d > 0; d >>= 1) sum += __shfl_xor_sync(0xffffffffu, sum, d);
  if (t % 32 == 0) sums[t / 32] = sum;
  __syncthreads();
  if (t == 0) {
    float total = 0;
    for (int w = 0; w < 8; ++w) total += sums[w];
    mean = total / 256.0f;
  }
  __syncthreads();
  float square = (value - mean) * (value - mean);
  for (int d = 16; d > 0; d >>= 1) square += __shfl_xor_sync(0xffffffffu, square, d);
  if (t % 32 == 0) sums[t / 32] = square;
  __syncthreads();
  if (t == 0) {
    float total = 0;
    for (int w = 0; w < 8; ++w) total += sums[w];
    variance = total / 256.0f;
  }
  __syncthreads();
  out[blockIdx.x * 256 + t] = (value - mean) * rsqrtf(variance + 1e-5f);
}
