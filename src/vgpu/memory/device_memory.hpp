// Global memory of one virtual device. It is one reserved range of host addresses, and a device address is the host
// address itself: a load is a load. Allocations are kept with what is needed to explain a bad address.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "support/result.hpp"

namespace flashmoe::vgpu::memory {

// Generic addresses of the other spaces; no host address looks like them.
inline constexpr std::uint64_t shared_window = 1ull << 56;
inline constexpr std::uint64_t local_window = 2ull << 56;
inline constexpr std::uint64_t parameter_window = 3ull << 56;  // a kernel parameter whose address was taken
inline constexpr std::uint64_t window_bytes = 1ull << 32;

struct Allocation {
  std::uint64_t address = 0;
  std::uint64_t bytes = 0;
  std::string what{};  // "cuMemAlloc #3", "__device__ table"
  bool is_live = true;
  bool is_constant = false;    // .const: kernels may not write it
  std::uint64_t sequence = 0;  // in the order of allocation

  // Where an address lies: "12 bytes into", "16 bytes past the end of", "4 bytes before".
  [[nodiscard]] std::string place(std::uint64_t at) const;
};

class DeviceMemory {
 public:
  // Reserves (never commits) `bytes` of addresses; 0: the device's size is taken by the caller.
  [[nodiscard]] static Result<DeviceMemory*> create(std::uint64_t bytes);
  ~DeviceMemory();
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;

  // Zero bytes is an error, as in the driver. 256-byte aligned at least; a guard gap follows each allocation. Freed
  // ranges are reused only when nothing else is left, so that a use after free is seen.
  [[nodiscard]] Result<std::uint64_t> allocate(std::uint64_t bytes, std::string what, std::uint64_t align = 256,
                                               bool is_constant = false);
  [[nodiscard]] Result<Done> free(std::uint64_t address);

  // Whether the address can be touched without harm to the host: all a fast run asks.
  [[nodiscard]] bool is_mapped(std::uint64_t address, std::uint64_t bytes) const {
    const std::uint64_t mapped = mapped_bytes();
    return address - base_ < mapped && bytes <= mapped - (address - base_);
  }
  [[nodiscard]] std::uint64_t base() const { return base_; }
  [[nodiscard]] std::uint64_t size() const { return size_; }
  // Every address an allocation can ever have lies in [base, base + reserved_bytes).
  [[nodiscard]] std::uint64_t reserved_bytes() const { return reserved_; }
  // From base() on, this many bytes can be touched; grows with the allocations.
  [[nodiscard]] std::uint64_t mapped_bytes() const { return mapped_.load(std::memory_order_relaxed); }

  // The allocation that holds the address, live or freed.
  [[nodiscard]] std::optional<Allocation> find(std::uint64_t address) const;
  // That one, or else what an index that ran out of it on either side was meant for. None: a wild pointer, or one that
  // is not this device's.
  [[nodiscard]] std::optional<Allocation> nearest(std::uint64_t address) const;
  // "16 bytes past the end of cuMemAlloc #3 (4096 bytes at 0x7f..)": what a person needs to know about an address.
  [[nodiscard]] std::string describe(std::uint64_t address) const;
  [[nodiscard]] std::vector<Allocation> live() const;
  [[nodiscard]] std::uint64_t bytes_in_use() const;

 private:
  DeviceMemory() = default;
  [[nodiscard]] std::optional<Allocation> last_before(std::uint64_t address) const;  // with the mutex held
  [[nodiscard]] std::uint64_t place_in_freed(std::uint64_t bytes, std::uint64_t align);
  [[nodiscard]] bool map_up_to(std::uint64_t end);

  std::uint64_t base_ = 0, size_ = 0, reserved_ = 0, next_ = 0, in_use_ = 0, sequence_ = 0;
  std::atomic<std::uint64_t> mapped_{0};
  std::map<std::uint64_t, Allocation> allocations_{};  // by address
  mutable std::mutex mutex_{};
};

}  // namespace flashmoe::vgpu::memory
