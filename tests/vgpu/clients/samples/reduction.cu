// A sum by a tree in shared memory whose last warp shuffles, for every size of block.
#include "sample.cuh"

template <int Threads>
__global__ void sum(const int* values, int count, int* sums) {
  __shared__ int partial[Threads];
  int mine = 0;
  for (int i = blockIdx.x * Threads + threadIdx.x; i < count; i += gridDim.x * Threads) mine += values[i];
  partial[threadIdx.x] = mine;
  __syncthreads();
  for (int width = Threads / 2; width >= 32; width /= 2) {
    if (threadIdx.x < width) partial[threadIdx.x] = mine += partial[threadIdx.x + width];
    __syncthreads();
  }
  if (threadIdx.x >= 32) return;
  for (int width = 16; width > 0; width /= 2) mine += __shfl_down_sync(~0U, mine, width);
  if (threadIdx.x == 0) sums[blockIdx.x] = mine;
}

template <int Threads>
void check(const std::vector<int>& values) {
  constexpr int blocks = 13;
  long long wanted = 0, ours = 0;
  for (const int value : values) wanted += value;
  DeviceArray<int> device(values), sums(blocks);
  sum<Threads><<<blocks, Threads>>>(device, static_cast<int>(values.size()), sums);
  finish();
  for (const int one : sums.host()) ours += one;
  HOLDS(ours == wanted);
}

int main() {
  const auto values = random_values<int>(20'011, -1000, 1000);
  check<32>(values);
  check<64>(values);
  check<256>(values);
  check<1024>(values);
}
