// Warps 0 and 1 produce, warps 2 and 3 consume; two named barriers pass the buffer to and fro.
extern "C" __global__ void named_barriers(const float* in, float* out, unsigned* work, int n) {
  __shared__ float buffer[64];
  const int t = threadIdx.x;
  float sum = 0;
  for (int round = 0; round < n / 64; ++round) {
    if (t < 64) {
      if (round > 0) asm volatile("bar.sync 2, 128;" ::: "memory");  // empty
      buffer[t] = in[round * 64 + t];
      asm volatile("bar.arrive 1, 128;" ::: "memory");  // full
    } else {
      asm volatile("bar.sync 1, 128;" ::: "memory");  // full
      sum += buffer[127 - t];
      if (round + 1 < n / 64) asm volatile("bar.arrive 2, 128;" ::: "memory");  // empty
    }
  }
  if (t >= 64) out[t - 64] = sum;
}
