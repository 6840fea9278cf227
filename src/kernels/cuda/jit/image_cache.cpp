#include "kernels/cuda/jit/image_cache.hpp"

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <utility>

#include "kernels/cuda/jit/file_lock.hpp"
#include "kernels/cuda/jit/image_file.hpp"

namespace flashmoe::cuda {
namespace {

// Nobody asked a question that this would be the answer to, and without it nobody would know why every process
// compiles.
void say_once(const std::string& directory, const std::string& why) {
  static std::atomic_flag is_said;
  if (is_said.test_and_set()) return;
  std::fprintf(stderr,
               "flashmoe: compiled kernels are not kept in %s: %s. Make it yours alone (chown, chmod go-w), or name "
               "another directory with FLASHMOE_CACHE_DIR.\n",
               directory.c_str(), why.c_str());
}

}  // namespace

std::string default_cache_directory() {
  const auto value = [](const char* name) {
    const char* text = std::getenv(name);
    return std::string(text != nullptr ? text : "");
  };
  if (std::string forced = value("FLASHMOE_CACHE_DIR"); !forced.empty()) return forced;
  // The XDG base directory specification: a relative path is to be ignored.
  if (const std::string base = value("XDG_CACHE_HOME"); base.starts_with('/'))
    return base + "/flashmoe-science/kernels";
  if (const std::string home = value("HOME"); home.starts_with('/')) return home + "/.cache/flashmoe-science/kernels";
  return {};
}

ImageCache::ImageCache(const std::string& directory, std::chrono::milliseconds patience)
    : directory_(directory), patience_(patience) {
  if (!directory_.why_not_trusted().empty()) say_once(directory, directory_.why_not_trusted());
}

Result<std::vector<char>> ImageCache::get(const std::string& key, const Make& make) const {
  if (!directory_.is_open()) return make();
  const std::string name = key + ".image";
  if (auto kept = read_image_file(directory_, name, key)) return std::move(*kept);
  const FileLock lock(directory_, key + ".lock", patience_);
  // Whoever held the lock before us has made the image; where there is no lock to have, the last one to write wins.
  if (auto kept = read_image_file(directory_, name, key)) return std::move(*kept);
  auto made = make();
  if (!made) return made;
  if (lock.is_held()) remove_unfinished_files(directory_, name);
  (void)write_image_file(directory_, name, key, *made);  // not written: compiled again next time
  return made;
}

}  // namespace flashmoe::cuda
