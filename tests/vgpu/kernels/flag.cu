// Block 0 writes and raises a flag; block 1 waits for it and reads.
extern "C" __global__ void flag(const float* in, float* out, unsigned* work, int n) {
  volatile unsigned* raised = work;
  if (blockIdx.x == 0) {
    out[threadIdx.x] = in[threadIdx.x] * 2.0f;
    __threadfence();  // release
    __syncthreads();
    if (threadIdx.x == 0) {
      __threadfence();
      *raised = 1;
    }
  } else {
    if (threadIdx.x == 0) {
      while (*raised == 0) {
      }
      __threadfence();  // acquire
    }
    __syncthreads();
    out[64 + threadIdx.x] = out[63 - threadIdx.x] + 1.0f;
  }
}
