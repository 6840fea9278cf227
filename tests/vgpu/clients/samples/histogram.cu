// 256 bins of bytes: a histogram a block in shared memory, added to the one in global memory.
#include "sample.cuh"

__global__ void count_bytes(const std::uint8_t* bytes, int count, unsigned* bins) {
  __shared__ unsigned mine[256];
  for (int bin = threadIdx.x; bin < 256; bin += blockDim.x) mine[bin] = 0;
  __syncthreads();
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += gridDim.x * blockDim.x)
    atomicAdd(&mine[bytes[i]], 1);
  __syncthreads();
  for (int bin = threadIdx.x; bin < 256; bin += blockDim.x) atomicAdd(&bins[bin], mine[bin]);
}

int main() {
  const auto bytes = random_values<std::uint8_t>(50'021, 0, 255.99);
  std::vector<unsigned> wanted(256);
  for (const std::uint8_t one : bytes) ++wanted[one];
  DeviceArray<std::uint8_t> device(bytes);
  DeviceArray<unsigned> bins(std::vector<unsigned>(256));
  count_bytes<<<9, 192>>>(device, static_cast<int>(bytes.size()), bins);
  finish();
  HOLDS(bins.host() == wanted);
}
