// Threads beyond the end leave; a barrier waits for those who are still there.
extern "C" __global__ void early_exit(const float* in, float* out, unsigned* work, int n) {
  __shared__ float values[64];
  const int i = blockIdx.x * 64 + threadIdx.x, here = min(64, n - (int)blockIdx.x * 64);
  if (i >= n) return;
  values[threadIdx.x] = in[i];
  __syncthreads();
  out[i] = values[here - 1 - threadIdx.x];
}
