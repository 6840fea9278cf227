#include "on_device.cuh"

__global__ void histogram(const int* numbers, int* counts) {
  const int bin = numbers[threadIdx.x] % 8;
  counts[bin] += 1;  // planted: two threads may read the same count before either writes
}

TEST(Histogram, AllAreCounted) {
  const OnDevice<int> numbers(counted(64)), counts(std::vector<int>(8, 0));
  histogram<<<1, 64>>>(numbers, counts);
  int sum = 0;
  for (const int count : counts.numbers()) sum += count;
  EXPECT_GT(sum, 0);
}
