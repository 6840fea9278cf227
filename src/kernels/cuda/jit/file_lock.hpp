// A lock between processes (and threads) that the system itself lets go of when its holder dies.
#pragma once

#include <chrono>
#include <string>

#include "kernels/cuda/jit/private_directory.hpp"

namespace flashmoe::cuda {

class FileLock {
 public:
  // Waits at most `patience` for the lock behind the file `name`, which is there only as long as somebody wants it.
  // Where files cannot be made or locked, returns at once without it.
  FileLock(const PrivateDirectory& directory, std::string name, std::chrono::milliseconds patience);
  ~FileLock();
  FileLock(const FileLock&) = delete;
  FileLock& operator=(const FileLock&) = delete;

  [[nodiscard]] bool is_held() const { return held_.is_open(); }

 private:
  enum class Attempt { held, busy, impossible };
  [[nodiscard]] Attempt try_once();

  const PrivateDirectory& directory_;
  std::string name_;
  Descriptor held_{};
};

}  // namespace flashmoe::cuda
