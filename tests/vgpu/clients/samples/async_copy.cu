// Global to shared memory behind the threads' backs: a pipeline of two stages.
#include <cooperative_groups.h>
#include <cuda/pipeline>

#include "sample.cuh"

constexpr int threads = 128;

__global__ void running_sums(const int* in, int* out, int tiles) {
  __shared__ int stage[2][threads];
  auto pipeline = cuda::make_pipeline();
  const int* mine = in + threadIdx.x;
  pipeline.producer_acquire();
  cuda::memcpy_async(&stage[0][threadIdx.x], mine, sizeof(int), pipeline);
  pipeline.producer_commit();
  int sum = 0;
  for (int tile = 0; tile < tiles; ++tile) {
    if (tile + 1 < tiles) {
      pipeline.producer_acquire();
      cuda::memcpy_async(&stage[(tile + 1) % 2][threadIdx.x], mine + (tile + 1) * threads, sizeof(int), pipeline);
      pipeline.producer_commit();
      cuda::pipeline_consumer_wait_prior<1>(pipeline);
    } else {
      cuda::pipeline_consumer_wait_prior<0>(pipeline);
    }
    __syncthreads();
    sum += stage[tile % 2][threads - 1 - threadIdx.x];
    __syncthreads();
    pipeline.consumer_release();
  }
  out[threadIdx.x] = sum;
}

int main() {
  constexpr int tiles = 7;
  const auto in = random_values<int>(tiles * threads, -100, 100);
  DeviceArray<int> device(in), out(threads);
  running_sums<<<1, threads>>>(device, out, tiles);
  finish();
  const auto ours = out.host();
  for (int i = 0; i < threads; ++i) {
    int wanted = 0;
    for (int tile = 0; tile < tiles; ++tile) wanted += in[tile * threads + threads - 1 - i];
    HOLDS(ours[i] == wanted);
  }
}
