// All blocks meet at a counter, then read what their neighbours wrote.
extern "C" __global__ void grid_barrier(const float* in, float* out, unsigned* work, int n) {
  const int t = threadIdx.x, size = blockDim.x;
  out[blockIdx.x * size + t] = in[blockIdx.x * size + t] * 3.0f;
  __syncthreads();
  if (t == 0) {
    __threadfence();  // release
    atomicAdd(work, 1u);
    while (atomicAdd(work, 0u) < gridDim.x) {
    }
    __threadfence();  // acquire
  }
  __syncthreads();
  const int neighbour = (blockIdx.x + 1) % gridDim.x;
  out[(gridDim.x + blockIdx.x) * size + t] = out[neighbour * size + t];
}
