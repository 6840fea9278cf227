// Element by element, with a guard for the last block.
extern "C" __global__ void copy(const float* in, float* out, unsigned* work, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = in[i];
}
