// Functions of the host in a stream, in their place between kernels.
#include "sample.cuh"

__global__ void append(int* journal, int* length, int what) {
  journal[(*length)++] = what;
}

struct Told {
  const int* length;
  int seen[2];
  int calls;
};

void tell(void* data) {
  Told& told = *static_cast<Told*>(data);
  told.seen[told.calls++] = *told.length;
}

int main() {
  int *journal = nullptr, *length = nullptr;
  WORKS(cudaMallocManaged(&journal, 8 * sizeof(int)));
  WORKS(cudaMallocManaged(&length, sizeof(int)));
  *length = 0;
  Told told{length, {}, 0};
  cudaStream_t stream;
  WORKS(cudaStreamCreate(&stream));
  for (int i = 0; i < 2; ++i) {
    append<<<1, 1, 0, stream>>>(journal, length, 10 + i);
    append<<<1, 1, 0, stream>>>(journal, length, 20 + i);
    WORKS(cudaLaunchHostFunc(stream, tell, &told));
  }
  WORKS(cudaStreamSynchronize(stream));
  HOLDS(told.calls == 2 && told.seen[0] == 2 && told.seen[1] == 4);
  HOLDS(journal[0] == 10 && journal[1] == 20 && journal[2] == 11 && journal[3] == 21);
  WORKS(cudaStreamDestroy(stream));
  WORKS(cudaFree(journal));
  WORKS(cudaFree(length));
}
