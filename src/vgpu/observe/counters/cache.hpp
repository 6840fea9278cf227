// A model of the caches, not a description of any chip: set-associative, least recently used, lines of 128 bytes filled
// by sectors of 32. What it assumes, and what a report must repeat:
//   L1, one per SM: loads only; stores and atomics go through to L2 and drop the sector from L1; empty at each launch.
//   L2, one: written sectors stay until they are evicted (write-back); a partly written sector is fetched first.
//   cp.async.cg, ld.cg, ld.cv, volatile, atomics: past L1.
//   Addresses pick the set by a hash of the line number, since real L2s spread strides over their slices.
//   Cold: L2 is empty when the launch begins. Warm: it holds what the launches before left.
#pragma once

#include <cstdint>
#include <vector>

#include "vgpu/observe/counters/coalescing.hpp"

namespace flashmoe::vgpu::observe {

class SectorCache {
 public:
  SectorCache(std::uint64_t bytes, std::uint32_t ways);

  struct Outcome {
    std::uint8_t hits = 0;            // sectors of the request that were there
    std::uint32_t evicted_dirty = 0;  // sectors written back to make room
  };
  // Touches the sectors of a line; those that were missing are there afterwards.
  Outcome touch(std::uint64_t line, std::uint8_t sectors, bool dirty);
  void drop(std::uint64_t line, std::uint8_t sectors);
  void clear();
  [[nodiscard]] std::uint64_t dirty_sectors() const;

 private:
  struct Entry {
    std::uint64_t line = ~std::uint64_t{0};
    std::uint32_t used = 0;
    std::uint8_t valid = 0, dirty = 0;
  };
  [[nodiscard]] Entry* set_of(std::uint64_t line);

  std::uint32_t ways_;
  std::uint64_t sets_;
  std::uint32_t clock_ = 0;
  std::vector<Entry> entries_{};
};

struct MemoryTraffic {
  std::uint64_t l1_sectors = 0, l1_hits = 0;  // loads that ask L1
  std::uint64_t l2_sectors_read = 0, l2_sectors_written = 0, l2_hits = 0;
  std::uint64_t dram_sectors_read = 0, dram_sectors_written = 0;
  std::uint64_t dirty_at_end = 0;  // sectors still in L2, to be written some day
};

class MemoryModel {
 public:
  struct Shape {
    std::uint32_t sms = 0;
    std::uint64_t l1_bytes = 0;
    std::uint64_t l2_bytes = 0;
    std::uint32_t l1_ways = 4, l2_ways = 16;
  };
  explicit MemoryModel(const Shape& shape);

  enum class Kind : std::uint8_t { load, load_past_l1, store, atomic };
  void request(std::uint32_t sm, Kind kind, const Coalesced& request);
  // First-level caches begin empty, and as large as the launch's shared memory leaves them.
  void launch_begins(bool cold, std::uint64_t l1_bytes);
  [[nodiscard]] MemoryTraffic traffic() const;  // since the launch began

 private:
  Shape shape_;
  std::vector<SectorCache> l1_{};
  SectorCache l2_;
  MemoryTraffic traffic_{};
};

}  // namespace flashmoe::vgpu::observe
