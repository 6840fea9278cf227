#include "on_device.cuh"

__global__ void fill(int* to, int value, int count) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) to[i] = value;
}

TEST(Fill, EveryNumber) {
  const OnDevice<int> numbers(counted(100));
  fill<<<4, 32>>>(numbers, 7, 100);
  EXPECT_EQ(numbers.numbers(), std::vector<int>(100, 7));
}
