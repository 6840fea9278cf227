// A device function that calls itself, and memory that the device allocates.
#include "sample.cuh"

__device__ __noinline__ int fibonacci(int n) {
  return n < 2 ? n : fibonacci(n - 1) + fibonacci(n - 2);
}

__global__ void compute(int* out) {
  int* row = static_cast<int*>(malloc((threadIdx.x + 1) * sizeof(int)));
  for (int i = 0; i <= threadIdx.x; ++i) row[i] = fibonacci(i);
  int sum = 0;
  for (int i = 0; i <= threadIdx.x; ++i) sum += row[i];
  free(row);
  out[threadIdx.x] = sum;
}

int main() {
  DeviceArray<int> out(12);
  compute<<<1, 12>>>(out);
  finish();
  int first = 0, second = 1, sum = 0;
  for (const int ours : out.host()) {
    sum += first;
    HOLDS(ours == sum);
    second = first + second;
    first = second - first;
  }
}
