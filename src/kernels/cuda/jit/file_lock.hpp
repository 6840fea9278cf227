// A lock between processes (and threads) that the system itself lets go of when its holder dies.
#pragma once

#include <chrono>
#include <string>

namespace flashmoe::cuda {

class FileLock {
 public:
  // Waits at most `patience` for the lock behind the file `path`, which is there only as long as somebody wants it.
  // Where files cannot be made or locked, returns at once without it.
  FileLock(std::string path, std::chrono::milliseconds patience);
  ~FileLock();
  FileLock(const FileLock&) = delete;
  FileLock& operator=(const FileLock&) = delete;

  [[nodiscard]] bool is_held() const { return descriptor_ >= 0; }

 private:
  enum class Attempt { held, busy, impossible };
  [[nodiscard]] Attempt try_once();

  std::string path_;
  int descriptor_ = -1;
};

}  // namespace flashmoe::cuda
