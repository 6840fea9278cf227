__device__ void copy16(void* to, const void* from) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"((unsigned)__cvta_generic_to_shared(to)), "l"(from)
               : "memory");
}
__device__ void commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <int pending>
__device__ void wait() {
  asm volatile("cp.async.wait_group %0;" ::"n"(pending) : "memory");
}

// A ring of three stages with one barrier a tile.
extern "C" __global__ void pipeline3(const float* in, float* out, unsigned* work, int n) {
  __shared__ alignas(16) float stage[3][256];
  const int t = threadIdx.x, tiles = n / 256;
  float sum = 0;
  for (int s = 0; s < 2; ++s) {
    if (s < tiles) copy16(&stage[s][t * 4], in + s * 256 + t * 4);
    commit();
  }
  for (int tile = 0; tile < tiles; ++tile) {
    wait<1>();
    __syncthreads();
    const int next = tile + 2;
    if (next < tiles) copy16(&stage[next % 3][t * 4], in + next * 256 + t * 4);
    commit();
    for (int i = 0; i < 4; ++i) sum += stage[tile % 3][(t + 64 * i + 32) & 255] * (i + 1);
  }
  out[t] = sum;
}
