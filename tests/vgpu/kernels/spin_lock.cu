// One thread of each block adds to a plain variable under a lock.
extern "C" __global__ void spin_lock(const float* in, float* out, unsigned* work, int n) {
  if (threadIdx.x == 0) {
    while (atomicCAS(work, 0u, 1u) != 0u) {
    }
    __threadfence();  // acquire
    work[1] += (unsigned)(in[blockIdx.x] + 8.0f);
    __threadfence();  // release
    atomicExch(work, 0u);
  }
}
