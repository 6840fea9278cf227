#include "on_device.cuh"

__global__ void gather(const int* from, const int* places, int* to) {
  to[threadIdx.x] = from[places[threadIdx.x]];
}

TEST(Gather, FromItsPlace) {
  const OnDevice<int> from({5, 6, 7, 8}), places({3, 3, 0, 1}), to(counted(4));
  gather<<<1, 4>>>(from, places, to);
  EXPECT_EQ(to.numbers(), (std::vector<int>{8, 8, 5, 6}));
}
