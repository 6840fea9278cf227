// What is packed in the images of a kernel.
#pragma once

#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "images/fatbin.hpp"
#include "kernels/cuda/launch/images.hpp"

namespace flashmoe::testing {

// Of its fatbin; none: the library has no such kernel.
inline std::vector<FatbinEntry> image_entries(const std::string& kernel) {
  for (const cuda::PackedImage& packed : cuda::packed_images()) {
    if (kernel != packed.kernel) continue;
    auto entries = read_fatbin(std::as_bytes(cuda::unpacked(packed).fatbin));
    if (!entries) throw std::runtime_error(kernel + ": " + entries.error().to_string());
    return std::move(*entries);
  }
  return {};
}

// Its cubin for 89, or with 0 its PTX.
inline FatbinEntry image_entry(const std::string& kernel, int architecture) {
  for (FatbinEntry& entry : image_entries(kernel)) {
    if (architecture == 0 ? entry.kind == FatbinEntry::Kind::ptx
                          : entry.kind == FatbinEntry::Kind::cubin && entry.sm == architecture)
      return std::move(entry);
  }
  throw std::runtime_error("no image of " + kernel + " for " + std::to_string(architecture));
}

}  // namespace flashmoe::testing
