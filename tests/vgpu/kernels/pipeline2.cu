__device__ void copy16(void* to, const void* from) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"((unsigned)__cvta_generic_to_shared(to)), "l"(from)
               : "memory");
}
__device__ void commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <int pending>
__device__ void wait() {
  asm volatile("cp.async.wait_group %0;" ::"n"(pending) : "memory");
}

// Two stages: one is computed on while the other comes in.
extern "C" __global__ void pipeline2(const float* in, float* out, unsigned* work, int n) {
  __shared__ alignas(16) float stage[2][512];
  const int t = threadIdx.x, tiles = n / 512;
  float sum = 0;
  copy16(&stage[0][t * 4], in + t * 4);
  commit();
  for (int tile = 0; tile < tiles; ++tile) {
    if (tile + 1 < tiles) copy16(&stage[(tile + 1) & 1][t * 4], in + (tile + 1) * 512 + t * 4);
    commit();
    wait<1>();
    __syncthreads();
    for (int i = 0; i < 4; ++i) sum += stage[tile & 1][(t * 4 + 128 + i) & 511];
    __syncthreads();
  }
  out[t] = sum;
}
