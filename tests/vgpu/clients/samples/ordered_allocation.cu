// Memory that is taken and given back in the order of a stream.
#include "sample.cuh"

__global__ void fill(int* values, int value) {
  values[threadIdx.x] = value + threadIdx.x;
}

int main() {
  cudaStream_t stream;
  WORKS(cudaStreamCreate(&stream));
  int seen[2][64];
  for (int turn = 0; turn < 2; ++turn) {
    int* values = nullptr;
    WORKS(cudaMallocAsync(&values, 64 * sizeof(int), stream));
    fill<<<1, 64, 0, stream>>>(values, 100 * turn);
    WORKS(cudaMemcpyAsync(seen[turn], values, sizeof seen[turn], cudaMemcpyDeviceToHost, stream));
    WORKS(cudaFreeAsync(values, stream));
  }
  WORKS(cudaStreamSynchronize(stream));
  for (int i = 0; i < 64; ++i) HOLDS(seen[0][i] == i && seen[1][i] == 100 + i);
  WORKS(cudaStreamDestroy(stream));
}
