#include "kernels/cuda/jit/image_cache.hpp"

#include <sys/stat.h>

#include <cstdlib>
#include <utility>

#include "kernels/cuda/jit/file_lock.hpp"
#include "kernels/cuda/jit/image_file.hpp"

namespace flashmoe::cuda {
namespace {

// Images are code: directories that we make are for their owner alone. One that is there already is left as it is.
bool make_directories(const std::string& path) {
  for (std::size_t end = path.find('/', 1); end != std::string::npos; end = path.find('/', end + 1))
    ::mkdir(path.substr(0, end).c_str(), 0700);
  ::mkdir(path.c_str(), 0700);
  struct stat about {};
  return ::stat(path.c_str(), &about) == 0 && S_ISDIR(about.st_mode);
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

ImageCache::ImageCache(std::string directory, std::chrono::milliseconds patience)
    : directory_(std::move(directory)), patience_(patience) {
  if (!directory_.empty() && !make_directories(directory_)) directory_.clear();
}

Result<std::vector<char>> ImageCache::get(const std::string& key, const Make& make) const {
  if (directory_.empty()) return make();
  const std::string name = key + ".image", path = directory_ + "/" + name;
  if (auto kept = read_image_file(path, key)) return std::move(*kept);
  const FileLock lock(directory_ + "/" + key + ".lock", patience_);
  // Whoever held the lock before us has made the image; where there is no lock to have, the last one to write wins.
  if (auto kept = read_image_file(path, key)) return std::move(*kept);
  auto made = make();
  if (!made) return made;
  if (lock.is_held()) remove_unfinished_files(directory_, name);
  (void)write_image_file(path, key, *made);  // not written: compiled again next time
  return made;
}

}  // namespace flashmoe::cuda
