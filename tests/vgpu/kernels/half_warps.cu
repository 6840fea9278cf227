// Each half of a warp turns its own 16 values round; the halves never wait for each other.
extern "C" __global__ void half_warps(const float* in, float* out, unsigned* work, int n) {
  __shared__ float of_warp[4][32];
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, first = lane & 16;
  const unsigned half = 0xffffu << first;
  of_warp[warp][lane] = in[blockIdx.x * 128 + threadIdx.x];
  __syncwarp(half);
  out[blockIdx.x * 128 + threadIdx.x] = of_warp[warp][first + (lane + 5) % 16];
}
