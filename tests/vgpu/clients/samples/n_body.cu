// Forces between bodies, tiles of them in shared memory, against double on the host.
#include "sample.cuh"

constexpr int threads = 64;

__global__ void accelerate(const float4* bodies, float3* out, int count) {
  __shared__ float4 tile[threads];
  const int i = blockIdx.x * threads + threadIdx.x;
  const float4 mine = i < count ? bodies[i] : float4{};
  float3 sum{};
  for (int first = 0; first < count; first += threads) {
    tile[threadIdx.x] = first + threadIdx.x < count ? bodies[first + threadIdx.x] : float4{};
    __syncthreads();
    for (const float4& other : tile) {
      const float x = other.x - mine.x, y = other.y - mine.y, z = other.z - mine.z;
      const float inverse = rsqrtf(x * x + y * y + z * z + 0.01F), weight = other.w * inverse * inverse * inverse;
      sum.x += weight * x;
      sum.y += weight * y;
      sum.z += weight * z;
    }
    __syncthreads();
  }
  if (i < count) out[i] = sum;
}

int main() {
  constexpr int count = 150;
  const auto numbers = random_values<float>(4 * count, 0.1, 1);
  std::vector<float4> bodies(count);
  for (int i = 0; i < count; ++i)
    bodies[i] = {numbers[4 * i], numbers[4 * i + 1], numbers[4 * i + 2], numbers[4 * i + 3]};
  DeviceArray<float4> device(bodies);
  DeviceArray<float3> out(count);
  accelerate<<<blocks_for(count, threads), threads>>>(device, out, count);
  finish();
  const auto ours = out.host();
  for (int i = 0; i < count; ++i) {
    double sum = 0, size = 0;
    for (const float4& other : bodies) {
      const double x = other.x - double(bodies[i].x), y = other.y - double(bodies[i].y),
                   z = other.z - double(bodies[i].z);
      const double one = other.w * x / std::pow(x * x + y * y + z * z + 0.01, 1.5);
      sum += one;
      size += std::abs(one);
    }
    HOLDS(std::abs(ours[i].x - sum) <= count * 0x1p-24 * size);
  }
}
