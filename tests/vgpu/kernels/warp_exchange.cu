// Each warp turns its own 32 values round through shared memory; no block barrier is needed.
extern "C" __global__ void warp_exchange(const float* in, float* out, unsigned* work, int n) {
  __shared__ float of_warp[4][32];
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  float value = in[blockIdx.x * 128 + threadIdx.x];
  for (int round = 0; round < 3; ++round) {
    of_warp[warp][lane] = value;
    __syncwarp();  // written
    value = of_warp[warp][(lane + 5) % 32];
    __syncwarp();  // read
  }
  out[blockIdx.x * 128 + threadIdx.x] = value;
}
