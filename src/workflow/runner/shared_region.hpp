// Memory shared with one worker: a memfd that the controller maps once, at its largest size, and lets grow.
#pragma once

#include <cstddef>

#include "support/result.hpp"

namespace flashmoe::workflow {

class SharedRegion {
 public:
  SharedRegion() = default;
  ~SharedRegion();
  SharedRegion(SharedRegion&& other) noexcept;
  SharedRegion& operator=(SharedRegion&& other) noexcept;
  SharedRegion(const SharedRegion&) = delete;
  SharedRegion& operator=(const SharedRegion&) = delete;

  // With `others_only_read` every mapping made later, by whom ever, is read-only; this one stays writable.
  [[nodiscard]] static Result<SharedRegion> make(const char* name, bool others_only_read);
  [[nodiscard]] Result<Done> grow(std::size_t bytes);
  [[nodiscard]] std::byte* data() const { return data_; }
  [[nodiscard]] std::size_t size() const { return size_; }
  [[nodiscard]] int fd() const { return fd_; }

  static constexpr std::size_t reserved_bytes = std::size_t{16} << 30;  // of addresses, not of memory

 private:
  int fd_ = -1;
  std::byte* data_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace flashmoe::workflow
