// What nvcc's host code registers while a program is loaded: images, and the kernels and variables in them, known by
// the address of a host function or variable. An image is handed to the driver when the first of its kernels or
// variables is asked for; loading a program must not need a GPU.
#pragma once

#include "vgpu/cudart/runtime_abi.hpp"

namespace flashmoe::vgpu::cudart {

struct Variable {
  CUdeviceptr address = 0;
  std::size_t bytes = 0;
};

// `key` is the address of a kernel's host function, or a handle that was handed out.
[[nodiscard]] cudaError_t find_kernel(const void* key, CUkernel& kernel);
// The same as the driver's launches and occupancy take it.
[[nodiscard]] cudaError_t find_function(const void* key, CUfunction& function);
// A kernel of a library that the program loaded itself: from now on its handle is a key.
void hand_out(CUkernel kernel);
[[nodiscard]] cudaError_t find_variable(const void* key, Variable& variable);

}  // namespace flashmoe::vgpu::cudart
