#include "kernels/cuda/jit/image_file.hpp"

#include <fcntl.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstdio>

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

// A name that no other writer has: two that draw the same one would end in one of them not writing.
std::string unfinished_name(const std::string& name) {
  std::uint32_t drawn = 0;
  if (::getrandom(&drawn, sizeof drawn, GRND_NONBLOCK) != sizeof drawn) drawn = static_cast<std::uint32_t>(::getpid());
  char digits[9];
  std::snprintf(digits, sizeof digits, "%08x", drawn);
  return name + "." + digits + std::string(unfinished);
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

std::optional<std::vector<char>> read_image_file(const PrivateDirectory& directory, const std::string& name,
                                                 std::string_view key) {
  const Descriptor file = directory.open_own(name);
  struct stat about {};
  if (!file.is_open() || ::fstat(file.get(), &about) != 0) return std::nullopt;
  const auto bytes = static_cast<std::uint64_t>(about.st_size);
  if (bytes > image_header_bytes + max_image_bytes) return std::nullopt;
  std::vector<char> all(bytes);
  if (!read_all(file.get(), all)) return std::nullopt;
  return unpack_image(key, all);
}

bool write_image_file(const PrivateDirectory& directory, const std::string& name, std::string_view key,
                      std::span<const char> payload) {
  if (payload.empty() || payload.size() > max_image_bytes) return false;
  const std::vector<char> content = pack_image(key, payload);
  const std::string temporary = unfinished_name(name);
  bool is_written = false;
  {
    const Descriptor file = directory.open(temporary, O_WRONLY | O_CREAT | O_EXCL, 0600);
    if (!file.is_open()) return false;
    // Synced before it gets its name: after a power cut there is no file with the right name and no content.
    is_written = write_all(file.get(), content) && ::fsync(file.get()) == 0;
  }
  if (is_written && directory.rename(temporary, name)) return true;
  directory.remove(temporary);
  return false;
}

void remove_unfinished_files(const PrivateDirectory& directory, const std::string& name) {
  for (const std::string& other : directory.names()) {
    if (other.starts_with(name + ".") && other.ends_with(unfinished)) directory.remove(other);
  }
}

}  // namespace flashmoe::cuda
