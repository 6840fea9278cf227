// Two arrays cut from one dynamic allocation.
extern __shared__ float pool[];
extern "C" __global__ void dynamic_shared(const float* in, float* out, unsigned* work, int n) {
  float* const left = pool;
  float* const right = pool + blockDim.x;
  const int t = threadIdx.x;
  left[t] = in[t];
  right[t] = in[blockDim.x + t];
  __syncthreads();
  out[t] = left[blockDim.x - 1 - t] - right[(t + 1) % blockDim.x];
}
