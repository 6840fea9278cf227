#include "on_device.cuh"

__global__ void stencil(const int* from, int* to, int count) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i > 0 && i < count)
    to[i] = from[i - 1] + from[i + 1];  // planted: the last one has no right neighbour
}

TEST(Stencil, SumOfNeighbours) {
  const OnDevice<int> from(counted(100)), to(std::vector<int>(100, 0));
  stencil<<<4, 32>>>(from, to, 100);
  const auto found = to.numbers();
  for (int i = 1; i < 99; ++i) EXPECT_EQ(found[i], 2 * i);
}
