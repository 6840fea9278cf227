// The file of all packed images, for libraries that have none inside. It is data, not a shared library: what is cut off
// or damaged is seen before anything of it is used, where the dynamic loader would end the process.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "kernels/cuda/launch/images.hpp"

namespace flashmoe::cuda {

// Which library a store belongs to: kernels read parameters by the layout that the launch code writes.
struct StoreIdentity {
  std::string version;  // of the library
  std::string sources;  // SHA-256 of all device code
};

// Of this library.
[[nodiscard]] StoreIdentity library_identity();

struct ImageStore {
  std::vector<PackedImage> images{};  // they point into the bytes that were read
  std::vector<int> architectures{};
  int toolkit = 0;
};

// A packed image as the build makes it.
struct NamedFrame {
  std::string kernel, frame;
};

[[nodiscard]] Result<std::string> write_image_store(const StoreIdentity& identity, int toolkit,
                                                    const std::vector<int>& architectures,
                                                    const std::vector<NamedFrame>& images);

// Messages say what the file is: "is of version 0.2.0, the library of 0.1.0".
[[nodiscard]] Result<ImageStore> read_image_store(std::span<const unsigned char> bytes, const StoreIdentity& wanted);

}  // namespace flashmoe::cuda
