// C = A + B, a length that is no multiple of a block.
#include "sample.cuh"

__global__ void add(const float* a, const float* b, float* c, int count) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) c[i] = a[i] + b[i];
}

int main() {
  constexpr int count = 10'007;
  const auto a = random_values<float>(count, -1, 1, 1), b = random_values<float>(count, -1, 1, 2);
  DeviceArray<float> device_a(a), device_b(b), device_c(count);
  add<<<blocks_for(count, 256), 256>>>(device_a, device_b, device_c, count);
  finish();
  const auto c = device_c.host();
  for (int i = 0; i < count; ++i) HOLDS(c[i] == a[i] + b[i]);
}
