// Pi by throwing darts: a generator a thread, the hits added up by atomics, the same throws on the host.
#include "sample.cuh"

__host__ __device__ inline std::uint32_t next(std::uint32_t& state) {
  state ^= state << 13;
  state ^= state >> 17;
  state ^= state << 5;
  return state;
}

__host__ __device__ inline unsigned hits(std::uint32_t seed, int throws) {
  unsigned inside = 0;
  std::uint32_t state = seed * 2654435761U + 1;
  for (int i = 0; i < throws; ++i) {
    const std::uint64_t x = next(state) >> 8, y = next(state) >> 8;
    inside += x * x + y * y < 1ULL << 48;
  }
  return inside;
}

__global__ void throw_darts(int throws, unsigned* total) {
  atomicAdd(total, hits(blockIdx.x * blockDim.x + threadIdx.x, throws));
}

int main() {
  constexpr int threads = 4 * 128, throws = 100;
  DeviceArray<unsigned> total(std::vector<unsigned>(1));
  throw_darts<<<4, 128>>>(throws, total);
  finish();
  unsigned wanted = 0;
  for (int i = 0; i < threads; ++i) wanted += hits(i, throws);
  HOLDS(total.host()[0] == wanted);
  HOLDS(std::abs(4.0 * wanted / (threads * throws) - 3.14159) < 0.05);
}
