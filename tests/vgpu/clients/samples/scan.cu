// Inclusive sums of a long array: each block its part, then the sums of blocks, then both together.
#include "sample.cuh"

constexpr int threads = 256;

__global__ void scan_blocks(const int* in, int* out, int* totals, int count) {
  __shared__ int row[2][threads];
  const int i = blockIdx.x * threads + threadIdx.x;
  int from = 0;
  row[from][threadIdx.x] = i < count ? in[i] : 0;
  __syncthreads();
  for (int distance = 1; distance < threads; distance *= 2, from = 1 - from) {
    const int before = threadIdx.x >= distance ? row[from][threadIdx.x - distance] : 0;
    row[1 - from][threadIdx.x] = row[from][threadIdx.x] + before;
    __syncthreads();
  }
  if (i < count) out[i] = row[from][threadIdx.x];
  if (threadIdx.x == threads - 1) totals[blockIdx.x] = row[from][threadIdx.x];
}

__global__ void add_totals(int* out, const int* totals, int count) {
  const int i = blockIdx.x * threads + threadIdx.x;
  if (blockIdx.x > 0 && i < count) out[i] += totals[blockIdx.x - 1];
}

int main() {
  constexpr int count = 30'001;
  const int blocks = blocks_for(count, threads);
  HOLDS(blocks <= threads);
  const auto values = random_values<int>(count, -50, 50);
  DeviceArray<int> in(values), out(count), totals(blocks), scanned(blocks), rest(1);
  scan_blocks<<<blocks, threads>>>(in, out, totals, count);
  scan_blocks<<<1, threads>>>(totals, scanned, rest, blocks);
  add_totals<<<blocks, threads>>>(out, scanned, count);
  finish();
  const auto ours = out.host();
  int wanted = 0;
  for (int i = 0; i < count; ++i) HOLDS(ours[i] == (wanted += values[i]));
}
