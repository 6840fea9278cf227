// images.hpp for a library that was built with FLASHMOE_CUDA_IMAGES=beside.
#include <dlfcn.h>

#include "kernels/cuda/launch/images_beside.hpp"

namespace flashmoe::cuda {
namespace {

std::string path_of_this_library() {
  Dl_info about{};
  static const char inside = 0;
  return ::dladdr(&inside, &about) != 0 && about.dli_fname != nullptr ? about.dli_fname : "";
}

// Looked for once, and never destroyed: contexts may outlive what is static.
const ImagesBeside& beside() {
  static const ImagesBeside& found = *new ImagesBeside(find_images_beside(path_of_this_library(), library_identity()));
  return found;
}

}  // namespace

std::span<const PackedImage> packed_images() {
  return beside().store.images;
}

const std::optional<NoImages>& why_no_images() {
  return beside().none;
}

std::span<const int> image_architectures() {
  return beside().store.architectures;
}

int image_toolkit() {
  return beside().store.toolkit;
}

}  // namespace flashmoe::cuda
