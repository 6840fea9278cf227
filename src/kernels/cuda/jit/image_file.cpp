#include "kernels/cuda/jit/image_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <filesystem>

#include "support/sha256.hpp"

namespace flashmoe::cuda {
namespace {

constexpr std::string_view magic = "FMSIMAGE";
constexpr std::uint64_t format_version = 1;
constexpr std::size_t hash_digits = 64;
constexpr std::string_view unfinished = ".tmp";

void append_number(std::vector<char>& to, std::uint64_t value, int bytes) {
  for (int i = 0; i < bytes; ++i) to.push_back(static_cast<char>(value >> (8 * i)));
}

std::string hash_of(std::span<const char> bytes) {
  return sha256_hex(std::as_bytes(bytes));
}

std::vector<char> header_of(std::string_view key, std::size_t payload_bytes, const std::string& hash) {
  std::vector<char> header(magic.begin(), magic.end());
  append_number(header, format_version, 4);
  append_number(header, 0, 4);
  append_number(header, payload_bytes, 8);
  header.insert(header.end(), key.begin(), key.end());
  header.resize(image_header_bytes - hash_digits);
  header.insert(header.end(), hash.begin(), hash.end());
  return header;
}

class OpenFile {
 public:
  explicit OpenFile(int descriptor) : descriptor_(descriptor) {}
  ~OpenFile() {
    if (descriptor_ >= 0) ::close(descriptor_);
  }
  OpenFile(const OpenFile&) = delete;
  OpenFile& operator=(const OpenFile&) = delete;
  [[nodiscard]] int get() const { return descriptor_; }

 private:
  int descriptor_;
};

bool read_all(int file, std::span<char> to) {
  while (!to.empty()) {
    const ssize_t got = ::read(file, to.data(), to.size());
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    to = to.subspan(static_cast<std::size_t>(got));
  }
  return true;
}

bool write_all(int file, std::span<const char> from) {
  while (!from.empty()) {
    const ssize_t put = ::write(file, from.data(), from.size());
    if (put < 0 && errno == EINTR) continue;
    if (put <= 0) return false;
    from = from.subspan(static_cast<std::size_t>(put));
  }
  return true;
}

}  // namespace

std::vector<char> pack_image(std::string_view key, std::span<const char> payload) {
  std::vector<char> file = header_of(key, payload.size(), hash_of(payload));
  file.insert(file.end(), payload.begin(), payload.end());
  return file;
}

std::optional<std::vector<char>> unpack_image(std::string_view key, std::span<const char> file) {
  if (file.size() <= image_header_bytes) return std::nullopt;
  const std::span<const char> header = file.first(image_header_bytes), payload = file.subspan(image_header_bytes);
  // There is one right header; no field of it has to be believed before it is compared.
  const std::vector<char> right = header_of(key, payload.size(), hash_of(payload));
  if (!std::equal(right.begin(), right.end(), header.begin(), header.end())) return std::nullopt;
  return std::vector<char>(payload.begin(), payload.end());
}

std::optional<std::vector<char>> read_image_file(const std::string& path, std::string_view key) {
  // A pipe in the file's place must not keep us waiting for its writer.
  const OpenFile file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  struct stat about {};
  if (file.get() < 0 || ::fstat(file.get(), &about) != 0 || !S_ISREG(about.st_mode)) return std::nullopt;
  const auto bytes = static_cast<std::uint64_t>(about.st_size);
  if (bytes > image_header_bytes + max_image_bytes) return std::nullopt;
  std::vector<char> all(bytes);
  if (!read_all(file.get(), all)) return std::nullopt;
  return unpack_image(key, all);
}

bool write_image_file(const std::string& path, std::string_view key, std::span<const char> payload) {
  if (payload.empty() || payload.size() > max_image_bytes) return false;
  std::string temporary = path + ".XXXXXX" + std::string(unfinished);
  bool is_written = false;
  {
    const OpenFile file(::mkostemps(temporary.data(), static_cast<int>(unfinished.size()), O_CLOEXEC));
    if (file.get() < 0) return false;
    // Synced before it gets its name: after a power cut there is no file with the right name and no content.
    is_written = write_all(file.get(), pack_image(key, payload)) && ::fsync(file.get()) == 0;
  }
  if (is_written && std::rename(temporary.c_str(), path.c_str()) == 0) return true;
  ::unlink(temporary.c_str());
  return false;
}

void remove_unfinished_files(const std::string& directory, const std::string& file_name) {
  std::error_code failed;
  for (std::filesystem::directory_iterator at(directory, failed), end; !failed && at != end; at.increment(failed)) {
    const std::string name = at->path().filename().string();
    if (name.starts_with(file_name + ".") && name.ends_with(unfinished)) ::unlink(at->path().c_str());
  }
}

}  // namespace flashmoe::cuda
