// Warp sums by shuffles, then one warp adds them.
extern "C" __global__ void reduce_shuffle(const float* in, float* out, unsigned* work, int n) {
  __shared__ float of_warp[8];
  float sum = in[blockIdx.x * 256 + threadIdx.x];
  for (int d = 16; d > 0; d >>= 1) sum += __shfl_xor_sync(0xffffffffu, sum, d);
  if (threadIdx.x % 32 == 0) of_warp[threadIdx.x / 32] = sum;
  __syncthreads();
  if (threadIdx.x < 32) {
    sum = threadIdx.x < 8 ? of_warp[threadIdx.x] : 0.0f;
    for (int d = 4; d > 0; d >>= 1) sum += __shfl_xor_sync(0xffffffffu, sum, d);
    if (threadIdx.x == 0) out[blockIdx.x] = sum;
  }
}
