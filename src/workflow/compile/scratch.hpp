// A directory for intermediate files, removed with everything in it, also when the build fails half way.
#pragma once

#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <string>
#include <system_error>

namespace flashmoe::workflow {

struct ScratchDirectory {
  std::filesystem::path path;
  // Beside others of the same name: of other processes, and of other threads of this one.
  explicit ScratchDirectory(const std::filesystem::path& name) {
    static std::atomic<unsigned> made = 0;
    path = name.string() + "." + std::to_string(::getpid()) + "." + std::to_string(made++) + ".tmp";
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
