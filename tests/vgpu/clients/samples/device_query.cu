// What a device says of itself, twice: in its properties and attribute by attribute.
#include <cstring>

#include "sample.cuh"

__global__ void nothing() {}

int main() {
  cudaDeviceProp facts;
  WORKS(cudaGetDeviceProperties(&facts, 0));
  HOLDS(std::strlen(facts.name) > 0 && facts.totalGlobalMem > 0);
  const struct {
    cudaDeviceAttr attribute;
    long long property;
  } rows[] = {{cudaDevAttrMaxThreadsPerBlock, facts.maxThreadsPerBlock},
              {cudaDevAttrMaxSharedMemoryPerBlock, static_cast<long long>(facts.sharedMemPerBlock)},
              {cudaDevAttrMaxSharedMemoryPerBlockOptin, static_cast<long long>(facts.sharedMemPerBlockOptin)},
              {cudaDevAttrMaxSharedMemoryPerMultiprocessor, static_cast<long long>(facts.sharedMemPerMultiprocessor)},
              {cudaDevAttrMaxRegistersPerBlock, facts.regsPerBlock},
              {cudaDevAttrMaxThreadsPerMultiProcessor, facts.maxThreadsPerMultiProcessor},
              {cudaDevAttrComputeCapabilityMajor, facts.major},
              {cudaDevAttrComputeCapabilityMinor, facts.minor},
              {cudaDevAttrL2CacheSize, facts.l2CacheSize},
              {cudaDevAttrGlobalMemoryBusWidth, facts.memoryBusWidth},
              {cudaDevAttrUnifiedAddressing, facts.unifiedAddressing},
              {cudaDevAttrWarpSize, facts.warpSize}};
  for (const auto& row : rows) {
    int value = -1;
    WORKS(cudaDeviceGetAttribute(&value, row.attribute, 0));
    HOLDS(value == row.property);
  }
  std::size_t free = 0, total = 0;
  WORKS(cudaMemGetInfo(&free, &total));
  HOLDS(free <= total && total <= facts.totalGlobalMem);
  int runtime = 0, driver = 0;
  WORKS(cudaRuntimeGetVersion(&runtime));
  WORKS(cudaDriverGetVersion(&driver));
  HOLDS(runtime >= 12000 && driver >= runtime);
  nothing<<<1, 1>>>();
  finish();
}
