// Launches of the CUDA runtime that do nothing, preloaded before a libcudart: what torch's own kernels cost on the
// host. They are in its wheel as SASS, which the virtual GPU does not execute. Counterpart of counting_driver.cpp,
// which is for ours.
#include <cstddef>
#include <cstdint>

namespace {

constexpr int success = 0;
std::int64_t launches = 0;

struct Size {
  unsigned x, y, z;
};
// The layout of cudaFuncAttributes: three sizes, then numbers of which the first is the largest block.
struct KernelFacts {
  std::size_t shared, constant, local;
  int max_threads, rest[31];
};

}  // namespace

#define FMS_EMPTY extern "C" __attribute__((visibility("default")))

FMS_EMPTY int __cudaGetKernel(const void** kernel, const void* stub) {
  *kernel = stub;
  return success;
}
FMS_EMPTY int __cudaLaunchKernel(const void* /*kernel*/, Size /*grid*/, Size /*block*/, void** /*arguments*/,
                                 std::size_t /*shared bytes*/, void* /*stream*/) {
  ++launches;
  return success;
}
FMS_EMPTY int cudaLaunchKernel(const void* /*stub*/, Size /*grid*/, Size /*block*/, void** /*arguments*/,
                               std::size_t /*shared bytes*/, void* /*stream*/) {
  ++launches;
  return success;
}
FMS_EMPTY int cudaFuncSetAttribute(const void* /*stub*/, int /*attribute*/, int /*value*/) {
  return success;
}
FMS_EMPTY int cudaFuncGetAttributes(KernelFacts* facts, const void* /*stub*/) {
  *facts = {};
  facts->max_threads = 1024;
  return success;
}
FMS_EMPTY int cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, const void* /*stub*/, int /*threads*/,
                                                            std::size_t /*shared bytes*/) {
  *blocks = 2;
  return success;
}
FMS_EMPTY std::int64_t empty_launches() {
  return launches;
}
