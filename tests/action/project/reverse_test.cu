#include "on_device.cuh"

__global__ void reverse(int* numbers) {
  __shared__ int tile[64];
  tile[threadIdx.x] = numbers[threadIdx.x];
  __syncthreads();
  numbers[threadIdx.x] = tile[63 - threadIdx.x];
}

TEST(Reverse, LastIsFirst) {
  const OnDevice<int> numbers(counted(64));
  reverse<<<1, 64>>>(numbers);
  const auto found = numbers.numbers();
  for (int i = 0; i < 64; ++i) EXPECT_EQ(found[i], 63 - i);
}
