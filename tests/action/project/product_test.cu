#include "on_device.cuh"

__global__ void product(const int* a, const int* b, int* c) {
  int sum = 0;
  for (int k = 0; k < 16; ++k) sum += a[16 * threadIdx.y + k] * b[16 * k + threadIdx.x];
  c[16 * threadIdx.y + threadIdx.x] = sum;
}

TEST(Product, TwiceTheUnit) {
  std::vector<int> unit(256, 0);
  for (int i = 0; i < 16; ++i) unit[17 * i] = 2;
  const OnDevice<int> a(counted(256)), b(unit), c(counted(256));
  product<<<1, dim3(16, 16)>>>(a, b, c);
  const auto found = c.numbers();
  for (int i = 0; i < 256; ++i) EXPECT_EQ(found[i], 2 * i);
}
