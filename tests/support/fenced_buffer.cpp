#include "support/fenced_buffer.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <new>
#include <utility>

namespace flashmoe::testing {
namespace {

size_t page_bytes() {
  return static_cast<size_t>(sysconf(_SC_PAGESIZE));
}

}  // namespace

FencedBuffer::FencedBuffer(size_t bytes, Fence fence, uint8_t fill, size_t alignment) : bytes_(bytes), fill_(fill) {
  if (kAddressSanitizer) {
    payload_ = static_cast<uint8_t*>(::operator new (bytes, std::align_val_t{std::max<size_t>(alignment, 16)}));
    alignment_ = std::max<size_t>(alignment, 16);
    std::memset(payload_, fill, bytes);
    return;
  }
  const size_t page = page_bytes();
  inner_bytes_ = std::max<size_t>((bytes + alignment + page - 1) / page, 1) * page;
  void* mapping = mmap(nullptr, inner_bytes_ + 2 * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapping == MAP_FAILED || mprotect(static_cast<uint8_t*>(mapping) + page, inner_bytes_, PROT_READ | PROT_WRITE)) {
    throw std::bad_alloc();
  }
  mapping_ = static_cast<uint8_t*>(mapping);
  uint8_t* inner = mapping_ + page;
  const size_t start = fence == Fence::kBefore ? 0 : (inner_bytes_ - bytes) / alignment * alignment;
  payload_ = inner + start;
  std::memset(inner, fill, inner_bytes_);
}

FencedBuffer::FencedBuffer(FencedBuffer&& other) noexcept {
  *this = std::move(other);
}

FencedBuffer& FencedBuffer::operator=(FencedBuffer&& other) noexcept {
  std::swap(mapping_, other.mapping_);
  std::swap(inner_bytes_, other.inner_bytes_);
  std::swap(payload_, other.payload_);
  std::swap(bytes_, other.bytes_);
  std::swap(alignment_, other.alignment_);
  std::swap(fill_, other.fill_);
  return *this;
}

FencedBuffer::~FencedBuffer() {
  if (kAddressSanitizer && payload_ != nullptr) {
    ::operator delete (payload_, std::align_val_t{alignment_});
  }
  if (mapping_ != nullptr) {
    munmap(mapping_, inner_bytes_ + 2 * page_bytes());
  }
}

bool FencedBuffer::slack_is_intact() const {
  if (mapping_ == nullptr) {
    return true;
  }
  const uint8_t* inner = mapping_ + page_bytes();
  const auto is_fill = [this](uint8_t byte) { return byte == fill_; };
  return std::all_of(inner, static_cast<const uint8_t*>(payload_), is_fill) &&
         std::all_of(static_cast<const uint8_t*>(payload_) + bytes_, inner + inner_bytes_, is_fill);
}

}  // namespace flashmoe::testing
