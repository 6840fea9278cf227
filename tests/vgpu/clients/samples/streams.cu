// Four streams with copies from pinned memory, and a fifth that waits for all of them by events.
#include "sample.cuh"

__global__ void double_each(int* values, int count) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) values[i] *= 2;
}

__global__ void sum_all(const int* values, int count, int* sum) {
  for (int i = threadIdx.x; i < count; i += blockDim.x) atomicAdd(sum, values[i]);
}

int main() {
  constexpr int parts = 4, part = 1'000;
  int* pinned = nullptr;
  WORKS(cudaHostAlloc(&pinned, parts * part * sizeof(int), cudaHostAllocDefault));
  for (int i = 0; i < parts * part; ++i) pinned[i] = i;
  DeviceArray<int> device(parts * part), sum(std::vector<int>(1));
  cudaStream_t streams[parts], last;
  cudaEvent_t done[parts];
  WORKS(cudaStreamCreateWithFlags(&last, cudaStreamNonBlocking));
  for (int i = 0; i < parts; ++i) {
    WORKS(cudaStreamCreateWithFlags(&streams[i], cudaStreamNonBlocking));
    WORKS(cudaEventCreateWithFlags(&done[i], cudaEventDisableTiming));
    int* here = device + i * part;
    WORKS(cudaMemcpyAsync(here, pinned + i * part, part * sizeof(int), cudaMemcpyHostToDevice, streams[i]));
    double_each<<<blocks_for(part, 128), 128, 0, streams[i]>>>(here, part);
    WORKS(cudaEventRecord(done[i], streams[i]));
    WORKS(cudaStreamWaitEvent(last, done[i], 0));
  }
  sum_all<<<1, 256, 0, last>>>(device, parts * part, sum);
  WORKS(cudaStreamSynchronize(last));
  HOLDS(sum.host()[0] == parts * part * (parts * part - 1));
  for (int i = 0; i < parts; ++i) {
    WORKS(cudaStreamQuery(streams[i]));
    WORKS(cudaEventDestroy(done[i]));
    WORKS(cudaStreamDestroy(streams[i]));
  }
  WORKS(cudaStreamDestroy(last));
  WORKS(cudaFreeHost(pinned));
}
