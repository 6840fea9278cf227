// The compiled kernels inside the library.
#pragma once

#include <span>

namespace flashmoe::cuda {

// As it lies in the library: a Zstandard frame, made by pack_image of both images of the kernel. Six cubins and the PTX
// of one kernel repeat each other, so that together they take a third of what the driver's own packing makes of them.
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

// Empty when the library was built without a CUDA toolkit.
[[nodiscard]] std::span<const PackedImage> packed_images();
// Unpacked when it is first asked for, and kept until the process ends: callers may read it (fms_kernel_image). Without
// a byte where the frame is damaged.
[[nodiscard]] Image unpacked(const PackedImage& packed);
// 80, 89, ...; empty: the images are PTX.
[[nodiscard]] std::span<const int> image_architectures();
// Of the toolkit that made the cubins: 13000 is CUDA 13.0.
[[nodiscard]] int image_toolkit();

}  // namespace flashmoe::cuda
