// mma.sync of one warp, a 16x8x16 product of half precision. Small integers: the sums are exact.
#include <cuda_fp16.h>

#include "sample.cuh"

__global__ void product(const __half* a, const __half* b, float* c) {
  const int group = threadIdx.x / 4, pair = threadIdx.x % 4 * 2;
  unsigned left[4], right[2];
  for (int i = 0; i < 4; ++i)
    left[i] = *reinterpret_cast<const unsigned*>(&a[(group + i % 2 * 8) * 16 + pair + i / 2 * 8]);
  for (int i = 0; i < 2; ++i) right[i] = *reinterpret_cast<const unsigned*>(&b[group * 16 + pair + i * 8]);
  float sum[4] = {};
  asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
      : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
      : "r"(left[0]), "r"(left[1]), "r"(left[2]), "r"(left[3]), "r"(right[0]), "r"(right[1]));
  for (int i = 0; i < 4; ++i) c[(group + i / 2 * 8) * 8 + pair + i % 2] = sum[i];
}

int main() {
  auto numbers = random_values<float>(16 * 16 + 8 * 16, -8, 8);
  std::vector<__half> a, b;  // (16, 16) by rows, (16, 8) by columns
  for (float& number : numbers) number = std::round(number);
  for (int i = 0; i < 256; ++i) a.push_back(__float2half(numbers[i]));
  for (int i = 256; i < 384; ++i) b.push_back(__float2half(numbers[i]));
  DeviceArray<__half> device_a(a), device_b(b);
  DeviceArray<float> c(16 * 8);
  product<<<1, 32>>>(device_a, device_b, c);
  finish();
  const auto ours = c.host();
  for (int row = 0; row < 16; ++row)
    for (int column = 0; column < 8; ++column) {
      float wanted = 0;
      for (int k = 0; k < 16; ++k) wanted += numbers[row * 16 + k] * numbers[256 + column * 16 + k];
      HOLDS(ours[row * 8 + column] == wanted);
    }
}
