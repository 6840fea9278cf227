#include "vgpu/exec/async_copy.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <span>
#include <vector>

#include "vgpu/exec/addresses.hpp"
#include "vgpu/exec/host_access.hpp"
#include "vgpu/exec/lane_loop.hpp"

namespace flashmoe::vgpu::exec {

namespace {

void copy_bytes(std::uint64_t to, std::uint64_t from, std::uint32_t bytes) {
  for (std::uint32_t at = 0; at < bytes; ++at) {
    store_host<std::uint8_t>(to + at, load_host<std::uint8_t>(from + at));
  }
}

void fill_zero(std::uint64_t to, std::uint32_t bytes) {
  for (std::uint32_t at = 0; at < bytes; ++at) {
    store_host<std::uint8_t>(to + at, 0);
  }
}

inline void move_bytes(const Warp& warp, const AsyncCopy& copy, bool reads) {
  const std::uint64_t to = reinterpret_cast<std::uint64_t>(warp.shared) + copy.destination;
  const std::uint32_t copied = reads ? copy.source_bytes : 0;
  if (copied == 16) {  // nearly all of them
    store_host<std::uint64_t>(to, load_host<std::uint64_t>(copy.source));
    store_host<std::uint64_t>(to + 8, load_host<std::uint64_t>(copy.source + 8));
    return;
  }
  copy_bytes(to, copy.source, copied);
  fill_zero(to + copied, copy.bytes - copied);
}

// Copies of one instruction. An observer hears of both sides now, when the bytes move, and both are checked now.
void land_observed(Warp& warp, std::span<const AsyncCopy> copies) {
  const AsyncCopy& first = copies.front();
  const ir::Inst& inst = warp.kernel->code[first.pc];
  std::uint64_t source[lanes_per_warp] = {}, destination[lanes_per_warp] = {};
  std::uint32_t lanes = 0, reading = 0, writing = 0;
  for (const AsyncCopy& copy : copies) {
    source[copy.lane] = copy.source;
    destination[copy.lane] = copy.destination;
    lanes |= 1u << copy.lane;
  }
  Targets ignored;
  const std::uint32_t pc = warp.pc;
  warp.pc = first.pc + 1;  // a fault is one of the copy, not of whoever waits for it
  if (first.source_bytes != 0) {
    const Request read{lanes, first.source_bytes, AccessKind::async_read, false, copies, first.bytes};
    reading = resolve_in<Mode::observed>(warp, inst, ir::Space::global, read, source, ignored);
  }
  // Between two slices `leave` says nothing about faults; the grid does.
  if (!warp.cta->grid->stopped) {
    const Request write{lanes, first.bytes, AccessKind::async_write, false, copies, first.bytes};
    writing = resolve_in<Mode::observed>(warp, inst, ir::Space::shared, write, destination, ignored);
  }
  for (const AsyncCopy& copy : copies) {
    if (((writing >> copy.lane) & 1) != 0) {
      move_bytes(warp, copy, ((reading >> copy.lane) & 1) != 0);
    }
  }
  warp.pc = pc;
}

// In the order of their issue; neighbours that one instruction issued and that are alike land at once.
void land_observed_in_turn(Warp& warp, const std::vector<AsyncCopy>& copies) {
  const auto goes_with = [](const AsyncCopy& copy, const AsyncCopy& next) {
    return next.pc == copy.pc && next.lane > copy.lane && next.bytes == copy.bytes &&
           next.source_bytes == copy.source_bytes;
  };
  for (auto begin = copies.begin(); begin != copies.end();) {
    auto end = begin + 1;
    while (end != copies.end() && goes_with(*(end - 1), *end)) {
      ++end;
    }
    land_observed(warp, {begin, end});
    begin = end;
  }
}

template <class ShouldLand>
void land_those(Warp& warp, ShouldLand&& should_land) {
  const bool observed = observer_of(*warp.cta) != nullptr;
  std::vector<AsyncCopy> landing;
  if (observed) {
    landing.reserve(warp.copies.size());
  }
  AsyncCopy* kept = warp.copies.data();
  for (const AsyncCopy& copy : warp.copies) {
    if (!should_land(copy)) {
      *kept++ = copy;
    } else if (observed) {
      landing.push_back(copy);
    } else {
      move_bytes(warp, copy, true);  // checked when it was issued
    }
  }
  warp.copies.resize(static_cast<std::size_t>(kept - warp.copies.data()));
  land_observed_in_turn(warp, landing);
}

// Checks one side as a load or a store would be checked.
[[nodiscard]] bool check(Warp& warp, const ir::Inst& inst, ir::Space space, AccessKind kind, std::uint32_t lanes,
                         const std::uint64_t* addresses) {
  Targets ignored;
  const Request request{lanes, inst.size, kind, false, {}, 0};
  return resolve_in<Mode::fast>(warp, inst, space, request, addresses, ignored) == lanes;
}

template <Mode mode>
void issue(Warp& warp, const ir::Inst& inst) {
  Grid& grid = *warp.cta->grid;
  std::uint64_t source[lanes_per_warp], destination[lanes_per_warp];
  operand_addresses(warp, inst.a, inst.wide_address, inst.imm, destination);
  operand_addresses(warp, inst.b, inst.b_wide, inst.imm2, source);
  const std::uint32_t ignored = inst.e == ir::no_slot ? 0 : warp.predicates[inst.e];
  const std::uint32_t* const sizes = inst.c == ir::no_slot ? nullptr : warp.slot(inst.c);
  // A lane that reads nothing may hold any address: kernels clamp rows out of range that way.
  std::uint32_t reading = warp.exec & ~ignored;
  if (sizes != nullptr) {
    for_each_lane(reading, [&](int lane) { reading &= sizes[lane] == 0 ? ~(1u << lane) : all_lanes; });
  }
  const std::uint32_t lanes = warp.exec;
  if (mode == Mode::fast || grid.observer == nullptr) {
    if (!check(warp, inst, ir::Space::shared, AccessKind::async_write, lanes, destination) ||
        !check(warp, inst, ir::Space::global, AccessKind::async_read, reading, source)) {
      return;
    }
  }
  const Schedule::Copies when = grid.launch->schedule.copies;
  const std::size_t begin = warp.copies.size();
  warp.copies.resize(begin + static_cast<std::size_t>(std::popcount(lanes)));
  AsyncCopy* next = warp.copies.data() + begin;
  for_each_lane(lanes, [&](int lane) {
    AsyncCopy& copy = *next++;
    copy.source = source[lane];
    copy.destination = static_cast<std::uint32_t>(destination[lane]);
    copy.group = warp.committed_groups[lane];
    copy.pc = warp.pc - 1;
    copy.bytes = static_cast<std::uint8_t>(inst.size);
    copy.lane = static_cast<std::uint8_t>(lane);
    const bool reads = ((reading >> lane) & 1) != 0;
    const std::uint32_t wanted = sizes != nullptr ? std::min<std::uint32_t>(sizes[lane], inst.size) : inst.size;
    copy.source_bytes = static_cast<std::uint8_t>(reads ? wanted : 0);
  });
  if constexpr (mode == Mode::observed) {
    if (grid.observer != nullptr) {
      grid.observer->copies_issued(warp, std::span(warp.copies).subspan(begin));
    }
  }
  if (when == Schedule::Copies::earliest) {
    land_copies(warp, lanes);
  } else if (when == Schedule::Copies::random) {
    land_some_copies(warp);
  }
}

template <Mode mode>
void commit(Warp& warp, const ir::Inst&) {
  for_each_lane(warp.exec, [&](int lane) { ++warp.committed_groups[lane]; });
  if constexpr (mode == Mode::observed) {
    if (Observer* const observer = warp.cta->grid->observer) {
      observer->copies_committed(warp, warp.exec);
    }
  }
}

// Waits until at most N of a lane's latest groups are under way: all before them have landed.
template <Mode mode>
void wait_group(Warp& warp, const ir::Inst& inst) {
  const auto pending = static_cast<std::uint32_t>(inst.imm);
  std::uint32_t waited[lanes_per_warp];  // groups of the lane with a lower number must have landed
  for (int lane = 0; lane < lanes_per_warp; ++lane) {
    const std::uint32_t committed = warp.committed_groups[lane];
    waited[lane] = ((warp.exec >> lane) & 1) != 0 && committed > pending ? committed - pending : 0;
  }
  land_those(warp, [&](const AsyncCopy& copy) { return copy.group < waited[copy.lane]; });
  if constexpr (mode == Mode::observed) {
    if (Observer* const observer = warp.cta->grid->observer) {
      observer->copies_waited(warp, warp.exec, pending);
    }
  }
}

// Commits what is open, then waits for everything.
template <Mode mode>
void wait_all(Warp& warp, const ir::Inst& inst) {
  commit<mode>(warp, inst);
  ir::Inst none_pending{};
  wait_group<mode>(warp, none_pending);
}

}  // namespace

void land_copies(Warp& warp, std::uint32_t lanes) {
  land_those(warp, [&](const AsyncCopy& copy) { return ((lanes >> copy.lane) & 1) != 0; });
}

void finish_copies(Warp& warp) {
  if (warp.copies.empty()) {
    return;
  }
  if (Observer* const observer = observer_of(*warp.cta)) {
    observer->sync_problem(
        warp, SyncProblem::missing_wait, warp.copies.front().pc,
        fmt::format("the warp ended with {} asynchronous copies that nothing waited for", warp.copies.size()));
  }
  land_those(warp, [](const AsyncCopy&) { return true; });
}

void land_some_copies(Warp& warp) {
  std::uint64_t& random = warp.cta->grid->random_state;
  land_those(warp, [&](const AsyncCopy&) { return (draw(random) & 3) == 0; });
}

ir::Handler async_copy_handler(const ir::Form& form, Mode mode) {
  if (form.opcode != "cp" || !form.has("async") || form.has("mbarrier") || form.has("bulk")) {
    return nullptr;
  }
  const bool fast = mode == Mode::fast;
  if (form.has("commit_group")) {
    return fast ? &commit<Mode::fast> : &commit<Mode::observed>;
  }
  if (form.has("wait_group")) {
    return fast ? &wait_group<Mode::fast> : &wait_group<Mode::observed>;
  }
  if (form.has("wait_all")) {
    return fast ? &wait_all<Mode::fast> : &wait_all<Mode::observed>;
  }
  return fast ? &issue<Mode::fast> : &issue<Mode::observed>;
}

}  // namespace flashmoe::vgpu::exec
