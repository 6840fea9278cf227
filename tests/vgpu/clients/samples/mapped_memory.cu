// A kernel on the host's own memory: mapped when it is allocated, and registered afterwards.
#include "sample.cuh"

__global__ void increase(int* values, int count) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) ++values[i];
}

int main() {
  constexpr int count = 1'024;
  int *host = nullptr, *device = nullptr;
  WORKS(cudaHostAlloc(&host, count * sizeof(int), cudaHostAllocMapped));
  for (int i = 0; i < count; ++i) host[i] = i;
  WORKS(cudaHostGetDevicePointer(&device, host, 0));
  increase<<<4, 256>>>(device, count);
  finish();
  for (int i = 0; i < count; ++i) HOLDS(host[i] == i + 1);
  WORKS(cudaFreeHost(host));

  std::vector<int> own(count, 5);
  WORKS(cudaHostRegister(own.data(), count * sizeof(int), cudaHostRegisterMapped));
  WORKS(cudaHostGetDevicePointer(&device, own.data(), 0));
  increase<<<4, 256>>>(device, count);
  finish();
  WORKS(cudaHostUnregister(own.data()));
  for (const int value : own) HOLDS(value == 6);
}
