// Which file it is, and in which state: equal stamps are the same bytes, as far as the file system tells.
#pragma once

#include <sys/stat.h>

#include <cstdint>

namespace flashmoe {

struct FileStamp {
  std::uint64_t device = 0, inode = 0, size = 0;
  std::uint64_t modified_ns = 0, changed_ns = 0;  // the second is set by the kernel alone
  bool operator==(const FileStamp&) const = default;
};

[[nodiscard]] inline FileStamp stamp_from(const struct stat& status) {
  const auto nanoseconds = [](const timespec& time) {
    return static_cast<std::uint64_t>(time.tv_sec) * 1'000'000'000 + static_cast<std::uint64_t>(time.tv_nsec);
  };
  return {.device = status.st_dev,
          .inode = status.st_ino,
          .size = static_cast<std::uint64_t>(status.st_size),
          .modified_ns = nanoseconds(status.st_mtim),
          .changed_ns = nanoseconds(status.st_ctim)};
}

}  // namespace flashmoe
