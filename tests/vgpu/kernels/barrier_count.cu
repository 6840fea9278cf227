// __syncthreads_count and _or.
extern "C" __global__ void barrier_count(const float* in, float* out, unsigned* work, int n) {
  const float value = in[blockIdx.x * blockDim.x + threadIdx.x];
  const int positive = __syncthreads_count(value > 0.0f);
  const int any = __syncthreads_or(value > 5.0f);
  out[blockIdx.x * blockDim.x + threadIdx.x] = (float)(positive + (any != 0 ? 1000 : 0));
}
