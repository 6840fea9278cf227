// The compiled kernels inside the library.
#pragma once

#include <cstddef>
#include <span>

namespace flashmoe::cuda {

struct Image {
  const char* kernel;
  int architecture;  // 89: a cubin of sm_89; 0: PTX
  const unsigned char* begin;
  const unsigned char* end;
};

// Empty when the library was built without a CUDA toolkit.
[[nodiscard]] std::span<const Image> images();

}  // namespace flashmoe::cuda
