// A scan over blocks in one pass: each waits for its predecessor's flag. work: flags, then prefixes.
extern "C" __global__ void lookback(const float* in, float* out, unsigned* work, int n) {
  __shared__ float warps[4];
  __shared__ float before;
  const int t = threadIdx.x, lane = t % 32, i = blockIdx.x * 128 + t;
  volatile unsigned* const flags = work;
  float value = in[i];
  for (int d = 1; d < 32; d <<= 1) {
    const float left = __shfl_up_sync(0xffffffffu, value, d);
    if (lane >= d) value += left;
  }
  if (lane == 31) warps[t / 32] = value;
  __syncthreads();
  for (int w = 0; w < t / 32; ++w) value += warps[w];
  if (t == 127) {
    float prefix = 0;
    if (blockIdx.x > 0) {
      while (flags[blockIdx.x - 1] == 0) {
      }
      __threadfence();  // acquire
      prefix = ((float*)work)[32 + blockIdx.x - 1];
    }
    before = prefix;
    ((float*)work)[32 + blockIdx.x] = prefix + value;
    __threadfence();  // release
    flags[blockIdx.x] = 1;
  }
  __syncthreads();
  out[i] = before + value;
}
