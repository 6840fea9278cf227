__device__ void copy16(void* to, const void* from) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"((unsigned)__cvta_generic_to_shared(to)), "l"(from)
               : "memory");
}
__device__ void commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <int pending>
__device__ void wait() {
  asm volatile("cp.async.wait_group %0;" ::"n"(pending) : "memory");
}

// 128 threads bring 512 floats in, each reads what another brought.
extern "C" __global__ void copy_async(const float* in, float* out, unsigned* work, int n) {
  __shared__ alignas(16) float tile[512];
  const int t = threadIdx.x;
  copy16(&tile[t * 4], in + blockIdx.x * 512 + t * 4);
  commit();
  wait<0>();
  __syncthreads();
  for (int i = 0; i < 4; ++i) out[blockIdx.x * 512 + i * 128 + t] = tile[511 - (i * 128 + t)];
}
