// The block that finishes last adds up what all of them left: a fence and a counter.
#include "sample.cuh"

__device__ unsigned finished;

__global__ void sum(const int* values, int count, volatile int* partial, int* total) {
  __shared__ bool is_last;
  __shared__ int mine;
  if (threadIdx.x == 0) mine = 0;
  __syncthreads();
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += gridDim.x * blockDim.x)
    atomicAdd(&mine, values[i]);
  __syncthreads();
  if (threadIdx.x == 0) {
    partial[blockIdx.x] = mine;
    __threadfence();
    is_last = atomicInc(&finished, gridDim.x - 1) == gridDim.x - 1;
  }
  __syncthreads();
  if (is_last && threadIdx.x == 0) {
    __threadfence();
    int all = 0;
    for (int i = 0; i < gridDim.x; ++i) all += partial[i];
    *total = all;
  }
}

int main() {
  const auto values = random_values<int>(4'001, -100, 100);
  int wanted = 0;
  for (const int value : values) wanted += value;
  DeviceArray<int> device(values), partial(11), total(1);
  for (int turn = 0; turn < 2; ++turn) {  // the counter wraps back to 0 by itself
    sum<<<11, 64>>>(device, static_cast<int>(values.size()), partial, total);
    finish();
    HOLDS(total.host()[0] == wanted);
  }
}
