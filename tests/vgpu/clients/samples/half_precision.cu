// A dot product of half2, and conversions to half and bfloat16 and back.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "sample.cuh"

__global__ void dot(const __half2* a, const __half2* b, int pairs, float* out) {
  __half2 sum = __float2half2_rn(0);
  for (int i = threadIdx.x; i < pairs; i += 32) sum = __hfma2(a[i], b[i], sum);
  float total = __low2float(sum) + __high2float(sum);
  for (int width = 16; width > 0; width /= 2) total += __shfl_xor_sync(~0U, total, width);
  if (threadIdx.x == 0) *out = total;
}

__global__ void there_and_back(const float* in, float* as_half, float* as_bfloat) {
  as_half[threadIdx.x] = __half2float(__float2half_rn(in[threadIdx.x]));
  as_bfloat[threadIdx.x] = __bfloat162float(__float2bfloat16_rn(in[threadIdx.x]));
}

int main() {
  constexpr int pairs = 160;
  std::vector<__half2> a, b;
  float wanted = 0;
  for (int i = 0; i < pairs; ++i) {  // small enough that every sum is exact in half
    const float x = static_cast<float>(i % 5 - 2), y = static_cast<float>(i % 3 - 1);
    a.push_back(__floats2half2_rn(x, y));
    b.push_back(__floats2half2_rn(y, x));
    wanted += 2 * x * y;
  }
  DeviceArray<__half2> device_a(a), device_b(b);
  DeviceArray<float> out(1);
  dot<<<1, 32>>>(device_a, device_b, pairs, out);
  finish();
  HOLDS(out.host()[0] == wanted);
  const auto in = random_values<float>(256, -100, 100);
  DeviceArray<float> device(in), as_half(256), as_bfloat(256);
  there_and_back<<<1, 256>>>(device, as_half, as_bfloat);
  finish();
  const auto halves = as_half.host(), bfloats = as_bfloat.host();
  for (int i = 0; i < 256; ++i) {
    HOLDS(halves[i] == __half2float(__float2half_rn(in[i])) &&
          std::abs(halves[i] - in[i]) <= std::abs(in[i]) * 0x1p-11);
    HOLDS(bfloats[i] == __bfloat162float(__float2bfloat16_rn(in[i])));
  }
}
