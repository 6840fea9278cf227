// Compiled kernels on disk, shared by all processes of a user. The cache only ever saves time: whatever happens to its
// files or its directory, the caller gets a good image or the compiler's own error. Images are code, so a directory
// that other users could write to is as good as none; that is said on stderr, once a process.
#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include "kernels/cuda/jit/private_directory.hpp"
#include "support/result.hpp"

namespace flashmoe::cuda {

// FLASHMOE_CACHE_DIR, else flashmoe-science/kernels in XDG_CACHE_HOME, else in ~/.cache. Empty: there is none.
[[nodiscard]] std::string default_cache_directory();

class ImageCache {
 public:
  using Make = std::function<Result<std::vector<char>>()>;

  // `patience`: how long to wait for another process that is making the same image before making it here too.
  explicit ImageCache(const std::string& directory, std::chrono::milliseconds patience = std::chrono::seconds(60));

  // The image of `key` (64 hex digits), made by `make` and kept when the cache has no good one.
  [[nodiscard]] Result<std::vector<char>> get(const std::string& key, const Make& make) const;

 private:
  PrivateDirectory directory_;
  std::chrono::milliseconds patience_;
};

}  // namespace flashmoe::cuda
