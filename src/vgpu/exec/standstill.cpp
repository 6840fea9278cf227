#include "vgpu/exec/standstill.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>

#include "vgpu/exec/lane_loop.hpp"
#include "vgpu/exec/observer.hpp"

namespace flashmoe::vgpu::exec {

namespace {

// How often a state must come back. Lanes that have parted take turns, in a seeded run by lot: so many that no split
// was passed over all the time.
constexpr std::uint32_t matches_of_one_split = 2;
constexpr std::uint32_t matches_of_parted_lanes = 32;

struct Hash {
  std::uint64_t value = 0x9e3779b97f4a7c15ull;
  void add(std::uint64_t word) {
    value = (value ^ word) * 0xff51afd7ed558ccdull;
    value ^= value >> 32;
  }
};

// Of the running lanes' first: enough to tell a loop that counts from one that does not.
[[nodiscard]] std::uint64_t brief_state(const Warp& warp) {
  Hash hash;
  hash.add(warp.pc);
  hash.add(std::uint64_t{warp.active} << 32 | warp.splits.size());
  const auto lane = static_cast<std::size_t>(first_lane(warp.active));
  for (std::uint32_t slot = 0; slot < warp.frame->function->slots; ++slot) {
    hash.add(warp.slot(slot)[lane]);
  }
  return hash.value;
}

[[nodiscard]] std::uint64_t whole_state(const Warp& warp) {
  Hash hash;
  hash.add(warp.pc);
  hash.add(warp.active);
  for (const Split& split : warp.splits) {
    hash.add(std::uint64_t{split.mask} << 32 | split.pc);
    hash.add(static_cast<std::uint64_t>(split.wait));
  }
  for (const std::unique_ptr<Frame>& frame : warp.frames) {
    if (frame->lanes == 0) {
      continue;
    }
    hash.add(frame->lanes);
    const std::size_t words = std::size_t{frame->function->slots} * lanes_per_warp;
    for (std::size_t i = 0; i < words; ++i) {
      hash.add(frame->registers[i]);
    }
    for (std::uint32_t i = 0; i < frame->function->predicates; ++i) {
      hash.add(frame->predicates[i]);
    }
  }
  return hash.value;
}

}  // namespace

bool reads_a_clock(const ir::Kernel& kernel) {
  return std::any_of(kernel.info.begin(), kernel.info.end(), [](const ir::InstInfo& info) {
    return info.text.find("%clock") != std::string::npos || info.text.find("%globaltimer") != std::string::npos;
  });
}

void about_to_write(Grid& grid, const Request& request, const Targets& targets) {
  Grid::Write& write = grid.write;
  if (!request.copies.empty() || request.bytes > sizeof write.before[0]) {
    ++grid.changes;
    return;
  }
  // One instruction with generic addresses writes to several spaces.
  for_each_lane(request.lanes, [&](int lane) {
    write.host[lane] = targets.host[lane];
    std::memcpy(write.before[lane], reinterpret_cast<const void*>(targets.host[lane]), request.bytes);
  });
  write.lanes |= request.lanes;
  write.bytes = request.bytes;
}

void wrote(Grid& grid) {
  Grid::Write& write = grid.write;
  bool changed = false;
  for_each_lane(write.lanes, [&](int lane) {
    changed =
        changed || std::memcmp(write.before[lane], reinterpret_cast<const void*>(write.host[lane]), write.bytes) != 0;
  });
  grid.changes += changed ? 1 : 0;
  write.lanes = 0;
}

// Brent's way to find a cycle: compare with a state that is renewed after 1, 2, 4, ... looks.
void look_for_standstill(Warp& warp) {
  const Grid& grid = *warp.cta->grid;
  Repetition& seen = warp.repetition;
  const std::uint64_t brief = brief_state(warp);
  const bool as_before = seen.looks != 0 && seen.changes == grid.changes && seen.brief == brief;
  if (as_before) {
    const std::uint64_t whole = whole_state(warp);
    if (seen.matches == 0) {
      seen.whole = whole;
    }
    if (seen.whole == whole) {
      const std::uint32_t needed = warp.splits.empty() ? matches_of_one_split : matches_of_parted_lanes;
      if (++seen.matches > needed) {
        seen.still_at = grid.changes;
      }
      return;
    }
  }
  if (seen.changes == grid.changes && ++seen.looks < seen.renewed_after) {
    return;
  }
  const std::uint32_t next = seen.changes == grid.changes ? std::max(2u, seen.renewed_after * 2) : 2;
  seen = {.brief = brief, .changes = grid.changes, .looks = 1, .renewed_after = next};
}

void raise_standstill(Warp& warp, std::size_t live_warps, std::uint64_t ctas_not_begun) {
  const Repetition& seen = warp.repetition;
  const bool polls = seen.read_pc != ir::no_slot;
  std::string detail = fmt::format(
      "{} warps live, and all of them repeat a loop or wait at a barrier while no byte changes", live_warps);
  if (ctas_not_begun != 0) {
    detail += fmt::format("; {} of the grid's {} CTAs have not started: no more fit on the device at once",
                          ctas_not_begun, warp.cta->grid->launch->grid.count());
  }
  const std::uint32_t pc = polls ? seen.read_pc : warp.pc;
  if (Observer* const observer = observer_of(*warp.cta)) {
    observer->sync_problem(warp, polls ? SyncProblem::polling : SyncProblem::endless_loop, pc, detail);
  }
  warp.pc = pc + 1;  // raise() names the instruction before
  raise(warp, Fault::Kind::deadlock,
        fmt::format("{}: {}", polls ? "polls for a value that nobody writes" : "a loop that never ends", detail),
        warp.active == 0 ? 0 : first_lane(warp.active), seen.read_address);
}

}  // namespace flashmoe::vgpu::exec
