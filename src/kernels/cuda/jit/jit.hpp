// Kernels outside instances.def, compiled when they are first wanted: the device code is inside the library, NVRTC
// makes an image of it, and a cache on disk keeps that for every later process.
#pragma once

#include <string>
#include <vector>

#include "kernels/cuda/jit/nvrtc.hpp"
#include "support/result.hpp"

namespace flashmoe::cuda {

// The macros of instance.cu, and for which GPU.
struct JitRequest {
  const char* name;        // of the kernel
  const char* element;     // "Half" or "BFloat16"
  int dim;                 // a multiple of dim_step, at most max_dim (axes.hpp)
  const char* tile_class;  // one of tile_class_names
  bool is_paged, is_modified;
  int architecture;         // 89: a cubin of sm_89; 0: PTX of compute_80, which every driver can compile
  int driver = any_driver;  // who will load it: 12040 is a driver of CUDA 12.4
  int value_dim = 0;        // as dim; 0: values are as long as keys
};

// What NVRTC is told for a request.
[[nodiscard]] std::vector<std::string> compile_options(const JitRequest& request, ImageKind kind);

// An image as the driver takes it. An architecture newer than NVRTC and a driver older than it get the PTX, which ends
// in a zero byte as the driver wants it. Any number of threads and processes may ask at once: one compiles, the others
// wait for it.
[[nodiscard]] Result<std::vector<char>> jit_image(const JitRequest& request);
// Likewise the kernel of fms_merge_states.
[[nodiscard]] Result<std::vector<char>> jit_merge_image(int architecture, int driver);

}  // namespace flashmoe::cuda
