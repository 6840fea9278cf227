#include "kernels/cuda/launch/image_store.hpp"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>

#include "flashmoe/version.h"
#include "kernels/cuda/jit/sources.hpp"
#include "support/sha256.hpp"

namespace flashmoe::cuda {
namespace {

// magic, seal, Head, architectures, entries, frames. The seal is the SHA-256 of all between it and the frames, in hex;
// a frame has a checksum of its own, which is looked at when it is unpacked.
static_assert(std::endian::native == std::endian::little, "numbers stand in the file as the host has them");

constexpr char magic[16] = "flashmoe images";
constexpr std::size_t seal_bytes = 64;
constexpr std::size_t sealed_at = sizeof magic + seal_bytes;
constexpr std::size_t frame_alignment = 64;

struct Head {
  char version[32];  // stays where it is, whatever a later file has
  char sources[64];
  std::uint64_t bytes;  // of the whole file
  std::uint32_t architectures, images;
  std::int32_t toolkit;
  std::uint32_t unused;
};

struct Entry {
  char kernel[64];  // ends in a zero byte
  std::uint64_t begin, end;
};

// Whole words only: neither struct has a byte that is nobody's.
static_assert(sizeof(Head) == 120 && sizeof(Entry) == 80);

template <std::size_t N>
void write_word(char (&to)[N], const std::string& word) {
  std::memcpy(to, word.data(), std::min(word.size(), N));
}

template <std::size_t N>
std::string read_word(const char (&from)[N]) {
  return {from, ::strnlen(from, N)};
}

template <class T>
void append(std::string& to, const T& value) {
  to.append(reinterpret_cast<const char*>(&value), sizeof value);
}

template <class T>
T value_at(std::span<const unsigned char> bytes, std::size_t at) {
  T value;
  std::memcpy(&value, bytes.data() + at, sizeof value);
  return value;
}

Diagnostic damaged(const std::string& how) {
  return {.message = how, .fix = "pip install --force-reinstall --no-deps flashmoe-science-cuda"};
}

}  // namespace

StoreIdentity library_identity() {
  return {FLASHMOE_VERSION_STRING, sha256_hex(all_device_code())};
}

Result<std::string> write_image_store(const StoreIdentity& identity, int toolkit, const std::vector<int>& architectures,
                                      const std::vector<NamedFrame>& images) {
  Head head{};
  if (identity.version.size() > sizeof head.version || identity.sources.size() != sizeof head.sources)
    return Diagnostic{.message = "no room for version " + identity.version + " and hash " + identity.sources};
  write_word(head.version, identity.version);
  write_word(head.sources, identity.sources);
  head.architectures = static_cast<std::uint32_t>(architectures.size());
  head.images = static_cast<std::uint32_t>(images.size());
  head.toolkit = toolkit;
  const auto aligned = [](std::size_t at) { return (at + frame_alignment - 1) / frame_alignment * frame_alignment; };
  std::size_t end =
      sealed_at + sizeof head + architectures.size() * sizeof(std::int32_t) + images.size() * sizeof(Entry);
  std::string index;
  for (const std::int32_t architecture : architectures) append(index, architecture);
  for (const NamedFrame& one : images) {
    Entry entry{};
    if (one.kernel.size() >= sizeof entry.kernel) return Diagnostic{.message = "no room for the name " + one.kernel};
    write_word(entry.kernel, one.kernel);
    entry.begin = aligned(end);
    entry.end = end = entry.begin + one.frame.size();
    append(index, entry);
  }
  head.bytes = end;
  std::string sealed;
  append(sealed, head);
  sealed += index;
  std::string file = std::string(magic, sizeof magic) + sha256_hex(sealed) + sealed;
  for (const NamedFrame& one : images) {
    file.resize(aligned(file.size()));
    file += one.frame;
  }
  return file;
}

Result<ImageStore> read_image_store(std::span<const unsigned char> bytes, const StoreIdentity& wanted) {
  if (bytes.size() < sizeof magic || std::memcmp(bytes.data(), magic, sizeof magic) != 0)
    return damaged("is no file of CUDA images");
  if (bytes.size() < sealed_at + sizeof(Head)) return damaged("is cut off");
  const auto head = value_at<Head>(bytes, sealed_at);
  if (const std::string version = read_word(head.version); version != wanted.version) {
    return Diagnostic{.message = "is of version " + version + ", the library of " + wanted.version,
                      .fix = "pip install flashmoe-science-cuda==" + wanted.version};
  }
  if (head.bytes != bytes.size()) {
    return damaged("has " + std::to_string(bytes.size()) + " bytes where " + std::to_string(head.bytes) +
                   " were written");
  }
  if (read_word(head.sources) != wanted.sources) {
    return Diagnostic{.message = "has kernels of other sources than the library",
                      .fix = "build both from the same sources, or install both from the same index"};
  }
  const std::size_t entries_at = sealed_at + sizeof head + std::size_t{head.architectures} * sizeof(std::int32_t);
  const std::size_t frames_at = entries_at + std::size_t{head.images} * sizeof(Entry);
  if (frames_at > bytes.size()) return damaged("is damaged: its index has no room in it");
  const auto sealed = std::as_bytes(bytes.subspan(sealed_at, frames_at - sealed_at));
  if (std::memcmp(sha256_hex(sealed).data(), bytes.data() + sizeof magic, seal_bytes) != 0)
    return damaged("is damaged: its index is not what was written");
  ImageStore store;
  store.toolkit = head.toolkit;
  for (std::size_t at = sealed_at + sizeof head; at < entries_at; at += sizeof(std::int32_t))
    store.architectures.push_back(value_at<std::int32_t>(bytes, at));
  for (std::size_t at = frames_at - head.images * sizeof(Entry); at < frames_at; at += sizeof(Entry)) {
    const auto entry = value_at<Entry>(bytes, at);
    if (entry.begin < frames_at || entry.end < entry.begin || entry.end > bytes.size() ||
        ::strnlen(entry.kernel, sizeof entry.kernel) == sizeof entry.kernel)
      return damaged("is damaged: an image lies outside of it");
    store.images.push_back(
        {reinterpret_cast<const char*>(bytes.data() + at), bytes.data() + entry.begin, bytes.data() + entry.end});
  }
  return store;
}

}  // namespace flashmoe::cuda
