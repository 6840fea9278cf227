// One query a warp, keys and values of 32 in shared memory, running maximum and sum. n keys.
extern "C" __global__ void attention(const float* in, float* out, unsigned* work, int n) {
  __shared__ float keys[16][33], values[16][33];
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, query = blockIdx.x * 4 + warp;
  const float q = in[query * 32 + lane];
  const float *const k = in + 8 * 32, *const v = k + n * 32;
  float most = -INFINITY, sum = 0, result = 0;
  for (int tile = 0; tile < n; tile += 16) {
    for (int r = warp; r < 16; r += 4) {
      keys[r][lane] = k[(tile + r) * 32 + lane];
      values[r][lane] = v[(tile + r) * 32 + lane];
    }
    __syncthreads();
    for (int r = 0; r < 16; ++r) {
      float score = q * keys[r][lane] * 0.125f;
      for (int d = 16; d > 0; d >>= 1) score += __shfl_xor_sync(0xffffffffu, score, d);
      const float greater = fmaxf(most, score), scale = __expf(most - greater), weight = __expf(score - greater);
      sum = sum * scale + weight;
      result = result * scale + weight * values[r][lane];
      most = greater;
    }
    __syncthreads();
  }
  out[query * 32 + lane] = result / sum;
}
