// PTX that NVRTC makes of texts that a test has, kept by their content: most of such a test's time is the compiler's,
// and from run to run the texts are the same. FMS_TEST_IMAGES is where; without it everything is compiled.
#pragma once

#include <cstdlib>
#include <span>
#include <string>
#include <vector>

#include "kernels/cuda/jit/image_cache.hpp"
#include "kernels/cuda/jit/nvrtc.hpp"
#include "support/sha256.hpp"

namespace flashmoe::testing {

[[nodiscard]] inline Result<std::vector<char>> kept_ptx(const char* main_source, std::span<const cuda::Source> sources,
                                                        std::span<const std::string> options) {
  const auto nvrtc = cuda::Nvrtc::open();
  if (!nvrtc) return nvrtc.error();
  // Zero bytes keep the parts apart: none of them holds one.
  std::string all = nvrtc->version() + '\0' + main_source + '\0';
  for (const std::string& option : options) all += option + '\0';
  for (const cuda::Source& source : sources) all += std::string(source.name) + '\0' + source.text + '\0';
  const char* const directory = std::getenv("FMS_TEST_IMAGES");
  return cuda::ImageCache(directory != nullptr ? directory : "").get(sha256_hex(all), [&] {
    return nvrtc->compile(main_source, sources, options, cuda::ImageKind::ptx);
  });
}

}  // namespace flashmoe::testing
