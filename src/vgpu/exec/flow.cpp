#include "vgpu/exec/flow.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "vgpu/exec/barrier.hpp"
#include "vgpu/exec/frames.hpp"
#include "vgpu/exec/lane_loop.hpp"
#include "vgpu/exec/observer.hpp"
#include "vgpu/exec/standstill.hpp"

namespace flashmoe::vgpu::exec {

namespace {

// A loop without polling loads that others wait for: after so many rounds they are let go all the same.
constexpr std::uint32_t rounds_without_polling = 1u << 16;

[[nodiscard]] bool is_seeded(const Warp& warp) {
  return warp.cta->grid->launch->schedule.seed != 0;
}

[[nodiscard]] std::uint32_t open_record(Warp& warp, std::uint32_t pc, std::uint32_t lanes, Frame* frame) {
  const auto free = std::find_if(warp.records.begin(), warp.records.end(), [](const auto& r) { return !r.open; });
  const auto index = static_cast<std::uint32_t>(free - warp.records.begin());
  if (free == warp.records.end()) {
    warp.records.emplace_back();
  }
  warp.records[index] = Reconvergence{pc, lanes, frame, true};
  return index;
}

void leave_record(Warp& warp, std::uint32_t index, std::uint32_t lanes) {
  Reconvergence& record = warp.records[index];
  record.expected &= ~lanes;
  record.open = record.expected != 0;
}

[[nodiscard]] const Reconvergence* top_record(const Warp& warp, const Split& split) {
  return split.reconverge.empty() ? nullptr : &warp.records[split.reconverge.back()];
}

void resume(Warp& warp, std::size_t index) {
  warp.current = std::move(warp.splits[index]);
  warp.splits.erase(warp.splits.begin() + static_cast<std::ptrdiff_t>(index));
  Split& split = warp.current;
  split.wait = Split::Wait::none;
  warp.active = split.mask;
  warp.pc = split.pc;
  warp.frame = split.frame;
  warp.registers = split.frame->registers;
  warp.predicates = split.frame->predicates;
}

// Lanes with the same pc and frame become one split. Where their stacks differ beyond a prefix, the records of the
// differing part are given up: waiting there is an optimisation only.
void merge(Warp& warp, Split& into, const Split& from) {
  const auto differ =
      std::mismatch(into.reconverge.begin(), into.reconverge.end(), from.reconverge.begin(), from.reconverge.end());
  const auto common = static_cast<std::size_t>(differ.first - into.reconverge.begin());
  if (common == into.reconverge.size() || common == from.reconverge.size()) {
    const bool from_is_longer = from.reconverge.size() > common;
    const std::vector<std::uint32_t>& longer = from_is_longer ? from.reconverge : into.reconverge;
    for (std::size_t i = common; i < longer.size(); ++i) {
      warp.records[longer[i]].expected |= from_is_longer ? into.mask : from.mask;
    }
    if (from_is_longer) {
      into.reconverge = from.reconverge;
    }
  } else {
    for (std::size_t i = common; i < into.reconverge.size(); ++i) {
      leave_record(warp, into.reconverge[i], into.mask);
    }
    for (std::size_t i = common; i < from.reconverge.size(); ++i) {
      leave_record(warp, from.reconverge[i], from.mask);
    }
    into.reconverge.resize(common);
  }
  into.mask |= from.mask;
}

// Merges into splits[index] all others that `belongs` names; returns the new index.
template <class Belongs>
std::size_t merge_all(Warp& warp, std::size_t index, Belongs&& belongs) {
  for (std::size_t other = warp.splits.size(); other-- > 0;) {
    if (other != index && belongs(warp.splits[other])) {
      merge(warp, warp.splits[index], warp.splits[other]);
      warp.splits.erase(warp.splits.begin() + static_cast<std::ptrdiff_t>(other));
      index -= other < index ? 1 : 0;
    }
  }
  return index;
}

// bar.warp.sync exchanges nothing, so its lanes may stand at different instructions; all other .sync ops need one.
[[nodiscard]] bool is_warp_barrier(const Warp& warp, std::uint32_t pc) {
  const ir::Form& form = warp.kernel->info[pc].form;
  return (form.opcode == "bar" || form.opcode == "barrier") && form.has("warp");
}

[[nodiscard]] bool waits_with(const Warp& warp, const Split& split, const Split& other) {
  return other.wait == Split::Wait::sync && other.sync_mask == split.sync_mask &&
         ((other.pc == split.pc && other.frame == split.frame) ||
          (is_warp_barrier(warp, split.pc) && is_warp_barrier(warp, other.pc)));
}

// Whether the split can go on now; when it can, those who waited with it have joined it.
[[nodiscard]] bool can_run(Warp& warp, std::size_t& index) {
  const Split& split = warp.splits[index];
  switch (split.wait) {
    case Split::Wait::none:
      index = merge_all(warp, index, [pc = split.pc, frame = split.frame](const Split& other) {
        return other.wait == Split::Wait::none && other.pc == pc && other.frame == frame;
      });
      return true;
    case Split::Wait::reconverge: {
      const std::uint32_t record = split.reconverge.back();
      const auto is_here = [record](const Split& other) {
        return other.wait == Split::Wait::reconverge && other.reconverge.back() == record;
      };
      std::uint32_t here = 0;
      for (const Split& other : warp.splits) {
        here |= is_here(other) ? other.mask : 0;
      }
      if ((warp.records[record].expected & ~here) != 0) {
        return false;
      }
      index = merge_all(warp, index, is_here);
      warp.records[record].open = false;
      warp.splits[index].reconverge.pop_back();
      return true;
    }
    case Split::Wait::sync: {
      std::uint32_t here = 0;
      for (const Split& other : warp.splits) {
        here |= waits_with(warp, split, other) ? other.mask : 0;
      }
      if ((split.sync_mask & live_lanes(warp) & ~here) != 0) {
        return false;
      }
      const Split waited = split;
      index = merge_all(warp, index, [&](const Split& other) {
        return waits_with(warp, waited, other) && other.pc == waited.pc && other.frame == waited.frame;
      });
      for (Split& other : warp.splits) {  // a warp barrier's lanes elsewhere
        if (waits_with(warp, waited, other)) {
          other.wait = Split::Wait::none;
        }
      }
      if (Observer* const observer = observer_of(*warp.cta)) {
        observer->warp_syncs(warp, here, waited.pc);
      }
      return true;
    }
    case Split::Wait::barrier:
      return false;
  }
  return false;
}

// Waiting at a reconvergence point is not asked for by the program: the first that waits there goes on alone.
[[nodiscard]] bool let_one_go(Warp& warp) {
  for (std::size_t i = 0; i < warp.splits.size(); ++i) {
    Split& split = warp.splits[i];
    if (split.wait == Split::Wait::reconverge) {
      leave_record(warp, split.reconverge.back(), split.mask);
      split.reconverge.pop_back();
      resume(warp, i);
      return true;
    }
  }
  return false;
}

void raise_stuck(Warp& warp) {
  std::string lanes;
  // Or of those that wait for lanes the one that stands first in the code: who waits further on can still be met by
  // those before, but nobody comes back.
  const Split* first = &warp.splits.front();
  for (const Split& split : warp.splits) {
    const auto line = warp.kernel->info[split.wait == Split::Wait::barrier ? split.pc - 1 : split.pc].at.line;
    lanes +=
        fmt::format("{}lanes {:#010x} wait {} at PTX line {}", lanes.empty() ? "" : "; ", split.mask,
                    split.wait == Split::Wait::sync ? fmt::format("for the lanes of mask {:#010x}", split.sync_mask)
                                                    : fmt::format("at barrier {}", split.barrier),
                    line);
    if (split.wait == Split::Wait::sync && (first->wait != Split::Wait::sync || split.pc < first->pc)) first = &split;
  }
  warp.pc = first->pc + 1;  // raise() names the instruction before
  if (Observer* const observer = observer_of(*warp.cta)) {
    observer->sync_problem(warp, SyncProblem::bad_mask, first->pc, lanes);
  }
  raise(warp, Fault::Kind::deadlock, "the lanes of a warp wait for each other: " + lanes, first_lane(first->mask));
}

}  // namespace

void park(Warp& warp, Split::Wait wait) {
  Split& split = warp.current;
  split.mask = warp.active;
  split.pc = warp.pc;
  split.frame = warp.frame;
  split.wait = wait;
  warp.splits.push_back(std::move(split));
  warp.active = 0;
}

void expect_at(Warp& warp, std::uint32_t pc) {
  const Reconvergence* const top = top_record(warp, warp.current);
  // A loop that lanes leave one by one parts again and again towards the same place: one record serves.
  if (top == nullptr || top->pc != pc || top->frame != warp.frame) {
    warp.current.reconverge.push_back(open_record(warp, pc, warp.active, warp.frame));
  }
}

bool put_aside(Warp& warp, std::uint32_t lanes, std::uint32_t target, std::int64_t meet) {
  if (meet >= 0) {
    expect_at(warp, static_cast<std::uint32_t>(meet));
  }
  Split other{};
  other.mask = lanes;
  other.pc = target;
  other.frame = warp.frame;
  other.reconverge = warp.current.reconverge;
  other.backward_branches = warp.current.backward_branches;
  // Lanes that jump straight to the meeting point need no turn of their own to learn that they must wait.
  const bool waits = meet >= 0 && target == static_cast<std::uint32_t>(meet);
  other.wait = waits ? Split::Wait::reconverge : Split::Wait::none;
  warp.active &= ~lanes;
  warp.splits.push_back(std::move(other));
  return !waits;
}

void diverge(Warp& warp, std::uint32_t taken, std::uint32_t target, std::int64_t meet) {
  const bool can_swap = put_aside(warp, taken, target, meet);
  if (can_swap && is_seeded(warp) && (draw(warp.cta->grid->random_state) & 1) != 0) {
    park(warp, Split::Wait::none);
    resume(warp, warp.splits.size() - 2);
  }
}

bool arrive(Warp& warp) {
  for (;;) {
    const Reconvergence* const top = top_record(warp, warp.current);
    if (top == nullptr || top->pc != warp.pc || top->frame != warp.frame) {
      return true;
    }
    if (top->expected == warp.active) {  // nobody else is under way
      warp.records[warp.current.reconverge.back()].open = false;
      warp.current.reconverge.pop_back();
      continue;
    }
    park(warp, Split::Wait::reconverge);
    std::size_t index = warp.splits.size() - 1;
    if (!can_run(warp, index)) {
      next_split(warp);
      return false;
    }
    resume(warp, index);
  }
}

bool waits_by_itself(const Warp& warp) {
  const ir::Form& form = warp.kernel->info[warp.pc].form;
  return (form.opcode == "bar" || form.opcode == "barrier") && !form.has("warp");
}

void wait_for_mask(Warp& warp, const ir::Inst& inst) {
  const std::uint32_t passing = warp.active & ~warp.exec;  // the guard keeps them from the op
  for_each_group(warp, inst, [&](std::uint32_t group, std::uint32_t mask) {
    Split split{};
    split.mask = group;
    split.pc = warp.pc;
    split.frame = warp.frame;
    split.reconverge = warp.current.reconverge;
    split.wait = Split::Wait::sync;
    split.sync_mask = mask;
    warp.splits.push_back(std::move(split));
  });
  warp.active = passing;
  if (passing == 0) {
    next_split(warp);
  }
}

void exit_lanes(Warp& warp, std::uint32_t lanes) {
  warp.exited |= lanes;
  warp.active &= ~lanes;
  for (Reconvergence& record : warp.records) {
    record.expected &= ~lanes;
    record.open = record.open && record.expected != 0;
  }
  release_frames(warp, warp.frame, lanes);
  if (warp.active == 0) {
    next_split(warp);
  }
}

void forget_frame(Warp& warp, const Frame* frame) {
  std::erase_if(warp.current.reconverge, [&](std::uint32_t index) {
    const bool is_left = warp.records[index].frame == frame;
    if (is_left) {
      leave_record(warp, index, warp.active);
    }
    return is_left;
  });
}

bool take_runnable(Warp& warp) {
  const std::size_t count = warp.splits.size();
  const std::size_t start = count > 1 && is_seeded(warp) ? draw(warp.cta->grid->random_state) % count : 0;
  for (std::size_t k = 0; k < count; ++k) {
    std::size_t index = (start + k) % count;
    if (can_run(warp, index)) {
      resume(warp, index);
      return true;
    }
  }
  return false;
}

void next_split(Warp& warp) {
  if (take_runnable(warp)) {
    return;
  }
  if (live_lanes(warp) == 0) {
    end_warp(warp);
    return;
  }
  if (meets_at_barrier(warp)) {
    return;
  }
  if (let_one_go(warp)) {
    return;
  }
  if (waits_at_counted_barrier(warp)) {
    warp.state = WarpState::at_barrier;
    warp.leave = true;
    return;
  }
  raise_stuck(warp);
}

void look_around(Warp& warp) {
  const Grid& grid = *warp.cta->grid;
  // What CTAs write that nobody watches is no change that is seen.
  if (grid.observer != nullptr && !grid.reads_clock && grid.observer->unwatched_code() == nullptr) {
    look_for_standstill(warp);
  }
  if (!warp.polled && warp.current.backward_branches < rounds_without_polling) {
    return;
  }
  warp.polled = false;
  warp.current.backward_branches = 0;
  if (!warp.splits.empty()) {
    park(warp, Split::Wait::none);
    // First those who can run anyway, this split last; when there is none but this one, somebody who waits for it.
    const bool others_run = std::any_of(warp.splits.begin(), warp.splits.end() - 1,
                                        [](const Split& split) { return split.wait == Split::Wait::none; });
    if (others_run || !let_one_go(warp)) {
      next_split(warp);
    }
  }
  warp.leave = true;
  warp.yielded = true;
}

}  // namespace flashmoe::vgpu::exec
