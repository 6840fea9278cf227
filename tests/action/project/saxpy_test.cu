#include "on_device.cuh"

__global__ void saxpy(int a, const int* x, int* y, int count) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) y[i] += a * x[i];
}

TEST(Saxpy, ThreeTimes) {
  const OnDevice<int> x(counted(100)), y(counted(100));
  saxpy<<<4, 32>>>(2, x, y, 100);
  const auto found = y.numbers();
  for (int i = 0; i < 100; ++i) EXPECT_EQ(found[i], 3 * i);
}
