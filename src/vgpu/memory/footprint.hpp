// Which sectors of device memory a launch reads and writes, so that its time on the virtual clock is no less than what
// DRAM needs to move each of them once. As if the L2 were cold when the launch begins and held all it touches: what was
// written is not read from DRAM afterwards, and nothing is read or written twice. One line in eight is looked at and
// stands for all: of pieces of a kilobyte that is exact, of scattered accesses a fair sample, the same in every run.
#pragma once

#include <atomic>
#include <bit>
#include <cstdint>
#include <memory>

#include "vgpu/memory/device_memory.hpp"

namespace flashmoe::vgpu::memory {

class Footprint {
 public:
  static constexpr std::uint64_t line_bytes = 128, sector_bytes = 32;
  static constexpr std::uint32_t all_sectors = 0xf;
  enum class Use : std::uint32_t { read = 1, write = 16, update = 17 };  // by what a set of sectors is multiplied

  // Nothing: the host has no addresses left for it. A byte in 32 of what launches touch is used.
  [[nodiscard]] static std::unique_ptr<Footprint> create(const DeviceMemory& memory);
  ~Footprint();
  Footprint(const Footprint&) = delete;
  Footprint& operator=(const Footprint&) = delete;

  // Nothing is touched as yet.
  void begin_launch();

  // Lines are counted from the memory's base. Of eight neighbours one is looked at, not always the same.
  static constexpr std::uint64_t lines_a_sample = 8;
  [[nodiscard]] static bool is_sampled(std::uint64_t line) {
    return (line & 7) == (line >> 3) * 0x9e3779b97f4a7c15u >> 61;
  }
  // The sectors of the line, a bit each; how many of them DRAM has to move for it. Host threads may do it at the same
  // time.
  [[nodiscard]] std::uint32_t touch(std::uint64_t line, std::uint32_t sectors, Use use) {
    const std::uint32_t wanted = sectors * static_cast<std::uint32_t>(use);
    const std::atomic_ref<std::uint32_t> word(lines_[line]);
    std::uint32_t before = word.load(std::memory_order_relaxed);
    for (;;) {
      const std::uint32_t touched = before >> 8 == launch_ ? before & 0xff : 0;
      const std::uint32_t fresh = wanted & ~(touched | touched >> 4);
      if (fresh == 0) return 0;
      if (word.compare_exchange_weak(before, launch_ << 8 | touched | wanted, std::memory_order_relaxed))
        return static_cast<std::uint32_t>(std::popcount(fresh));
    }
  }
  // body(line, sectors) for what lies in [offset, offset + bytes).
  template <class Body>
  static void for_each_line(std::uint64_t offset, std::uint64_t bytes, Body&& body) {
    const std::uint64_t end = offset + bytes;
    for (std::uint64_t at = offset / line_bytes * line_bytes; at < end; at += line_bytes) {
      std::uint32_t sectors = all_sectors;
      if (offset > at) sectors &= all_sectors << (offset - at) / sector_bytes;
      if (end < at + line_bytes) sectors &= (2u << (end - 1 - at) / sector_bytes) - 1;
      body(at / line_bytes, sectors);
    }
  }

 private:
  Footprint(std::uint32_t* lines, std::uint64_t bytes) : lines_(lines), bytes_(bytes) {}
  std::uint32_t* lines_ = nullptr;  // of each line: the launch that touched it last, four bits of writes, four of reads
  std::uint64_t bytes_ = 0;
  std::uint32_t launch_ = 1;
};

}  // namespace flashmoe::vgpu::memory
