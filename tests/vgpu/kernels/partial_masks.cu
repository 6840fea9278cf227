// Odd and even lanes part and shuffle among themselves.
extern "C" __global__ void partial_masks(const float* in, float* out, unsigned* work, int n) {
  const int t = threadIdx.x;
  float value = in[blockIdx.x * 32 + t];
  if (t % 2 == 0) {
    for (int d = 16; d > 1; d >>= 1) value += __shfl_xor_sync(0x55555555u, value, d);
  } else {
    for (int d = 16; d > 1; d >>= 1) value = fmaxf(value, __shfl_xor_sync(0xaaaaaaaau, value, d));
  }
  __syncwarp();
  out[blockIdx.x * 32 + t] = value;
}
