#include "workflow/gates/runnable.hpp"

#include <filesystem>

#include "support/sha256.hpp"
#include "workflow/device/capabilities.hpp"
#include "workflow/verdict/codes.hpp"

namespace flashmoe::workflow {

bool runs_cuda(const Project& project, const DeviceSelector& device) {
  return capabilities_of(device).runs == Runs::cuda_code || project.kernel.kind == CallableKind::none;
}

std::string device_of(const Project& project) {
  return project.kernel.kind == CallableKind::none ? "virtual:" + project.cuda_device : "";
}

const Callable* card_rival(const Project& project) {
  if (project.torch_baseline.kind != CallableKind::none) return &project.torch_baseline;
  return project.baseline.torch_tensors ? &project.baseline : nullptr;
}

std::string build_code(const std::string& role, const Diagnostic& why) {
  const bool is_source = why.code.empty() || why.code == codes::build_compile_failed;
  if (!is_source) return why.code;
  return role == "kernel" ? codes::build_compile_failed : codes::build_judge_failed;
}

const char* kernel_code(Failure failure) {
  switch (failure) {
    case Failure::crashed:
      return codes::kernel_crashed;
    case Failure::out_of_memory:
      return codes::kernel_out_of_memory;
    case Failure::hung:
      return codes::kernel_hung;
    case Failure::refused:
      return codes::kernel_refused;
    case Failure::could_not_start:
      return codes::kernel_could_not_start;
    case Failure::none:
      break;
  }
  return "";
}

Runnable library_runnable(const BuiltCallable& built, const std::string& label, int threads) {
  std::vector<std::string> readable;
  for (const auto& [path, hash] : built.libraries) {
    readable.push_back(std::filesystem::path(path).parent_path().string());
  }
  return {.label = label,
          .kind = CallableKind::cpp,
          .library = built.library,
          .entry = built.entry,
          .content_hash = built.content_hash,
          .threads = threads,
          .readable = std::move(readable)};
}

Result<Runnable> python_runnable(const Project& project, const Callable& callable, const std::string& role,
                                 const std::string& label, int threads) {
  const auto file = (std::filesystem::path(project.directory) / callable.source).lexically_normal().string();
  auto hash = sha256_of_file(file);
  if (!hash) return hash.error();
  return Runnable{.label = label,
                  .kind = CallableKind::python,
                  .library = file,
                  .entry = callable.entry,
                  .content_hash = std::move(*hash),
                  .threads = threads,
                  .torch_tensors = callable.torch_tensors,
                  // What is right, and what to beat, are the same at every point.
                  .point = role == "kernel" ? project.point : Values{}};
}

}  // namespace flashmoe::workflow
