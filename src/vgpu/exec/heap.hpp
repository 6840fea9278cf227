// What device code gets from malloc (CUDA C++ Programming Guide, dynamic global memory): a heap of a size that the host
// sets, which outlives the launch.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <string>

#include "support/result.hpp"
#include "vgpu/memory/device_memory.hpp"

namespace flashmoe::vgpu::exec {

class Heap {
 public:
  static constexpr std::uint64_t default_bytes = 8 << 20;

  explicit Heap(memory::DeviceMemory& memory, std::uint64_t bytes = default_bytes) : memory_(memory), bytes_(bytes) {}
  ~Heap();
  Heap(const Heap&) = delete;
  Heap& operator=(const Heap&) = delete;

  void resize(std::uint64_t bytes) { bytes_ = bytes; }
  // 0: no room is left.
  [[nodiscard]] std::uint64_t allocate(std::uint64_t bytes, std::string what);
  [[nodiscard]] Result<Done> free(std::uint64_t address);
  [[nodiscard]] std::uint64_t used() const { return used_; }  // between launches

 private:
  memory::DeviceMemory& memory_;
  std::mutex mutex_{};
  std::map<std::uint64_t, std::uint64_t> blocks_{};  // address -> bytes taken
  std::uint64_t bytes_ = 0, used_ = 0;
};

}  // namespace flashmoe::vgpu::exec
