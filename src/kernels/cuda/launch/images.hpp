// The compiled kernels that come with the library: inside it (images.cpp.in), or in a file beside it
// (images_beside.hpp), as the build was asked (FLASHMOE_CUDA_IMAGES).
#pragma once

#include <optional>
#include <span>

#include "support/result.hpp"

namespace flashmoe::cuda {

// As it is shipped: a Zstandard frame, made by pack_image of both images of the kernel. Six cubins and the PTX of one
// kernel repeat each other, so that together they take a third of what the driver's own packing makes of them.
struct PackedImage {
  const char* kernel;
  const unsigned char* begin;
  const unsigned char* end;
};

struct Image {
  // A fatbin: cubins of image_architectures() and PTX. The driver takes what suits its GPU.
  std::span<const unsigned char> fatbin{};
  // A fatbin of the PTX alone: a driver older than image_toolkit() might take a cubin whose layout it does not know.
  std::span<const unsigned char> ptx{};
};

// Why there is no image.
struct NoImages {
  Diagnostic why;           // with what to do
  bool is_refused = false;  // there are some, which must not be used: compiling others instead would hide that
};

[[nodiscard]] std::span<const PackedImage> packed_images();
// Nothing where there are images.
[[nodiscard]] const std::optional<NoImages>& why_no_images();
// Unpacked when it is first asked for, and kept until the process ends: callers may read it (fms_kernel_image). Without
// a byte where the frame is damaged.
[[nodiscard]] Image unpacked(const PackedImage& packed);
// 80, 89, ...; empty: the images are PTX.
[[nodiscard]] std::span<const int> image_architectures();
// Of the toolkit that made the cubins: 13000 is CUDA 13.0.
[[nodiscard]] int image_toolkit();

}  // namespace flashmoe::cuda
