// Reads of shared memory that nobody has to look at yet. Where every write is known to all warps already, a read can
// race with later writes only: it is noted, whatever its lanes do, and is looked at when a write comes near. Most reads
// never are, because a barrier of the whole block comes first: behind it they are before everything. Near is a page of
// a 64th of the memory.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <vector>

#include "vgpu/exec/observer.hpp"
#include "vgpu/observe/lanes.hpp"
#include "vgpu/observe/sanitizer/access_history.hpp"

namespace flashmoe::vgpu::observe {

class DeferredReads {
 public:
  struct Read {
    AccessRecord record{};  // but for lane and bytes
    std::uint32_t warp = 0, lanes = 0;
    std::uint16_t bytes = 0;
    bool is_matrix = false;
    bool has_pattern = false;  // else `base` is the place of its 32 addresses
    std::uint32_t base = 0, step[exec::LanePattern::lane_bits] = {};
  };
  struct Budget {  // of all blocks of a run together
    static constexpr std::size_t most = 256 * 1024;
    std::size_t used = 0;  // reads
  };

  DeferredReads(std::uint64_t shared_bytes, Budget& budget)
      : budget_(budget), page_bits_(std::max(4u, static_cast<std::uint32_t>(std::bit_width(shared_bytes / 64)))) {}
  ~DeferredReads() { budget_.used -= reads_.size(); }
  DeferredReads(const DeferredReads&) = delete;
  DeferredReads& operator=(const DeferredReads&) = delete;

  // Pages, a bit each.
  [[nodiscard]] std::uint64_t pages(std::uint64_t address, std::uint64_t bytes) const {
    const std::uint64_t first = std::min<std::uint64_t>(address >> page_bits_, 63);
    const std::uint64_t last = std::min<std::uint64_t>((address + bytes - 1) >> page_bits_, 63);
    return ~std::uint64_t{0} << first & ~std::uint64_t{0} >> (63 - last);
  }
  [[nodiscard]] std::uint64_t pages(const exec::Access& access) const {
    const std::uint64_t bytes = access.is_matrix ? 16 : access.bytes;
    if (access.pattern != nullptr) return pages(access.pattern->lowest(), access.pattern->span() + bytes);
    std::uint64_t all = 0;
    for_each_lane(access.lanes, [&](int lane) { all |= pages(access.address[lane], bytes); });
    return all;
  }

  [[nodiscard]] bool are_in(std::uint64_t pages) const { return (read_ & pages) != 0; }
  [[nodiscard]] bool may_wait(std::uint64_t pages) const { return (written_ & pages) == 0; }
  [[nodiscard]] bool is_full() const { return reads_.size() >= always_fit && budget_.used >= Budget::most; }
  void add(const AccessRecord& record, std::uint32_t warp, const exec::Access& access, std::uint64_t pages);
  void write(std::uint64_t pages) { written_ |= pages; }

  // A barrier of the whole block: the reads are done with, and all writes but those of copies under way are known.
  void all_met(std::uint64_t pages_of_copies) {
    clear();
    written_ = pages_of_copies;
  }
  // body(read, address) in the order in which they came; then there are none.
  template <class Body>
  void take(Body&& body) {
    std::uint64_t address[exec::lanes_per_warp];
    for (const Read& read : reads_) {
      if (read.has_pattern) {
        exec::LanePattern pattern{.base = read.base};
        std::copy(std::begin(read.step), std::end(read.step), pattern.step);
        pattern.addresses(address);
        for (std::uint64_t& one : address) one = static_cast<std::uint32_t>(one);
      } else {
        std::copy_n(addresses_.data() + read.base, exec::lanes_per_warp, address);
      }
      body(read, address);
    }
    clear();
  }

 private:
  static constexpr std::size_t always_fit = 1024;  // of one block
  void clear() {
    budget_.used -= reads_.size();
    if (reads_.capacity() > 4 * always_fit) reads_ = {};
    reads_.clear();
    addresses_.clear();
    read_ = 0;
  }

  Budget& budget_;
  std::uint32_t page_bits_;
  std::uint64_t read_ = 0;     // pages in which they are
  std::uint64_t written_ = 0;  // pages with writes that not all know of
  std::vector<Read> reads_{};
  std::vector<std::uint32_t> addresses_{};  // of those without a pattern
};

inline void DeferredReads::add(const AccessRecord& record, std::uint32_t warp, const exec::Access& access,
                               std::uint64_t pages) {
  ++budget_.used;
  read_ |= pages;
  Read& read = reads_.emplace_back();
  read.record = record;
  read.warp = warp;
  read.lanes = access.lanes;
  read.bytes = static_cast<std::uint16_t>(access.bytes);
  read.is_matrix = access.is_matrix;
  read.has_pattern = access.pattern != nullptr;
  if (read.has_pattern) {
    read.base = static_cast<std::uint32_t>(access.pattern->base);
    for (std::uint32_t i = 0; i < exec::LanePattern::lane_bits; ++i)
      read.step[i] = static_cast<std::uint32_t>(access.pattern->step[i]);
    return;
  }
  read.base = static_cast<std::uint32_t>(addresses_.size());
  for (int lane = 0; lane < exec::lanes_per_warp; ++lane)
    addresses_.push_back(static_cast<std::uint32_t>(access.address[lane]));
}

}  // namespace flashmoe::vgpu::observe
