// Who touched a word last, in the manner of FastTrack: the last write, the last read, and further readers only where
// reads really overlap in time. Cells are words of 4 bytes with a mask of the bytes touched.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <unordered_map>
#include <vector>

namespace flashmoe::vgpu::observe {

struct AccessRecord {
  enum Flag : std::uint8_t { strong = 1, cta_scope = 2, copy = 4, several_lanes = 8 };

  std::uint32_t clock = 0;  // of the actor when it happened; of a copy: when it was issued
  std::uint32_t actor = 0;
  std::uint32_t pc = 0;
  std::uint32_t group : 22 = 0;  // of a copy
  std::uint32_t lane : 5 = 0;
  std::uint32_t flags : 5 = 0;
  std::uint32_t mask = 0;  // bytes of the word; 0: no access yet

  [[nodiscard]] bool has(Flag flag) const { return (flags & flag) != 0; }
  [[nodiscard]] bool same_moment(const AccessRecord& other) const {
    return actor == other.actor && clock == other.clock && ((flags ^ other.flags) & (copy | strong)) == 0;
  }
};

struct Cell {
  AccessRecord write{}, read{};
  std::uint32_t readers = 0;  // set of further readers in the pool; 0: none
};

// The cells of one memory. Further readers of a cell stand in sets of a fixed size: in shared memory one place per
// warp, which is exact; in global memory one place, where the latest of many concurrent readers stands.
class AccessHistory {
 public:
  explicit AccessHistory(std::uint32_t readers_per_set) : per_set_(readers_per_set), pool_(readers_per_set) {}

  [[nodiscard]] std::uint32_t readers_per_set() const { return per_set_; }
  [[nodiscard]] AccessRecord* readers(const Cell& cell) { return pool_.data() + std::size_t{cell.readers} * per_set_; }
  AccessRecord* add_readers(Cell& cell) {
    if (free_.empty()) {
      cell.readers = static_cast<std::uint32_t>(pool_.size() / per_set_);
      pool_.resize(pool_.size() + per_set_);
    } else {
      cell.readers = free_.back();
      free_.pop_back();
    }
    return readers(cell);
  }
  void drop_readers(Cell& cell) {
    if (cell.readers == 0) return;
    AccessRecord* set = readers(cell);
    std::fill(set, set + per_set_, AccessRecord{});
    free_.push_back(cell.readers);
    cell.readers = 0;
  }

 private:
  std::uint32_t per_set_;
  std::vector<AccessRecord> pool_;  // set 0 is never used
  std::vector<std::uint32_t> free_{};
};

class SharedHistory : public AccessHistory {
 public:
  SharedHistory(std::uint32_t warps, std::uint64_t bytes) : AccessHistory(warps), cells_((bytes + 3) / 4) {}
  [[nodiscard]] Cell* find(std::uint64_t word) { return word < cells_.size() ? &cells_[word] : nullptr; }

 private:
  std::vector<Cell> cells_;
};

class GlobalHistory : public AccessHistory {
 public:
  GlobalHistory() : AccessHistory(1) {}
  [[nodiscard]] Cell* find(std::uint64_t word) {
    const std::uint64_t page = word / words_per_page;
    Recent& recent = recent_[page % recent_.size()];
    if (recent.cells == nullptr || recent.page != page) {
      auto& place = pages_[page];
      if (!place) place = std::make_unique<Page>();
      recent = {page, place->data()};
    }
    return recent.cells + word % words_per_page;
  }
  [[nodiscard]] std::size_t pages() const { return pages_.size(); }

 private:
  static constexpr std::uint64_t words_per_page = 1024;
  using Page = std::array<Cell, words_per_page>;
  struct Recent {
    std::uint64_t page = 0;
    Cell* cells = nullptr;
  };
  std::unordered_map<std::uint64_t, std::unique_ptr<Page>> pages_{};
  std::array<Recent, 64> recent_{};
};

}  // namespace flashmoe::vgpu::observe
