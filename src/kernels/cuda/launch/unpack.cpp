#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <new>

#include "kernels/cuda/launch/image_frame.hpp"
#include "kernels/cuda/launch/images.hpp"

#if FMS_HAS_IMAGES
#include <zstd.h>
#include <zstd_errors.h>
#endif

namespace flashmoe::cuda {
namespace {

struct Unpacked {
  std::unique_ptr<unsigned char[]> bytes{};
  Image image{};
};

#if FMS_HAS_IMAGES
Unpacked unpack(std::span<const unsigned char> frame) {
  const unsigned long long size = ZSTD_getFrameContentSize(frame.data(), frame.size());
  if (size == ZSTD_CONTENTSIZE_ERROR || size == ZSTD_CONTENTSIZE_UNKNOWN || size < sizeof(FrameHeader)) return {};
  Unpacked made{std::make_unique_for_overwrite<unsigned char[]>(size), {}};
  const std::size_t written = ZSTD_decompress(made.bytes.get(), size, frame.data(), frame.size());
  if (ZSTD_getErrorCode(written) == ZSTD_error_memory_allocation) throw std::bad_alloc();
  FrameHeader header;
  std::memcpy(&header, made.bytes.get(), sizeof header);
  if (written != size || header.fatbin_bytes > size - sizeof header ||
      header.ptx_bytes != size - sizeof header - header.fatbin_bytes)
    return {};
  const unsigned char* const fatbin = made.bytes.get() + sizeof header;
  made.image = {{fatbin, header.fatbin_bytes}, {fatbin + header.fatbin_bytes, header.ptx_bytes}};
  return made;
}
#else
Unpacked unpack(std::span<const unsigned char>) {
  return {};
}
#endif

}  // namespace

Image unpacked(const PackedImage& packed) {
  static std::mutex mutex;
  // Never destroyed: what is static may still ask when the process ends.
  static auto& all = *new std::map<const unsigned char*, Unpacked>;
  const std::lock_guard lock(mutex);
  auto found = all.find(packed.begin);
  if (found == all.end()) found = all.emplace(packed.begin, unpack({packed.begin, packed.end})).first;
  return found->second.image;
}

}  // namespace flashmoe::cuda
