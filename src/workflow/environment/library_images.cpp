// The GPU kernels of libflashmoe.so, as the library tells them.
#include <dlfcn.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "workflow/compile/compiler.hpp"
#include "workflow/environment/observation.hpp"

namespace flashmoe::workflow {
namespace {

constexpr int ptx = 0;  // as fms_cuda_images has it

// 86 runs cubins of sm_80 and sm_86: the same generation, no newer (CUDA C++ Programming Guide, binary compatibility).
bool runs_one_of(int gpu, const std::vector<int>& images) {
  return std::any_of(images.begin(), images.end(),
                     [&](int image) { return image == ptx ? gpu >= 80 : image / 10 == gpu / 10 && image <= gpu; });
}

}  // namespace

Result<LibraryImages> library_images(const std::string& library) {
  void* handle = dlopen(library.c_str(), RTLD_LAZY | RTLD_LOCAL);
  if (handle == nullptr) {
    const char* why = dlerror();
    return Diagnostic{.message = fmt::format("{} does not load: {}", library, why ? why : "no reason given"),
                      .fix = "install what it needs (ldd names it), or build it here"};
  }
  const auto ask = reinterpret_cast<size_t (*)(int32_t*, size_t)>(dlsym(handle, "fms_cuda_images"));
  const auto ask_why = reinterpret_cast<const char* (*)()>(dlsym(handle, "fms_why_no_cuda_images"));
  LibraryImages images;
  if (ask != nullptr) {
    images.architectures.resize(ask(nullptr, 0));
    ask(images.architectures.data(), images.architectures.size());
  }
  if (ask_why != nullptr) images.why_none = ask_why();
  dlclose(handle);
  if (ask == nullptr)
    return Diagnostic{.message = library + " does not tell which GPU kernels it has: it is older than this tool",
                      .fix = "build both from the same sources"};
  return images;
}

std::optional<std::vector<std::string>> judge_library_images(const Result<LibraryImages>& images,
                                                             const std::vector<int>& gpus, Observations& seen) {
  if (!images) {
    seen.warn("gpu", images.error().message, images.error().fix);
    return std::nullopt;
  }
  std::vector<std::string> names;
  for (const int image : images->architectures) names.push_back(image == ptx ? "PTX" : fmt::format("sm_{}", image));
  if (names.empty()) {
    const std::string why = images->why_none.empty() ? "it does not say why" : images->why_none;
    seen.warn(
        "gpu", "libflashmoe.so has no GPU kernels: " + why,
        "pip install flashmoe-science-cuda, where it came by pip; or build it where nvcc and ptxas are on the PATH");
    return names;
  }
  seen.ok("gpu", fmt::format("GPU kernels of libflashmoe.so: {}", fmt::join(names, ", ")));
  for (const int gpu : gpus)
    if (!runs_one_of(gpu, images->architectures))
      seen.warn("gpu", fmt::format("none of the GPU kernels of libflashmoe.so runs on this machine's sm_{}", gpu),
                fmt::format("build it with -DFLASHMOE_CUDA_ARCHITECTURES={} (8.0 is the oldest)", gpu));
  return names;
}

}  // namespace flashmoe::workflow
