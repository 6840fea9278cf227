// The file of images that lies beside the library: in the same folder, where the other distribution puts it.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "kernels/cuda/launch/image_store.hpp"

namespace flashmoe::cuda {

inline constexpr const char* image_store_name = "flashmoe_cuda.images";

struct ImagesBeside {
  std::shared_ptr<const unsigned char> bytes{};  // of the file, which the store points into
  ImageStore store{};
  std::optional<NoImages> none{};
};

// Images are code. What is beside `library` is used only if whoever could have written it could have written the
// library as well, which runs already.
[[nodiscard]] ImagesBeside find_images_beside(const std::string& library, const StoreIdentity& wanted);

}  // namespace flashmoe::cuda
