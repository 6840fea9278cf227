// Memory that notices when somebody reaches outside of it. The payload touches an unreadable page on one side, so an
// overrun faults in every build; bytes between the payload and the other fence are checked by value. Under the address
// sanitizer it is a heap allocation of exactly this size, and the sanitizer watches both ends.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "support/sanitizers.hpp"

namespace flashmoe::testing {

enum class Fence {
  kAfter,  // the byte after the payload faults; the start has whatever alignment the size leaves
  kBefore  // the byte before the payload faults; the start is page-aligned
};

class FencedBuffer {
 public:
  FencedBuffer() = default;
  // Every byte of payload and slack starts as `fill`. With Fence::kAfter the start is moved down to `alignment`.
  FencedBuffer(size_t bytes, Fence fence, uint8_t fill, size_t alignment = 1);
  FencedBuffer(FencedBuffer&& other) noexcept;
  FencedBuffer& operator=(FencedBuffer&& other) noexcept;
  ~FencedBuffer();

  void* data() const { return payload_; }
  size_t bytes() const { return bytes_; }
  std::span<uint8_t> payload() const { return {payload_, bytes_}; }
  template <typename T>
  T* as() const {
    return reinterpret_cast<T*>(payload_);
  }

  [[nodiscard]] bool slack_is_intact() const;

 private:
  uint8_t* mapping_ = nullptr;  // fence page, inner pages, fence page; null under the address sanitizer
  size_t inner_bytes_ = 0;
  uint8_t* payload_ = nullptr;
  size_t bytes_ = 0;
  size_t alignment_ = 1;
  uint8_t fill_ = 0;
};

}  // namespace flashmoe::testing
