// A kernel that launches another: it is refused, with the reason. What is linked with it runs.
#include "holds.cuh"

__global__ void child(int* values) {
  values[threadIdx.x] = static_cast<int>(threadIdx.x);
}

__global__ void parent(int* values) {
  child<<<1, 32>>>(values);
}

int main() {
  int* values = nullptr;
  WORKS(cudaMalloc(&values, 32 * sizeof(int)));
  parent<<<1, 1>>>(values);
  HOLDS(cudaGetLastError() == cudaErrorNotSupported);
  child<<<1, 32>>>(values);
  WORKS(cudaDeviceSynchronize());
  int last = 0;
  WORKS(cudaMemcpy(&last, values + 31, sizeof last, cudaMemcpyDeviceToHost));
  HOLDS(last == 31);
  WORKS(cudaFree(values));
}
