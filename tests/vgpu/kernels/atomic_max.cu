// The greatest value of all blocks, by atomics alone.
extern "C" __global__ void atomic_max(const float* in, float* out, unsigned* work, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) atomicMax(&work[0], (unsigned)(in[i] + 8.0f));
}
