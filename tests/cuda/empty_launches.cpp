// Launches of the CUDA runtime that do nothing, preloaded before a libcudart: what torch's own kernels cost on the
// host. They are in its wheel as SASS, which the virtual GPU does not execute. Counterpart of counting_driver.cpp,
// which is for ours.
#include "vgpu/cudart/runtime_abi.hpp"

namespace {

std::int64_t launches = 0;

}  // namespace

VGPU_RUNTIME cudaError_t __cudaGetKernel(const void** kernel, const void* stub) {
  *kernel = stub;
  return cudaSuccess;
}
VGPU_RUNTIME cudaError_t __cudaLaunchKernel(const void* /*kernel*/, dim3 /*grid*/, dim3 /*block*/, void** /*arguments*/,
                                            std::size_t /*shared bytes*/, void* /*stream*/) {
  ++launches;
  return cudaSuccess;
}
VGPU_RUNTIME cudaError_t cudaLaunchKernel(const void* /*stub*/, dim3 /*grid*/, dim3 /*block*/, void** /*arguments*/,
                                          std::size_t /*shared bytes*/, void* /*stream*/) {
  ++launches;
  return cudaSuccess;
}
VGPU_RUNTIME cudaError_t cudaFuncSetAttribute(const void* /*stub*/, int /*attribute*/, int /*value*/) {
  return cudaSuccess;
}
VGPU_RUNTIME cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* facts, const void* /*stub*/) {
  *facts = {};
  facts->maxThreadsPerBlock = 1024;
  return cudaSuccess;
}
VGPU_RUNTIME cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, const void* /*stub*/,
                                                                       int /*threads*/, std::size_t /*shared bytes*/) {
  *blocks = 2;
  return cudaSuccess;
}
VGPU_RUNTIME std::int64_t empty_launches() {
  return launches;
}
