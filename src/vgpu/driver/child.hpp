// Programs that the driver asks: ptxas, and whoever predicts. What they print is not for the client's terminal.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace flashmoe::vgpu::driver {

// Its exit code; -1: it could not be started. Its stdout goes to `out`.
[[nodiscard]] int run_child(const std::vector<std::string>& command, const std::string& out = "/dev/null");

// On PATH; empty: not there.
[[nodiscard]] std::string found_on_path(const std::string& program);

// Removed with all that is in it. `path` is empty where none could be made.
class ScratchDirectory {
 public:
  ScratchDirectory();
  ~ScratchDirectory();
  ScratchDirectory(const ScratchDirectory&) = delete;
  ScratchDirectory& operator=(const ScratchDirectory&) = delete;
  [[nodiscard]] const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_{};
};

}  // namespace flashmoe::vgpu::driver
