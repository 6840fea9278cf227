// Work in a stream that a library beside the driver computes on the CPU: what stands in for kernels that exist as SASS
// alone (cublas/). Not CUDA's; a client finds it with cuGetProcAddress("vgpuHostWork"). The work says which memory it
// reads and writes before it touches it, and the checks see that as they see a copy. On the virtual clock it takes the
// time in which DRAM moves these bytes once.
#pragma once

#include <cstddef>

#include "vgpu/driver/cuda_abi.hpp"

extern "C" {

// `rows` pieces of `row_bytes` bytes, each `pitch` bytes after the one before.
struct VgpuHostRange {
  const char* what;  // "A", for messages
  CUdeviceptr address;
  std::size_t row_bytes, rows, pitch;
};

// What the work asks before it reads or writes: false, and it must end, since nobody could touch that memory.
struct VgpuHostAccess {
  bool (*may_read)(VgpuHostAccess* access, const VgpuHostRange* range);
  bool (*may_write)(VgpuHostAccess* access, const VgpuHostRange* range);
};

struct VgpuHostWork {
  const char* name;  // "cublasSgemm"; lives as long as the process
  void (*compute)(void* user, VgpuHostAccess* access);
  void (*release)(void* user);  // when it will not be computed again: at once, or with the last graph that has it
  void* user;
};

using VgpuHostWorkFunction = CUresult (*)(CUstream stream, const VgpuHostWork* work);
}

namespace flashmoe::vgpu::driver {

// Takes `work.user` over in any case.
CUresult host_work(CUstream stream, const VgpuHostWork* work);

}  // namespace flashmoe::vgpu::driver
