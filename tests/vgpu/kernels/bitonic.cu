// 256 values sorted in shared memory.
extern "C" __global__ void bitonic(const float* in, float* out, unsigned* work, int n) {
  __shared__ float v[256];
  const int t = threadIdx.x;
  v[t] = in[t];
  __syncthreads();
  for (int k = 2; k <= 256; k <<= 1) {
    for (int j = k >> 1; j > 0; j >>= 1) {
      const int other = t ^ j;
      if (other > t) {
        const float a = v[t], b = v[other];
        if ((a > b) == ((t & k) == 0)) {
          v[t] = b;
          v[other] = a;
        }
      }
      __syncthreads();
    }
  }
  out[t] = v[t];
}
