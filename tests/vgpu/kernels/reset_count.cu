// A counter that one thread resets and all add to: the reset is a plain write, the rest is atomic.
extern "C" __global__ void reset_count(const float* in, float* out, unsigned* work, int n) {
  __shared__ unsigned count;
  if (threadIdx.x == 0) count = 0;
  __syncthreads();  // reset
  if (in[blockIdx.x * blockDim.x + threadIdx.x] > 0.0f) atomicAdd(&count, 1u);
  __syncthreads();  // counted
  if (threadIdx.x == 0) out[blockIdx.x] = (float)count;
}
