// A directory for intermediate files, removed with everything in it, also when the build fails half way.
#pragma once

#include <filesystem>
#include <system_error>
#include <utility>

namespace flashmoe::workflow {

struct ScratchDirectory {
  std::filesystem::path path;
  explicit ScratchDirectory(std::filesystem::path at) : path(std::move(at)) {
    std::error_code ignored;
    std::filesystem::create_directories(path, ignored);
  }
  ~ScratchDirectory() {
    std::error_code ignored;
    std::filesystem::remove_all(path, ignored);
  }
  ScratchDirectory(const ScratchDirectory&) = delete;
  ScratchDirectory& operator=(const ScratchDirectory&) = delete;
};

}  // namespace flashmoe::workflow
