// Who touched a word last, in the manner of FastTrack: the last write, the last read, and further readers only where
// reads really overlap in time. Cells are words of 4 bytes with a mask of the bytes touched. Four words in a row are
// one cell as long as every access takes all of them: matrix rows, copies and vectors are 16 bytes wide. And 32 of them
// are one as long as every access is a whole warp's, lane after lane.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <unordered_map>
#include <vector>

namespace flashmoe::vgpu::observe {

struct AccessRecord {
  // hides_weak: a strong write that stands where the same warp had written weakly; AccessHistory keeps the weak one.
  enum Flag : std::uint8_t { strong = 1, cta_scope = 2, copy = 4, several_lanes = 8, hides_weak = 16 };

  std::uint32_t clock = 0;  // of the actor when it happened; of a copy: when it was issued
  std::uint32_t actor = 0;
  std::uint32_t pc : 27 = 0;
  std::uint32_t passes_data : 1 = 0;  // volatile, from lane to lane
  std::uint32_t mask : 4 = 0;         // bytes of the word; 0: no access yet
  // Of a copy: its group. Of several lanes: the last one, or, with `owned`, the lane of each byte.
  std::uint32_t group : 22 = 0;
  std::uint32_t lane : 5 = 0;  // of several, the first
  std::uint32_t flags : 5 = 0;

  static constexpr std::uint32_t owned = 1u << 20, last_pc = (1u << 27) - 1;

  [[nodiscard]] bool has(Flag flag) const { return (flags & flag) != 0; }
  // The lanes between these, where there are several.
  [[nodiscard]] std::uint32_t first_lane() const { return lane; }
  [[nodiscard]] std::uint32_t last_lane() const {
    if (!has(several_lanes) || has(copy)) return lane;
    if ((group & owned) == 0) return group & 31u;
    std::uint32_t last = 0;
    for (std::uint32_t byte = 0; byte < 4; ++byte)
      if ((mask >> byte & 1) != 0) last = std::max(last, owner(byte));
    return last;
  }
  // Whether these bytes are that lane's alone: then what it did to them comes before what it does.
  [[nodiscard]] bool belong_to(std::uint32_t bytes, std::uint32_t one) const {
    if (!has(several_lanes)) return lane == one;
    if (has(copy) || (group & owned) == 0) return false;
    for (std::uint32_t byte = 0; byte < 4; ++byte)
      if ((bytes >> byte & 1) != 0 && owner(byte) != one) return false;
    return true;
  }
  [[nodiscard]] bool is_of_the_lane_of(const AccessRecord& other) const {
    return lane == other.lane && !has(several_lanes) && !other.has(several_lanes);
  }
  // The bytes and lanes of an access of the same moment.
  void add(const AccessRecord& other) {
    const bool one_lane = is_of_the_lane_of(other);
    const std::uint32_t bytes = mask | other.mask;
    if (!one_lane && has(copy)) {  // its group is needed, and one lane stands for all
      flags |= several_lanes;
    } else if (!one_lane) {
      const std::uint32_t first = std::min(lane, other.lane), last = std::max(last_lane(), other.last_lane());
      const std::uint32_t owners = together_with(other);
      flags |= several_lanes;
      lane = first & 31u;
      group = (owners != 0 ? owners : last) & 0x3fffffu;
    }
    mask = bytes & 0xfu;
  }
  [[nodiscard]] bool same_moment(const AccessRecord& other) const {
    return actor == other.actor && clock == other.clock && ((flags ^ other.flags) & (copy | strong)) == 0;
  }
  [[nodiscard]] bool operator==(const AccessRecord&) const = default;

 private:
  [[nodiscard]] std::uint32_t owner(std::uint32_t byte) const {
    return has(several_lanes) ? group >> (5 * byte) & 31u : lane;
  }
  // The lane of each byte of both, as `group` has them; 0 where a byte is of two lanes.
  [[nodiscard]] std::uint32_t together_with(const AccessRecord& other) const {
    std::uint32_t owners = owned;
    for (const AccessRecord* one : {this, &other})
      if (one->has(several_lanes) && (one->group & owned) == 0) return 0;
    for (std::uint32_t byte = 0; byte < 4; ++byte) {
      const bool here = (mask >> byte & 1) != 0, there = (other.mask >> byte & 1) != 0;
      if (here && there && owner(byte) != other.owner(byte)) return 0;
      if (here || there) owners |= (here ? owner(byte) : other.owner(byte)) << (5 * byte);
    }
    return owners;
  }
};

struct Cell {
  AccessRecord write{}, read{};
  std::uint32_t readers = 0;  // set of further readers in the pool; 0: none
};

inline constexpr std::uint64_t bytes_per_quad = 16, words_per_quad = 4;

inline constexpr std::uint64_t bytes_per_row = 128, words_per_row = 32, quads_per_row = 8;

struct alignas(64) Row {
  Cell whole{};            // of plain accesses; their lane is that of the first word, and all have the same
  std::uint8_t shift = 0;  // word i is of the lane behind it by i >> shift
  bool is_split = false;   // into quads
  [[nodiscard]] bool is_fresh() const { return whole.write.mask == 0 && whole.read.mask == 0; }
};

struct alignas(64) Quad {  // a line of the host's cache
  Cell whole{};            // stands for the four words, unless
  bool is_split = false;   // they have cells of their own
};

// The cells of one memory. Further readers of a cell stand in sets of a fixed size: in shared memory one place per
// warp, which is exact; in global memory one place, where the latest of many concurrent readers stands.
class AccessHistory {
 public:
  explicit AccessHistory(std::uint32_t readers_per_set) : per_set_(readers_per_set), lines_((readers_per_set + 3) / 4) {
    pool_.resize(lines_);
  }

  [[nodiscard]] std::uint32_t readers_per_set() const { return per_set_; }
  [[nodiscard]] AccessRecord* readers(const Cell& cell) { return pool_[std::size_t{cell.readers} * lines_].records; }
  // Far away when many blocks take turns: whoever is going to touch several asks for all of them first.
  void prefetch_readers(const Cell& cell, std::uint32_t place) {
    if (cell.readers != 0) __builtin_prefetch(readers(cell) + place);
  }
  AccessRecord* add_readers(Cell& cell) {
    if (free_.empty()) {
      cell.readers = static_cast<std::uint32_t>(pool_.size() / lines_);
      pool_.resize(pool_.size() + lines_);
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

  // The plain write that an atomic of the same warp stands before.
  void hide(const Cell& cell, const AccessRecord& write) { hidden_[&cell] = write; }
  [[nodiscard]] AccessRecord hidden_write(const Cell& cell) const {
    const auto found = hidden_.find(&cell);
    return found == hidden_.end() ? AccessRecord{} : found->second;
  }
  void forget_hidden(const Cell& cell) { hidden_.erase(&cell); }

  // An access comes that is no whole row: each word, or four, get what was known of all.
  template <class WordsOfQuad>
  void split_row(Row& row, Quad* quads, WordsOfQuad&& words_of_quad) {
    const Row old = row;
    row = {};
    row.is_split = true;
    if (old.is_fresh()) return;
    const auto part = [&](Cell& cell, std::uint64_t word) {
      const auto lanes = static_cast<std::uint32_t>(word >> old.shift);
      const auto moved = [&](AccessRecord record) {
        if (record.mask != 0) record.lane = (record.lane + lanes) & 31u;
        return record;
      };
      cell = {moved(old.whole.write), moved(old.whole.read), 0};
      if (old.whole.readers == 0) return;
      AccessRecord* const set = add_readers(cell);
      std::transform(readers(old.whole), readers(old.whole) + per_set_, set, moved);
    };
    const bool has_quads = (1u << old.shift) == words_per_quad;
    for (std::uint64_t quad = 0; quad < quads_per_row; ++quad) {
      quads[quad].is_split = !has_quads;
      Cell* const cells = has_quads ? &quads[quad].whole : words_of_quad(quad);
      for (std::uint64_t i = 0; i < (has_quads ? 1 : words_per_quad); ++i) part(cells[i], quad * words_per_quad + i);
    }
    Cell gone = old.whole;
    drop_readers(gone);
  }

  // An access of a part comes: each of the four words gets what was known of all.
  void split(Quad& quad, Cell* words) {
    quad.is_split = true;
    for (std::uint64_t i = 0; i < words_per_quad; ++i) {
      words[i] = quad.whole;
      if (quad.whole.write.has(AccessRecord::hides_weak)) hide(words[i], hidden_write(quad.whole));
      if (i == 0 || quad.whole.readers == 0) continue;  // the first word keeps the set
      AccessRecord* const set = add_readers(words[i]);
      std::copy_n(readers(quad.whole), per_set_, set);
    }
    if (!hidden_.empty()) forget_hidden(quad.whole);
    quad.whole = {};
  }
  // After a write of all four, which leaves no readers: one cell again, if they tell the same.
  void merge(Quad& quad, const Cell* words) {
    for (std::uint64_t i = 0; i < words_per_quad; ++i) {
      if (words[i].write != words[0].write || words[i].read.mask != 0 || words[i].readers != 0) return;
      if (words[i].write.has(AccessRecord::hides_weak)) return;
    }
    quad = {words[0], false};
  }

 private:
  struct alignas(64) Line {
    AccessRecord records[4];
  };
  std::uint32_t per_set_, lines_;
  std::vector<Line> pool_{};  // set 0 is never used
  std::vector<std::uint32_t> free_{};
  std::unordered_map<const Cell*, AccessRecord> hidden_{};  // few: what is set plainly and then counted in atomically
};

class SharedHistory : public AccessHistory {
 public:
  SharedHistory(std::uint32_t warps, std::uint64_t bytes)
      : AccessHistory(warps), rows_((bytes + bytes_per_row - 1) / bytes_per_row) {}
  [[nodiscard]] Row* find_row(std::uint64_t row) { return row < rows_.size() ? &rows_[row] : nullptr; }
  // Splits its row.
  [[nodiscard]] Quad* find(std::uint64_t quad) {
    Row* const row = find_row(quad / quads_per_row);
    if (row == nullptr) return nullptr;
    if (quads_.empty()) quads_.resize(rows_.size() * quads_per_row);
    if (!row->is_split) {
      const std::uint64_t first = quad / quads_per_row * quads_per_row;
      split_row(*row, &quads_[first], [&](std::uint64_t i) { return words(first + i); });
    }
    return &quads_[quad];
  }
  [[nodiscard]] Cell* words(std::uint64_t quad) {
    if (words_.empty()) words_.resize(rows_.size() * words_per_row);
    return &words_[quad * words_per_quad];
  }

 private:
  std::vector<Row> rows_;
  std::vector<Quad> quads_{};  // of the rows that are split; empty until one is
  std::vector<Cell> words_{};  // likewise of the quads
};

class GlobalHistory : public AccessHistory {
 public:
  GlobalHistory() : AccessHistory(1) {}
  [[nodiscard]] Row* find_row(std::uint64_t row) {
    return &page_of(row * quads_per_row).rows[row % (quads_per_page / quads_per_row)];
  }
  // Splits its row.
  [[nodiscard]] Quad* find(std::uint64_t quad) {
    Page& page = page_of(quad);
    if (!page.quads) page.quads = std::make_unique<Quads>();
    Quad* const found = &(*page.quads)[quad % quads_per_page];
    Row& row = page.rows[quad % quads_per_page / quads_per_row];
    if (!row.is_split) {
      const std::uint64_t first = quad / quads_per_row * quads_per_row;
      split_row(row, found - quad % quads_per_row, [&](std::uint64_t i) { return words(first + i); });
    }
    return found;
  }
  [[nodiscard]] Cell* words(std::uint64_t quad) {
    Page& page = page_of(quad);
    if (!page.words) page.words = std::make_unique<Words>();
    return &(*page.words)[quad % quads_per_page * words_per_quad];
  }
  [[nodiscard]] std::size_t pages() const { return pages_.size(); }

 private:
  static constexpr std::uint64_t quads_per_page = 256;
  using Words = std::array<Cell, quads_per_page * words_per_quad>;
  using Quads = std::array<Quad, quads_per_page>;
  struct Page {
    std::array<Row, quads_per_page / quads_per_row> rows{};
    std::unique_ptr<Quads> quads{};  // of the rows that are split
    std::unique_ptr<Words> words{};  // of the quads that are split
  };
  struct Recent {
    std::uint64_t number = 0;
    Page* page = nullptr;
  };
  [[nodiscard]] Page& page_of(std::uint64_t quad) {
    const std::uint64_t number = quad / quads_per_page;
    Recent& recent = recent_[number % recent_.size()];
    if (recent.page == nullptr || recent.number != number) {
      auto& place = pages_[number];
      if (!place) place = std::make_unique<Page>();
      recent = {number, place.get()};
    }
    return *recent.page;  // NOLINT(clang-analyzer-core.*): it does not see that make_unique gives something
  }

  std::unordered_map<std::uint64_t, std::unique_ptr<Page>> pages_{};
  std::array<Recent, 64> recent_{};
};

}  // namespace flashmoe::vgpu::observe
