// The compiled kernels inside the library.
#pragma once

#include <span>

namespace flashmoe::cuda {

struct Image {
  const char* kernel;
  // A fatbin: cubins of image_architectures() and PTX. The driver takes what suits its GPU.
  const unsigned char* begin;
  const unsigned char* end;
  // A fatbin of the PTX alone: a driver older than image_toolkit() might take a cubin whose layout it does not know.
  const unsigned char* ptx_begin;
  const unsigned char* ptx_end;
};

// Empty when the library was built without a CUDA toolkit.
[[nodiscard]] std::span<const Image> images();
// 80, 89, ...; empty: the images are PTX.
[[nodiscard]] std::span<const int> image_architectures();
// Of the toolkit that made the cubins: 13000 is CUDA 13.0.
[[nodiscard]] int image_toolkit();

}  // namespace flashmoe::cuda
