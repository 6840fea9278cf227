#include "on_device.cuh"

__global__ void transpose(const int* from, int* to) {
  __shared__ int tile[32][33];
  for (int row = threadIdx.y; row < 32; row += 8) tile[row][threadIdx.x] = from[32 * row + threadIdx.x];
  __syncthreads();
  for (int row = threadIdx.y; row < 32; row += 8) to[32 * row + threadIdx.x] = tile[threadIdx.x][row];
}

TEST(Transpose, RowsAreColumns) {
  const OnDevice<int> from(counted(1024)), to(std::vector<int>(1024));
  transpose<<<1, dim3(32, 8)>>>(from, to);
  const auto found = to.numbers();
  for (int i = 0; i < 1024; ++i) EXPECT_EQ(found[i], i % 32 * 32 + i / 32);
}
