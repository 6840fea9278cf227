// assert of the device: one that holds is silent, one that does not ends the context.
#include <cassert>

#include "sample.cuh"

__global__ void small(int limit) {
  assert(threadIdx.x < limit);
}

int main() {
  small<<<1, 32>>>(32);
  finish();
  small<<<1, 32>>>(31);
  HOLDS(cudaDeviceSynchronize() == cudaErrorAssert);
  HOLDS(cudaDeviceSynchronize() == cudaErrorAssert);
}
