#include "on_device.cuh"

__global__ void reduce(const int* from, int* sum) {
  __shared__ int part[128];
  part[threadIdx.x] = from[threadIdx.x];
  for (int half = 64; half > 0; half /= 2) {
    __syncthreads();
    if (threadIdx.x < half) part[threadIdx.x] += part[threadIdx.x + half];
  }
  if (threadIdx.x == 0) *sum = part[0];
}

TEST(Reduce, Sum) {
  const OnDevice<int> from(counted(128)), sum(counted(1));
  reduce<<<1, 128>>>(from, sum);
  EXPECT_EQ(sum.numbers()[0], 127 * 128 / 2);
}
