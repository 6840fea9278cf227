#include "on_device.cuh"

__global__ void scan(int* numbers) {
  int sum = numbers[threadIdx.x];
  for (int distance = 1; distance < 32; distance *= 2) {
    const int left = __shfl_up_sync(0xffffffff, sum, distance);
    if (threadIdx.x >= distance) sum += left;
  }
  numbers[threadIdx.x] = sum;
}

TEST(Scan, SumsSoFar) {
  const OnDevice<int> numbers(counted(32));
  scan<<<1, 32>>>(numbers);
  const auto found = numbers.numbers();
  for (int i = 0; i < 32; ++i) EXPECT_EQ(found[i], i * (i + 1) / 2);
}
