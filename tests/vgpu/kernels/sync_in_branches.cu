// Lanes meet at two different __syncwarp(): what counts is that all of them come.
extern "C" __global__ void sync_in_branches(const float* in, float* out, unsigned* work, int n) {
  __shared__ float values[64];
  const int t = threadIdx.x;
  if (t % 2 == 0) {
    values[t] = in[t];
    __syncwarp();
  } else {
    values[t] = -in[t];
    __syncwarp();
  }
  out[t] = values[t ^ 1];
}
