// Which bytes of global memory hold a value: one bit a byte over the whole reserved range, committed by the host only
// where it is written. It lives as long as the device memory it stands beside, because a launch reads what copies and
// earlier launches wrote.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>

#include "support/result.hpp"
#include "vgpu/memory/device_memory.hpp"

namespace flashmoe::vgpu::observe {

class GlobalShadow {
 public:
  // For all addresses of a device, none of them initialised.
  [[nodiscard]] static Result<std::unique_ptr<GlobalShadow>> create(const memory::DeviceMemory& memory) {
    return create(memory.base(), memory.reserved_bytes());
  }
  [[nodiscard]] static Result<std::unique_ptr<GlobalShadow>> create(std::uint64_t base, std::uint64_t bytes);
  ~GlobalShadow();
  GlobalShadow(const GlobalShadow&) = delete;
  GlobalShadow& operator=(const GlobalShadow&) = delete;

  // Whoever writes from outside kernels says so: memcpy, memset, module variables. Ranges outside are ignored.
  void mark_initialised(std::uint64_t address, std::uint64_t bytes);
  // An address range was allocated anew, or copied from uninitialised bytes.
  void mark_uninitialised(std::uint64_t address, std::uint64_t bytes);
  // A device-to-device copy carries the state of each byte with it.
  void copy(std::uint64_t destination, std::uint64_t source, std::uint64_t bytes);
  // After a run that nobody observed nothing is known: every byte counts as initialised from here on.
  void trust_all() { trusts_all_ = true; }

  [[nodiscard]] bool is_initialised(std::uint64_t address, std::uint64_t bytes) const;
  struct Unset {
    std::uint64_t bytes = 0;
    std::uint64_t first = 0;  // offset in the range
    bool is_padding = false;  // all of them look like the holes that alignment leaves in structs
  };
  [[nodiscard]] Unset unset(std::uint64_t address, std::uint64_t bytes) const;
  // Bit i: byte address + i is initialised; bytes <= 32.
  [[nodiscard]] std::uint32_t initialised_bytes(std::uint64_t address, std::uint32_t bytes) const {
    const std::uint32_t all = bytes >= 32 ? 0xffffffffu : (1u << bytes) - 1u;
    if (trusts_all_ || address < base_ || address - base_ >= size_) return all;
    const std::uint64_t offset = address - base_;
    std::uint64_t word = 0;
    std::memcpy(&word, bits_ + (offset >> 3), sizeof word);
    return static_cast<std::uint32_t>(word >> (offset & 7)) & all;
  }

 private:
  GlobalShadow() = default;
  [[nodiscard]] bool clamp(std::uint64_t& address, std::uint64_t& bytes) const;
  void set(std::uint64_t offset, std::uint64_t bytes, bool value);

  std::uint64_t base_ = 0, size_ = 0;
  std::uint8_t* bits_ = nullptr;
  std::size_t mapped_ = 0;
  bool trusts_all_ = false;
};

}  // namespace flashmoe::vgpu::observe
