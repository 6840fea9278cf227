#include "kernels/cuda/jit/jit.hpp"

#include "kernels/cuda/jit/image_cache.hpp"
#include "kernels/cuda/jit/portable_ptx.hpp"
#include "kernels/cuda/jit/sources.hpp"
#include "support/sha256.hpp"

namespace flashmoe::cuda {
namespace {

// Everything that the image depends on. Zero bytes keep the parts apart: none of them holds one.
std::string key_of(const char* main_name, const std::vector<std::string>& options, const std::string& nvrtc_version) {
  std::string all = nvrtc_version + '\0' + portable_ptx_version + '\0' + main_name + '\0';
  for (const std::string& option : options) all += option + '\0';
  return sha256_hex(all + all_device_code());
}

// The language is that of the build's own nvcc command; NVRTC optimises by default as -O3 does.
std::vector<std::string> common_options(int architecture, ImageKind kind) {
  return {
      "--std=c++20",
      "--device-as-default-execution-space",  // constexpr functions that host code shares carry no annotation
      kind == ImageKind::ptx ? "--gpu-architecture=compute_80"
                             : "--gpu-architecture=sm_" + std::to_string(architecture),
  };
}

// What `options_for` a kind of image makes of the source.
template <class OptionsFor>
Result<std::vector<char>> image_of(const char* main_name, int architecture, int driver, const OptionsFor& options_for) {
  auto nvrtc = Nvrtc::open(driver);
  if (!nvrtc) return nvrtc.error();
  const bool is_cubin = nvrtc->fits(driver) && nvrtc->can_compile_for(architecture);
  const ImageKind kind = is_cubin ? ImageKind::cubin : ImageKind::ptx;
  const std::vector<std::string> options = options_for(kind);
  const auto compile = [&]() -> Result<std::vector<char>> {
    auto image = nvrtc->compile(main_name, device_sources(), options, kind);
    if (!image || is_cubin) return image;
    const std::string text = portable_ptx(image->data());
    return std::vector<char>(text.c_str(), text.c_str() + text.size() + 1);
  };
  const ImageCache cache(default_cache_directory());
  return cache.get(key_of(main_name, options, nvrtc->version()), compile);
}

}  // namespace

// The macros are those of the build's own nvcc command.
std::vector<std::string> compile_options(const JitRequest& request, ImageKind kind) {
  std::vector<std::string> options = common_options(request.architecture, kind);
  options.push_back(std::string("-DFMS_NAME=") + request.name);
  options.push_back(std::string("-DFMS_ELEMENT=") + request.element);
  options.push_back("-DFMS_DIM=" + std::to_string(request.dim));
  options.push_back(std::string("-DFMS_TILE_CLASS=") + request.tile_class);
  options.push_back(std::string("-DFMS_PAGED=") + (request.is_paged ? "1" : "0"));
  options.push_back(std::string("-DFMS_MODIFIED=") + (request.is_modified ? "1" : "0"));
  if (request.value_dim != 0) options.push_back("-DFMS_VALUE_DIM=" + std::to_string(request.value_dim));
  return options;
}

Result<std::vector<char>> jit_image(const JitRequest& request) {
  return image_of(main_source_name, request.architecture, request.driver,
                  [&](ImageKind kind) { return compile_options(request, kind); });
}

Result<std::vector<char>> jit_merge_image(int architecture, int driver) {
  return image_of(merge_source_name, architecture, driver,
                  [&](ImageKind kind) { return common_options(architecture, kind); });
}

}  // namespace flashmoe::cuda
