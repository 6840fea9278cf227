// How many blocks of a kernel fit on an SM, and the block size that fills it, against limits of the device.
#include "sample.cuh"

__global__ void square(int* values, int count) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) values[i] *= values[i];
}

int main() {
  cudaDeviceProp device;
  WORKS(cudaGetDeviceProperties(&device, 0));
  int grid = 0, block = 0, resident = 0;
  WORKS(cudaOccupancyMaxPotentialBlockSize(&grid, &block, square, 0, 0));
  HOLDS(block > 0 && block <= device.maxThreadsPerBlock && block % device.warpSize == 0);
  WORKS(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&resident, square, block, 0));
  HOLDS(resident * block <= device.maxThreadsPerMultiProcessor && grid == resident * device.multiProcessorCount);
  HOLDS((resident + 1) * block > device.maxThreadsPerMultiProcessor);  // so small a kernel is limited by threads alone
  std::size_t shared = 0;
  WORKS(cudaOccupancyAvailableDynamicSMemPerBlock(&shared, square, 1, 128));
  HOLDS(shared > 0 && shared <= device.sharedMemPerBlockOptin);
  constexpr int count = 3'000;
  DeviceArray<int> values(std::vector<int>(count, 3));
  square<<<blocks_for(count, block), block>>>(values, count);
  finish();
  for (const int value : values.host()) HOLDS(value == 9);
}
