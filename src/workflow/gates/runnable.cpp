#include "workflow/gates/runnable.hpp"

#include <filesystem>

#include "support/sha256.hpp"

namespace flashmoe::workflow {

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

Result<Runnable> python_runnable(const Project& project, const Callable& callable, const std::string& label,
                                 int threads) {
  const auto file = (std::filesystem::path(project.directory) / callable.source).lexically_normal().string();
  auto hash = sha256_of_file(file);
  if (!hash) return hash.error();
  return Runnable{.label = label,
                  .kind = CallableKind::python,
                  .library = file,
                  .entry = callable.entry,
                  .content_hash = std::move(*hash),
                  .threads = threads};
}

}  // namespace flashmoe::workflow
