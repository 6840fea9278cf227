// Inclusive scan of 256 by Hillis and Steele, two buffers.
extern "C" __global__ void scan(const float* in, float* out, unsigned* work, int n) {
  __shared__ float buffer[2][256];
  const int t = threadIdx.x;
  int now = 0;
  buffer[0][t] = in[t];
  __syncthreads();
  for (int d = 1; d < 256; d <<= 1) {
    buffer[1 - now][t] = buffer[now][t] + (t >= d ? buffer[now][t - d] : 0.0f);
    now = 1 - now;
    __syncthreads();
  }
  out[t] = buffer[now][t];
}
