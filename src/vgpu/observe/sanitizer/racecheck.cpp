// What an access does to the cells. Long, because it is to be one with the loops over lanes that call it.
#include "vgpu/observe/sanitizer/racecheck.hpp"

#include <algorithm>
#include <array>
#include <cstring>

#include "vgpu/observe/lanes.hpp"

namespace flashmoe::vgpu::observe {
namespace {

// The bytes of word `word` that [address, address + bytes) covers.
std::uint32_t byte_mask(std::uint64_t word, std::uint64_t address, std::uint64_t bytes) {
  const std::uint64_t begin = std::max(address, word * 4) - word * 4;
  const std::uint64_t end = std::min(address + bytes, word * 4 + 4) - word * 4;
  return ((1u << end) - 1u) & ~((1u << begin) - 1u);
}

// Whether the bytes where both meet are one lane's. Both are of one warp.
bool is_own(const AccessRecord& before, const AccessRecord& mine) {
  return !mine.has(AccessRecord::several_lanes) && before.belong_to(before.mask & mine.mask, mine.lane);
}

// Read by this warp before, with no write and no synchronisation since: all was said then.
AccessRecord* known_read(AccessHistory& history, Cell& cell, const AccessRecord& mine, std::uint32_t place) {
  const auto is_known = [&](const AccessRecord& known) {
    return known.mask == mine.mask && known.same_moment(mine) && known.pc == mine.pc;
  };
  if (is_known(cell.read)) return &cell.read;
  if (cell.readers == 0) return nullptr;
  AccessRecord& further = history.readers(cell)[place];
  return is_known(further) ? &further : nullptr;
}

}  // namespace

void Racecheck::grid_begins(const exec::Grid& grid) {
  grid_ = &grid;
  warps_per_cta_ = static_cast<std::uint32_t>((grid.launch->block.count() + 31) / 32);
  global_ = std::make_unique<GlobalHistory>();
  locations_.clear();
  find_compared(*grid.kernel);
}

void Racecheck::grid_ends() {
  global_.reset();
}

void Racecheck::cta_begins(const exec::Cta& cta, CtaClock& clocks) {
  clocks.warps.resize(cta.warps.size());
  for (CtaClock::Barrier& barrier : clocks.arriving) barrier.clock.own.resize(warps_per_cta_);
  for (CtaClock::Barrier& barrier : clocks.released) barrier.clock.own.resize(warps_per_cta_);
}

void Racecheck::warp_begins(const exec::Warp& warp, CtaClock& cta, WarpClock& clock) {
  clock.id = warp.id;
  clock.first_actor = static_cast<std::uint32_t>(warp.cta->linear * warps_per_cta_);
  clock.actor = clock.first_actor + warp.id;
  clock.knows.own.assign(warps_per_cta_, 0);
  clock.knows.own[warp.id] = 1;
  clock.valid = clock.live = warp.valid;
  cta.warps[warp.id] = &clock;
}

Racecheck::Verdict Racecheck::judge(const AccessRecord& before, const Now& now) const {
  const AccessRecord& mine = now.record;
  const bool same_cta = before.actor - now.clock.first_actor < warps_per_cta_;
  const bool both_strong = before.has(AccessRecord::strong) && mine.has(AccessRecord::strong);
  const bool narrow = before.has(AccessRecord::cta_scope) || mine.has(AccessRecord::cta_scope);
  const bool passes_data = before.passes_data && mine.passes_data && !now.is_write && before.actor == mine.actor;
  if (both_strong && (same_cta || !narrow) && !passes_data) return Verdict::ordered;

  const WarpClock& clock = now.clock;
  const auto all_pairs = [&](const auto& is_known) {
    for (const std::uint32_t other : {before.first_lane(), before.last_lane()})
      for (const std::uint32_t lane : {mine.first_lane(), mine.last_lane()})
        if (!is_known(other, lane)) return false;
    return true;
  };
  const auto met_since = [&](std::uint32_t when) {
    return all_pairs(
        [&](std::uint32_t other, std::uint32_t lane) { return other == lane || clock.have_met(other, lane, when); });
  };
  // Of other warps, lane by lane.
  const auto told_since = [&](std::uint32_t when) {
    return all_pairs(
        [&](std::uint32_t other, std::uint32_t lane) { return clock.has_message(lane, before.actor, other, when); });
  };
  if (!same_cta) {
    if (told_since(before.clock)) return Verdict::ordered;
    if (clock.told && mine.has(AccessRecord::strong) && !now.is_write &&
        all_pairs(
            [&](std::uint32_t other, std::uint32_t) { return clock.told->knows(before.actor, other, before.clock); }))
      return Verdict::ordered;
    return both_strong ? Verdict::scope : Verdict::unordered;
  }
  const std::uint32_t warp = before.actor - clock.first_actor;
  if (before.has(AccessRecord::copy)) {
    const auto& groups = now.cta.warps[warp]->groups;
    const bool waited = before.group < groups.size() && (groups[before.group].waited_lanes >> before.lane & 1) != 0;
    const bool issue_is_known = clock.knows.own[warp] >= before.clock;
    if (before.group < groups.size() && groups[before.group].joined_at) {
      const std::uint32_t when = (*groups[before.group].joined_at)[before.lane];
      const auto is_told = [&](std::uint32_t lane) {
        return clock.has_message(lane, copies_of(before.actor), before.lane, when);
      };
      if (when != 0 && is_told(mine.first_lane()) && is_told(mine.last_lane())) return Verdict::ordered;
    }
    if (!waited) return issue_is_known ? Verdict::copy_under_way : Verdict::unordered;
    const std::uint32_t when = groups[before.group].waited_at;
    if (before.actor != mine.actor) {
      if (clock.knows.own[warp] >= when || told_since(when)) return Verdict::ordered;
      return issue_is_known ? Verdict::unsynchronised_copy : Verdict::unordered;
    }
    const bool same_lane = before.lane == mine.lane && !mine.has(AccessRecord::several_lanes);
    return same_lane || met_since(when) ? Verdict::ordered : Verdict::unsynchronised_copy;
  }
  if (before.actor != mine.actor) {
    const bool is_known = clock.knows.own[warp] >= before.clock || told_since(before.clock);
    return is_known ? Verdict::ordered : Verdict::unordered;
  }
  // One warp. Lanes of one instruction that meet in a word are judged by same_instruction().
  if (is_own(before, mine) || (before.pc == mine.pc && before.clock == mine.clock)) return Verdict::ordered;
  return met_since(before.clock) ? Verdict::ordered : Verdict::within_warp;
}

// Most of judge()'s questions, answered on the spot.
inline bool Racecheck::is_ordered(const AccessRecord& before, const Now& now) const {
  const WarpClock& clock = now.clock;
  const std::uint32_t warp = before.actor - clock.first_actor;
  bool ordered = false;
  if (warp >= warps_per_cta_) {
    if (!clock.knows.beyond && !clock.lanes_differ && !clock.told && !before.has(AccessRecord::strong)) return false;
  } else if (before.has(AccessRecord::copy)) {
    const auto& groups = now.cta.warps[warp]->groups;
    const std::uint32_t landed = before.group < groups.size() ? groups[before.group].landed_at : 0xffffffffu;
    ordered = warp == clock.id ? clock.whole_sync > landed : clock.knows.own[warp] >= landed;
  } else if (warp != clock.id) {
    ordered = clock.knows.own[warp] >= before.clock || (before.flags & now.record.flags & AccessRecord::strong) != 0;
    if (!ordered && !clock.knows.beyond && !clock.lanes_differ) return false;
  } else {
    const AccessRecord& mine = now.record;
    ordered = clock.whole_sync > before.clock || is_own(before, mine);
  }
  return ordered || judge(before, now) == Verdict::ordered;
}

inline void Racecheck::touch_read(AccessHistory& history, Cell& cell, const Now& now, std::uint32_t words) {
  const AccessRecord& mine = now.record;
  AccessRecord& read = cell.read;
  const std::uint32_t place = history.readers_per_set() > 1 ? now.clock.id : 0;
  if (AccessRecord* const known = known_read(history, cell, mine, place)) {
    known->add(mine);
    return;
  }
  if ((cell.write.mask & mine.mask) != 0) {
    if (!is_ordered(cell.write, now)) {
      suspect(now, cell.write, true, words);
    } else if (now.is_read_only) {
      suspect({mine, cell.write, false, true, Verdict::not_read_only, now.space, now.address, words});
    }
  }
  if (cell.write.has(AccessRecord::hides_weak)) {
    const AccessRecord hidden = history.hidden_write(cell);
    if ((hidden.mask & mine.mask) != 0 && !is_ordered(hidden, now)) suspect(now, hidden, true, words);
  }
  if (read.mask == 0) {
    read = mine;
    return;
  }
  if (read.same_moment(mine)) {
    const AccessRecord older = read;
    const bool one_lane = older.is_of_the_lane_of(mine);
    if (one_lane) read = mine;  // the last one is told
    read.add(one_lane ? older : mine);
    return;
  }
  if ((read.actor == mine.actor && !read.has(AccessRecord::copy)) || is_ordered(read, now)) {
    read = mine;
    return;
  }
  AccessRecord& further = (cell.readers != 0 ? history.readers(cell) : history.add_readers(cell))[place];
  const AccessRecord older = further;
  further = mine;
  if (older.mask != 0 && older.same_moment(mine)) further.add(older);
}

inline void Racecheck::touch_write(AccessHistory& history, Cell& cell, const Now& now, std::uint32_t words) {
  const AccessRecord& mine = now.record;
  const auto look_at = [&](const AccessRecord& before, bool before_writes) {
    if ((before.mask & mine.mask) != 0 && !is_ordered(before, now)) suspect(now, before, before_writes, words);
  };
  look_at(cell.write, true);
  const bool hides = cell.write.has(AccessRecord::hides_weak);
  if (hides) look_at(history.hidden_write(cell), true);
  look_at(cell.read, false);
  if (cell.readers != 0) {
    const AccessRecord* const set = history.readers(cell);
    for (std::uint32_t i = 0; i < history.readers_per_set(); ++i) look_at(set[i], false);
  }
  const bool same_store = cell.write.mask != 0 && cell.write.same_moment(mine) && cell.write.pc == mine.pc;
  // An atomic does not make up for the plain write before it: others may still race with that one.
  const bool is_atomic = mine.has(AccessRecord::strong);
  const bool hides_now = is_atomic && cell.write.mask != 0 && cell.write.actor == mine.actor &&
                         !cell.write.has(AccessRecord::strong) && !cell.write.has(AccessRecord::copy);
  if (hides_now) {
    history.hide(cell, cell.write);
  } else if (hides && !is_atomic) {
    history.forget_hidden(cell);
  }
  const AccessRecord older = cell.write;
  cell.write = mine;
  if (same_store) cell.write.add(older);
  if (hides_now || (hides && is_atomic)) cell.write.flags |= AccessRecord::hides_weak;
  if ((cell.read.mask & mine.mask) != 0) cell.read = {};
  if (mine.mask == 0xf) history.drop_readers(cell);
}

template <bool is_write>
inline void Racecheck::touch(AccessHistory& history, Cell& cell, const Now& now, std::uint32_t words) {
  if constexpr (is_write) {
    touch_write(history, cell, now, words);
  } else {
    touch_read(history, cell, now, words);
  }
}

// What the access takes of one quad; word by word if that is a part of it, or if it has been taken in part before.
template <bool is_write, class History>
inline void Racecheck::touch_quad(History& history, Quad& quad, std::uint64_t number, Now& now) {
  const std::uint64_t first = number * words_per_quad;
  const bool whole = now.address <= first * 4 && (first + words_per_quad) * 4 <= now.address + now.bytes;
  if (whole && !quad.is_split) {
    now.record.mask = 0xf;
    touch<is_write>(history, quad.whole, now, words_per_quad);
    return;
  }
  Cell* const cells = history.words(number);
  if (!quad.is_split) history.split(quad, cells);
  const std::uint64_t begin = std::max(first, now.address / 4);
  const std::uint64_t last = std::min(first + words_per_quad - 1, (now.address + now.bytes - 1) / 4);
  for (std::uint64_t word = begin; word <= last; ++word) {
    now.record.mask = byte_mask(word, now.address, now.bytes) & 0xfu;
    touch<is_write>(history, cells[word - first], now, 1);
  }
  if (is_write && whole) history.merge(quad, cells);
}

// Whether touch_quad() would find that every word of it was read like this before.
template <class History>
inline bool Racecheck::is_known(History& history, Quad& quad, std::uint64_t number, const Now& now) {
  const std::uint32_t place = history.readers_per_set() > 1 ? now.clock.id : 0;
  AccessRecord mine = now.record;
  if (!quad.is_split) {
    mine.mask = 0xf;
    return known_read(history, quad.whole, mine, place) != nullptr;
  }
  Cell* const cells = history.words(number);
  const std::uint64_t first = number * words_per_quad;
  for (std::uint64_t word = now.address / 4; word <= (now.address + now.bytes - 1) / 4; ++word) {
    mine.mask = byte_mask(word, now.address, now.bytes) & 0xfu;
    if (known_read(history, cells[word - first], mine, place) == nullptr) return false;
  }
  return true;
}

template <bool is_write, class History>
inline void Racecheck::touch_bytes(History& history, Now& now) {
  const std::uint64_t last = (now.address + now.bytes - 1) / bytes_per_quad;
  for (std::uint64_t number = now.address / bytes_per_quad; number <= last; ++number) {
    if (Quad* const quad = history.find(number)) touch_quad<is_write>(history, *quad, number, now);
  }
}

// Whether judging one word of a row judges all of them, and finds nothing. Records of a row are of plain accesses whose
// lanes go along with its words, as those of the access do.
template <bool is_write>
inline bool Racecheck::is_alike(AccessHistory& history, const Cell& cell, const Now& now) const {
  const WarpClock& clock = now.clock;
  const AccessRecord& mine = now.record;
  enum class Order : std::uint8_t { yes, no, by_lane };
  const auto order = [&](const AccessRecord& before) {
    const std::uint32_t warp = before.actor - clock.first_actor;
    const bool has_messages = clock.knows.beyond || clock.lanes_differ;
    if (warp >= warps_per_cta_) return has_messages || clock.told ? Order::by_lane : Order::no;
    if (warp == clock.id) {
      return clock.whole_sync > before.clock || before.lane == mine.lane ? Order::yes : Order::by_lane;
    }
    if (clock.knows.own[warp] >= before.clock) return Order::yes;
    return has_messages ? Order::by_lane : Order::no;
  };
  const auto is_before = [&](const AccessRecord& one) { return one.mask == 0 || order(one) == Order::yes; };
  const auto adds_lanes = [&](const AccessRecord& one) { return one.same_moment(mine) && one.lane != mine.lane; };
  if (!is_before(cell.write)) return false;
  const AccessRecord* const set = cell.readers != 0 ? history.readers(cell) : nullptr;
  if constexpr (is_write) {
    if (cell.write.mask != 0 && adds_lanes(cell.write)) return false;
    if (!is_before(cell.read)) return false;
    return set == nullptr || std::all_of(set, set + history.readers_per_set(), is_before);
  } else {
    if (now.is_read_only && cell.write.mask != 0) return false;
    if (cell.read.mask != 0) {
      if (cell.read.actor == mine.actor ? adds_lanes(cell.read) : order(cell.read) == Order::by_lane) return false;
    }
    const std::uint32_t place = history.readers_per_set() > 1 ? clock.id : 0;
    return set == nullptr || set[place].mask == 0 || !adds_lanes(set[place]);
  }
}

template <bool is_write>
inline bool Racecheck::touch_row(AccessHistory& history, Row& row, const Now& now, std::uint32_t shift) {
  if (row.is_split) return false;
  if (row.is_fresh()) {
    row.shift = static_cast<std::uint8_t>(shift);
  } else if (row.shift != shift || !is_alike<is_write>(history, row.whole, now)) {
    return false;
  }
  touch<is_write>(history, row.whole, now, words_per_row);
  return true;
}

template <bool is_write, class History>
void Racecheck::touch_rows(History& history, exec::Access& access, Now& now) {
  const std::uint64_t first = access.pattern->base / bytes_per_row;
  const auto lanes = static_cast<std::uint32_t>(bytes_per_row / access.bytes);  // of a row
  const auto shift = static_cast<std::uint32_t>(std::countr_zero(access.bytes / 4));
  std::uint32_t left = 0;
  for (std::uint32_t lane = 0; lane < exec::lanes_per_warp; lane += lanes) {
    Row* const row = history.find_row(first + lane / lanes);
    if (row == nullptr) continue;
    now.record.mask = 0xf;
    now.record.lane = lane & 31u;
    if (!touch_row<is_write>(history, *row, now, shift)) left |= (lanes == 32 ? ~0u : (1u << lanes) - 1u) << lane;
  }
  access.lanes = left;
}

template <bool is_write, class History>
void Racecheck::touch_lanes(History& history, const exec::Access& access, Now& now) {
  Quad* first[32];  // that the lane touches
  std::uint64_t latest = ~std::uint64_t{0};
  Quad* found = nullptr;
  for_each_lane(access.lanes, [&](int lane) {
    const std::uint64_t number = access.address[lane] / bytes_per_quad;
    if (number != latest) {
      found = history.find(number);
      __builtin_prefetch(found);
    }
    latest = number;
    first[lane] = found;
  });
  const std::uint32_t place = history.readers_per_set() > 1 ? now.clock.id : 0;
  for_each_lane(access.lanes, [&](int lane) {
    if (first[lane] != nullptr) history.prefetch_readers(first[lane]->whole, place);
  });
  int before = 0;           // the lane before
  std::uint32_t alike = 0;  // so many before it read the same
  for (std::uint32_t left = access.lanes; left != 0; left &= left - 1) {
    int lane = std::countr_zero(left);
    now.address = access.address[lane];
    const std::uint64_t number = now.address / bytes_per_quad;
    const bool is_in_quad = now.address + now.bytes <= (number + 1) * bytes_per_quad;
    alike = !is_write && left != access.lanes && now.address == access.address[before] ? alike + 1 : 0;
    // Of lanes that read one place the first and the last are kept. Three have been there, so that the cell knows that
    // they are several: those up to the last add nothing.
    if (alike == 3 && !by_lane_ && is_in_quad && first[lane] != nullptr &&
        is_known(history, *first[lane], number, now)) {
      while ((left & (left - 1)) != 0 && access.address[std::countr_zero(left & (left - 1))] == now.address)
        left &= left - 1;
      lane = std::countr_zero(left);
    }
    before = lane;
    now.record.lane = access.is_matrix ? 0u : static_cast<std::uint32_t>(lane) & 31u;
    if (!is_in_quad) {
      touch_bytes<is_write>(history, now);
    } else if (first[lane] != nullptr) {
      touch_quad<is_write>(history, *first[lane], number, now);
    }
  }
}

// Strong reads carry order, and are looked at at once.
bool Racecheck::put_off(const exec::Access& access, const AccessRecord& record, WarpClock& clock, CtaClock& cta) {
  const std::uint64_t pages = cta.reads.pages(access);
  cta.users |= std::uint64_t{1} << clock.id % 64;
  const bool is_read = access.kind == exec::AccessKind::load;
  if (is_read && !record.has(AccessRecord::strong) && cta.reads.may_wait(pages)) {
    if (cta.reads.is_full()) look_at_reads(cta);
    cta.reads.add(record, clock.id, access, pages);
    return true;
  }
  if (cta.reads.are_in(pages)) look_at_reads(cta);
  if (!is_read) cta.reads.write(pages);
  return false;
}

void Racecheck::look_at_reads(CtaClock& cta) {
  cta.reads.take([&](const DeferredReads::Read& read, const std::uint64_t* address) {
    exec::Access access{};
    access.lanes = read.lanes;
    access.address = address;
    access.is_matrix = read.is_matrix;
    Now now{.clock = *cta.warps[read.warp],
            .cta = cta,
            .space = ir::Space::shared,
            .record = read.record,
            .is_write = false,
            .address = 0,
            .bytes = read.is_matrix ? 16u : read.bytes,
            .unchanged = 0,
            .is_read_only = false};
    touch_lanes<false>(cta.shared, access, now);
  });
}

void Racecheck::access(exec::Access access, std::uint32_t unchanged, WarpClock& clock, CtaClock& cta) {
  const bool is_strong =
      access.kind == exec::AccessKind::atomic || access.is_volatile || access.order != exec::Order::weak;
  std::uint64_t address[exec::lanes_per_warp];
  const auto spell_out = [&] {
    if (access.address != nullptr) return;
    access.pattern->addresses(address);
    access.address = address;
  };
  if (is_strong) spell_out();
  Now now{.clock = clock,
          .cta = cta,
          .space = access.space,
          .record = {},
          .is_write = access.kind != exec::AccessKind::load,
          .address = 0,
          .bytes = access.is_matrix ? 16 : access.bytes,
          .unchanged = unchanged,
          .is_read_only = access.is_non_coherent};
  now.record.clock = clock.clock();
  now.record.actor = clock.actor;
  now.record.pc = access.pc & AccessRecord::last_pc;
  now.record.passes_data = passes_data(access);
  std::uint32_t flags = is_strong ? std::uint32_t{AccessRecord::strong} : 0u;
  if (is_strong && access.scope == exec::Scope::cta && !access.is_volatile) flags |= AccessRecord::cta_scope;
  // The rows of a matrix are read by all lanes, whichever lane gave the address.
  if (access.is_matrix) {
    flags |= AccessRecord::several_lanes;
    now.record.group = exec::lanes_per_warp - 1;
  }
  now.record.flags = flags & 0x1fu;
  if (access.kind == exec::AccessKind::atomic && !guesses_.empty()) {
    for_each_lane(access.lanes, [&](int lane) {
      guesses_.erase({clock.actor, location_of(access.space, access.address[lane])});
    });
  }
  if (access.space == ir::Space::shared && !by_lane_ && put_off(access, now.record, clock, cta)) return;
  const bool is_row = access.pattern != nullptr && !by_lane_ && !is_strong && !access.is_matrix &&
                      (access.bytes == 4 || access.bytes == 8 || access.bytes == 16) &&
                      access.pattern->is_row(access.bytes) && access.pattern->base % bytes_per_row == 0;
  const auto touch_all = [&](auto& history) {
    if (is_row) now.is_write ? touch_rows<true>(history, access, now) : touch_rows<false>(history, access, now);
    if (access.lanes == 0) return;
    spell_out();
    if (now.is_write) {
      touch_lanes<true>(history, access, now);
    } else {
      touch_lanes<false>(history, access, now);
    }
  };
  if (access.space == ir::Space::shared) {
    touch_all(cta.shared);
  } else {
    touch_all(*global_);
  }
  if (is_strong && !access.is_barrier_object) synchronise(access, clock, cta);
}

void Racecheck::copies_issued(std::span<const exec::AsyncCopy> copies, WarpClock& clock, CtaClock& cta) {
  Now now{.clock = clock,
          .cta = cta,
          .space = ir::Space::shared,
          .record = {},
          .is_write = true,
          .address = 0,
          .bytes = 0,
          .unchanged = 0,
          .is_read_only = false};
  now.record.clock = clock.clock();
  now.record.actor = clock.actor;
  now.record.flags = AccessRecord::copy;
  cta.users |= std::uint64_t{1} << clock.id % 64;
  for (const exec::AsyncCopy& copy : copies) {
    __builtin_prefetch(cta.shared.find(copy.destination / bytes_per_quad));
    if (copy.source < memory::shared_window) __builtin_prefetch(global_->find(copy.source / bytes_per_quad));
  }
  for (const exec::AsyncCopy& copy : copies) {
    if (copy.group >= clock.groups.size()) clock.groups.resize(copy.group + 1);
    now.record.pc = copy.pc & AccessRecord::last_pc;
    now.record.group = copy.group & 0x3fffffu;
    now.record.lane = copy.lane & 31u;
    now.space = ir::Space::shared;
    now.is_write = true;
    now.address = copy.destination;
    now.bytes = copy.bytes;
    const std::uint64_t pages = cta.reads.pages(copy.destination, copy.bytes);
    if (cta.reads.are_in(pages)) look_at_reads(cta);
    cta.reads.write(pages);
    clock.groups[copy.group].pages |= pages;
    touch_bytes<true>(cta.shared, now);
    if (copy.source_bytes == 0 || copy.source >= memory::shared_window) continue;
    now.space = ir::Space::global;
    now.is_write = false;
    now.address = copy.source;
    now.bytes = copy.source_bytes;
    touch_bytes<false>(*global_, now);
  }
}

}  // namespace flashmoe::vgpu::observe
