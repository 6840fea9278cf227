#include "vgpu/observe/sanitizer/racecheck.hpp"

#include <algorithm>
#include <array>
#include <cstring>

#include "vgpu/observe/lanes.hpp"
#include "vgpu/observe/store_value.hpp"

namespace flashmoe::vgpu::observe {
namespace {

constexpr std::uint64_t shared_location = memory::shared_window;  // keeps shared and global locations apart

// The bytes of word `word` that [address, address + bytes) covers.
std::uint32_t byte_mask(std::uint64_t word, std::uint64_t address, std::uint64_t bytes) {
  const std::uint64_t begin = std::max(address, word * 4) - word * 4;
  const std::uint64_t end = std::min(address + bytes, word * 4 + 4) - word * 4;
  return ((1u << end) - 1u) & ~((1u << begin) - 1u);
}

}  // namespace

void Racecheck::grid_begins(const exec::Grid& grid) {
  grid_ = &grid;
  warps_per_cta_ = static_cast<std::uint32_t>((grid.launch->block.count() + 31) / 32);
  global_ = std::make_unique<GlobalHistory>();
  locations_.clear();
}

void Racecheck::grid_ends() {
  global_.reset();
}

void Racecheck::cta_begins(const exec::Cta& cta, CtaClock& clocks) {
  clocks.warps.resize(cta.warps.size());
  for (VectorClock& clock : clocks.arriving) clock.own.resize(warps_per_cta_);
  for (VectorClock& clock : clocks.released) clock.own.resize(warps_per_cta_);
}

void Racecheck::warp_begins(const exec::Warp& warp, CtaClock& cta, WarpClock& clock) {
  clock.id = warp.id;
  clock.first_actor = static_cast<std::uint32_t>(warp.cta->linear * warps_per_cta_);
  clock.actor = clock.first_actor + warp.id;
  clock.knows.own.assign(warps_per_cta_, 0);
  clock.knows.own[warp.id] = 1;
  cta.warps[warp.id] = &clock;
}

Racecheck::Verdict Racecheck::judge(const AccessRecord& before, const Now& now) const {
  const AccessRecord& mine = now.record;
  const bool same_cta = before.actor - now.clock.first_actor < warps_per_cta_;
  const bool both_strong = before.has(AccessRecord::strong) && mine.has(AccessRecord::strong);
  const bool narrow = before.has(AccessRecord::cta_scope) || mine.has(AccessRecord::cta_scope);
  if (both_strong && (same_cta || !narrow)) return Verdict::ordered;

  const WarpClock& clock = now.clock;
  const auto met_since = [&](std::uint32_t when) {
    return clock.last_sync[before.lane] > when && clock.last_sync[mine.lane] > when;
  };
  if (!same_cta) {
    if (clock.knows.of_foreign(before.actor) >= before.clock) return Verdict::ordered;
    return both_strong ? Verdict::scope : Verdict::unordered;
  }
  const std::uint32_t warp = before.actor - clock.first_actor;
  if (before.has(AccessRecord::copy)) {
    const auto& groups = now.cta.warps[warp]->groups;
    const bool waited = before.group < groups.size() && (groups[before.group].waited_lanes >> before.lane & 1) != 0;
    const bool issue_is_known = clock.knows.own[warp] >= before.clock;
    if (!waited) return issue_is_known ? Verdict::copy_under_way : Verdict::unordered;
    const std::uint32_t when = groups[before.group].waited_at;
    if (before.actor != mine.actor) {
      if (clock.knows.own[warp] >= when) return Verdict::ordered;
      return issue_is_known ? Verdict::unsynchronised_copy : Verdict::unordered;
    }
    const bool same_lane = before.lane == mine.lane && !mine.has(AccessRecord::several_lanes);
    return same_lane || met_since(when) ? Verdict::ordered : Verdict::unsynchronised_copy;
  }
  if (before.actor != mine.actor) {
    return clock.knows.own[warp] >= before.clock ? Verdict::ordered : Verdict::unordered;
  }
  // One warp. Lanes of one instruction that meet in a word are judged by same_instruction().
  const bool one_lane =
      before.lane == mine.lane && !before.has(AccessRecord::several_lanes) && !mine.has(AccessRecord::several_lanes);
  if (one_lane || (before.pc == mine.pc && before.clock == mine.clock)) return Verdict::ordered;
  return met_since(before.clock) ? Verdict::ordered : Verdict::within_warp;
}

void Racecheck::touch(AccessHistory& history, Cell& cell, Now& now) {
  AccessRecord& mine = now.record;
  const auto look_at = [&](const AccessRecord& before, bool before_writes) {
    if ((before.mask & mine.mask) == 0) return;
    const Verdict verdict = judge(before, now);
    if (verdict != Verdict::ordered) report(now, before, before_writes, verdict);
  };
  look_at(cell.write, true);
  if (!now.is_write) {
    AccessRecord& read = cell.read;
    if (read.mask != 0 && read.same_moment(mine)) {
      if (read.lane != mine.lane) read.flags |= AccessRecord::several_lanes;
      read.mask |= mine.mask;
      return;
    }
    if (read.mask == 0 || (read.actor == mine.actor && !read.has(AccessRecord::copy)) ||
        judge(read, now) == Verdict::ordered) {
      read = mine;
      return;
    }
    AccessRecord* const set = cell.readers != 0 ? history.readers(cell) : history.add_readers(cell);
    AccessRecord& place = set[history.readers_per_set() > 1 ? now.clock.id : 0];
    const bool other_lane = place.mask != 0 && place.same_moment(mine) && place.lane != mine.lane;
    place = mine;
    if (other_lane) place.flags |= AccessRecord::several_lanes;
    return;
  }
  look_at(cell.read, false);
  if (cell.readers != 0) {
    const AccessRecord* const set = history.readers(cell);
    for (std::uint32_t i = 0; i < history.readers_per_set(); ++i) look_at(set[i], false);
  }
  if (cell.write.mask != 0 && cell.write.same_moment(mine) && cell.write.pc == mine.pc) {
    const std::uint32_t mask = cell.write.mask | mine.mask;
    const bool several = cell.write.lane != mine.lane;
    cell.write = mine;
    cell.write.mask = mask;
    if (several) cell.write.flags |= AccessRecord::several_lanes;
  } else {
    cell.write = mine;
  }
  if ((cell.read.mask & mine.mask) != 0) cell.read = {};
  if (mine.mask == 0xf) history.drop_readers(cell);
}

// The usual cases, decided without a call. True: the cell is up to date.
template <bool is_write>
inline bool Racecheck::touch_quickly(AccessHistory& history, Cell& cell, const Now& now) const {
  const AccessRecord& mine = now.record;
  AccessRecord& read = cell.read;
  if constexpr (!is_write) {
    // Read by this warp before, with no write and no synchronisation since: all was said then.
    const auto is_known = [&](AccessRecord& known) {
      if (known.mask != mine.mask || !known.same_moment(mine) || known.pc != mine.pc) return false;
      if (known.lane != mine.lane) known.flags |= AccessRecord::several_lanes;
      return true;
    };
    if (is_known(read)) return true;
    if (cell.readers != 0 && is_known(history.readers(cell)[history.readers_per_set() > 1 ? now.clock.id : 0]))
      return true;
  }
  const auto is_over = [&](const AccessRecord& before) {
    if (before.mask == 0) return true;
    const std::uint32_t warp = before.actor - now.clock.first_actor;
    if (warp >= warps_per_cta_ || before.has(AccessRecord::copy)) return false;
    if (warp != now.clock.id) return now.clock.knows.own[warp] >= before.clock;
    const std::uint32_t several = (before.flags | mine.flags) & AccessRecord::several_lanes;
    if (before.lane == mine.lane && several == 0) return true;
    return now.clock.last_sync[before.lane] > before.clock && now.clock.last_sync[mine.lane] > before.clock;
  };
  if (!is_over(cell.write) || !is_over(read)) return false;
  if constexpr (is_write) {
    if (cell.readers != 0 || mine.mask != 0xf) return false;
    cell.write = mine;
    read = {};
  } else {
    read = mine;
  }
  return true;
}

void Racecheck::touch_lane(Now& now) {
  const std::uint64_t last = (now.address + now.bytes - 1) / 4;
  const bool whole_words = ((now.address | now.bytes) & 3) == 0;
  for (std::uint64_t word = now.address / 4; word <= last; ++word) {
    now.record.mask = whole_words ? 0xf : byte_mask(word, now.address, now.bytes);
    const bool is_shared = now.space == ir::Space::shared;
    Cell* const cell = is_shared ? now.cta.shared.find(word) : global_->find(word);
    if (cell == nullptr) continue;
    AccessHistory& history = is_shared ? static_cast<AccessHistory&>(now.cta.shared) : *global_;
    const bool is_done =
        now.is_write ? touch_quickly<true>(history, *cell, now) : touch_quickly<false>(history, *cell, now);
    if (!is_done) touch(history, *cell, now);
  }
}

void Racecheck::access(exec::Warp& warp, const ir::Inst& inst, const exec::Access& access, WarpClock& clock,
                       CtaClock& cta) {
  if (access.copy != nullptr || (access.space != ir::Space::shared && access.space != ir::Space::global)) return;
  const bool is_strong =
      access.kind == exec::AccessKind::atomic || access.is_volatile || access.order != exec::Order::weak;
  Now now{.warp = warp,
          .inst = &inst,
          .clock = clock,
          .cta = cta,
          .space = access.space,
          .record = {},
          .is_write = access.kind != exec::AccessKind::load,
          .address = 0,
          .bytes = access.is_matrix ? 16 : access.bytes};
  now.record.clock = clock.clock();
  now.record.actor = clock.actor;
  now.record.pc = access.pc;
  std::uint32_t flags = is_strong ? std::uint32_t{AccessRecord::strong} : 0u;
  if (is_strong && access.scope == exec::Scope::cta && !access.is_volatile) flags |= AccessRecord::cta_scope;
  // The rows of a matrix are read by all lanes, whichever lane gave the address.
  if (access.is_matrix) flags |= AccessRecord::several_lanes;
  now.record.flags = flags & 0x1fu;
  if (access.kind == exec::AccessKind::store && !access.is_matrix) same_instruction(warp, inst, access, clock.actor);
  for_each_lane(access.lanes, [&](int lane) {
    now.address = access.address[lane];
    now.record.lane = static_cast<std::uint32_t>(lane) & 31u;
    touch_lane(now);
  });
  if (is_strong) synchronise(access, clock, cta);
}

void Racecheck::copy_issued(exec::Warp& warp, const exec::AsyncCopy& copy, WarpClock& clock, CtaClock& cta) {
  if (copy.group >= clock.groups.size()) clock.groups.resize(copy.group + 1);
  Now now{.warp = warp,
          .inst = nullptr,
          .clock = clock,
          .cta = cta,
          .space = ir::Space::shared,
          .record = {},
          .is_write = true,
          .address = copy.destination,
          .bytes = copy.bytes};
  now.record.clock = clock.clock();
  now.record.actor = clock.actor;
  now.record.pc = copy.pc;
  now.record.group = copy.group & 0x3fffffu;
  now.record.lane = copy.lane & 31u;
  now.record.flags = AccessRecord::copy;
  touch_lane(now);
  if (copy.source_bytes == 0 || copy.source >= memory::shared_window) return;
  now.space = ir::Space::global;
  now.is_write = false;
  now.address = copy.source;
  now.bytes = copy.source_bytes;
  touch_lane(now);
}

void Racecheck::copies_waited(const exec::Warp& warp, std::uint32_t lanes, std::uint32_t pending, bool open_too,
                              WarpClock& clock) {
  clock.tick();
  for_each_lane(lanes, [&](int lane) {
    const std::uint32_t committed = warp.committed_groups[lane];
    const std::uint32_t closed = committed > pending ? committed - pending : 0;
    const std::uint32_t done = open_too ? committed + 1 : closed;
    std::uint32_t& known = clock.groups_done[static_cast<std::size_t>(lane)];
    for (; known < done; ++known) {
      if (known >= clock.groups.size()) continue;
      clock.groups[known].waited_lanes |= 1u << lane;
      clock.groups[known].waited_at = clock.clock();
    }
  });
}

void Racecheck::barrier_arrives(std::uint32_t number, WarpClock& clock, CtaClock& cta) {
  cta.arriving[number].join(clock.knows);
  clock.tick();
}

void Racecheck::barrier_completes(std::uint32_t number, CtaClock& cta) {
  cta.released[number] = cta.arriving[number];
  cta.arriving[number] = {};
}

void Racecheck::barrier_passes(std::uint32_t number, WarpClock& clock, CtaClock& cta, std::uint32_t lanes) {
  clock.knows.join(cta.released[number]);
  for_each_lane(lanes, [&](int lane) { clock.last_sync[static_cast<std::size_t>(lane)] = clock.clock(); });
}

void Racecheck::fence(exec::Scope scope, WarpClock& clock) {
  clock.knows.join(clock.seen_in_cta);
  clock.seen_in_cta = {};
  if (scope != exec::Scope::cta) {
    clock.knows.join_sparse(clock.seen_in_gpu, clock.first_actor);
    clock.seen_in_gpu.reset();
  }
  clock.at_fence = clock.knows;
  clock.fenced = true;
  clock.fenced_for_gpu = scope != exec::Scope::cta;
  clock.tick();
}

void Racecheck::warp_syncs(std::uint32_t lanes, WarpClock& clock) {
  clock.tick();
  for_each_lane(lanes, [&](int lane) { clock.last_sync[static_cast<std::size_t>(lane)] = clock.clock(); });
}

// Strong accesses carry order: a write publishes what a release gave it, a read picks up what lies there.
void Racecheck::synchronise(const exec::Access& access, WarpClock& clock, CtaClock& cta) {
  const bool reads = access.kind != exec::AccessKind::store;
  const bool writes = access.kind != exec::AccessKind::load;
  const bool releases = access.order == exec::Order::release || access.order == exec::Order::acq_rel;
  const bool acquires = access.order == exec::Order::acquire || access.order == exec::Order::acq_rel;
  const bool is_shared = access.space == ir::Space::shared;
  const bool gpu_wide = access.is_volatile || access.scope != exec::Scope::cta;
  const auto key_of = [&](int lane) { return access.address[lane] + (is_shared ? shared_location : 0); };
  if (reads && (!cta.locations.empty() || !locations_.empty())) {
    for_each_lane(access.lanes, [&](int lane) {
      if (const auto found = cta.locations.find(key_of(lane)); found != cta.locations.end()) {
        (acquires ? clock.knows : clock.seen_in_cta).join(found->second);
      }
      if (is_shared || !gpu_wide) return;
      const auto found = locations_.find(key_of(lane));
      if (found == locations_.end()) return;
      if (acquires) {
        clock.knows.join_sparse(found->second, clock.first_actor);
      } else if (clock.seen_in_gpu != found->second) {
        clock.seen_in_gpu = clock.seen_in_gpu
                                ? std::make_shared<const SparseClock>(merged(*clock.seen_in_gpu, *found->second))
                                : found->second;
      }
    });
  }
  if (!writes || (!releases && !clock.fenced)) return;
  const VectorClock& published = releases ? clock.knows : clock.at_fence;
  const bool for_gpu = gpu_wide && (releases || clock.fenced_for_gpu);
  std::shared_ptr<const SparseClock> sparse;
  if (for_gpu && !is_shared) sparse = std::make_shared<const SparseClock>(published.sparse(clock.first_actor));
  for_each_lane(access.lanes, [&](int lane) {
    cta.locations[key_of(lane)].join(published);
    if (!sparse) return;
    auto& place = locations_[key_of(lane)];
    place = place ? std::make_shared<const SparseClock>(merged(*place, *sparse)) : sparse;
  });
  if (releases) clock.tick();
}

// Two lanes of one store in the same bytes: harmless when they store the same, undefined otherwise.
void Racecheck::same_instruction(exec::Warp& warp, const ir::Inst& inst, const exec::Access& access,
                                 std::uint32_t actor) {
  std::array<std::pair<std::uint64_t, int>, 32> sorted;
  std::size_t n = 0;
  bool rising = true;
  for_each_lane(access.lanes, [&](int lane) {
    if (n > 0 && access.address[lane] < sorted[n - 1].first + access.bytes) rising = false;
    sorted[n++] = {access.address[lane], lane};
  });
  if (rising) return;
  std::sort(sorted.begin(), sorted.begin() + static_cast<std::ptrdiff_t>(n));
  for (std::size_t i = 1; i < n; ++i) {
    const auto [low, low_lane] = sorted[i - 1];
    const auto [high, high_lane] = sorted[i];
    if (high >= low + access.bytes) continue;
    std::array<std::uint8_t, 32> first{}, second{};
    if (!store_value(warp, inst, access.pc, low_lane, first) || !store_value(warp, inst, access.pc, high_lane, second))
      return;
    const std::size_t offset = high - low;
    if (std::memcmp(first.data() + offset, second.data(), access.bytes - offset) == 0) continue;
    if (!log_.is_new(Check::racecheck, access.pc, access.pc, 1)) return;
    const exec::Dim3& block = grid_->launch->block;
    const std::uint32_t base = actor % warps_per_cta_ * exec::lanes_per_warp;
    Finding finding{.check = Check::racecheck,
                    .kernel = grid_->kernel->name,
                    .message = "lanes of one store write different values to the same place"};
    finding.at = party(*grid_->kernel, access.pc, warp.cta->block,
                       thread_of(block, base + static_cast<std::uint32_t>(high_lane)));
    finding.other = party(*grid_->kernel, access.pc, warp.cta->block,
                          thread_of(block, base + static_cast<std::uint32_t>(low_lane)));
    finding.other->what = "the same store";
    finding.address = high;
    finding.space = ir::name_of(access.space);
    finding.advice = "Let one lane store, or give each lane its own element: which value stays is not defined.";
    log_.add(std::move(finding));
    return;
  }
}

}  // namespace flashmoe::vgpu::observe
