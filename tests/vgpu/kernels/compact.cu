// The number of positive values, one atomic per warp.
extern "C" __global__ void compact(const float* in, float* out, unsigned* work, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  const unsigned positive = __ballot_sync(0xffffffffu, i < n && in[i] > 0.0f);
  unsigned base = 0;
  if (threadIdx.x % 32 == 0) base = atomicAdd(work, (unsigned)__popc(positive));
  base = __shfl_sync(0xffffffffu, base, 0);
  const unsigned before = positive & ((1u << (threadIdx.x % 32)) - 1u);
  if ((positive >> (threadIdx.x % 32)) & 1u) out[base + __popc(before)] = in[i];
}
