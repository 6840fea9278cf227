// A program whose device code is in two files (nvcc -rdc=true): functions, a variable and a kernel of the other one.
// Exit 0 when all hold.
#include "holds.cuh"

extern __device__ int calls_of_part;
__device__ int twice(int value);
__global__ void fill(int* values);

// Known to this file alone.
static __device__ int offset = 5;

__global__ void change(int* values) {
  values[threadIdx.x] = twice(values[threadIdx.x]) + offset;
  if (threadIdx.x == 0) atomicAdd(&calls_of_part, 1000);
}

int main() {
  constexpr int count = 64;
  int* values = nullptr;
  int host[count] = {}, calls = 0;
  WORKS(cudaMalloc(&values, sizeof host));
  fill<<<1, count>>>(values);
  change<<<1, count>>>(values);
  WORKS(cudaDeviceSynchronize());
  WORKS(cudaMemcpy(host, values, sizeof host, cudaMemcpyDeviceToHost));
  for (int i = 0; i < count; ++i) HOLDS(host[i] == 4 * i + 5);
  WORKS(cudaMemcpyFromSymbol(&calls, calls_of_part, sizeof calls));
  HOLDS(calls == 2 * count + 1000);
  WORKS(cudaFree(values));
}
