#include "vgpu/exec/barrier.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "vgpu/exec/async_copy.hpp"
#include "vgpu/exec/flow.hpp"
#include "vgpu/exec/lane_loop.hpp"
#include "vgpu/exec/observer.hpp"

namespace flashmoe::vgpu::exec {

namespace {

// Without a count the barrier is for all warps that have not exited, as on the device.
[[nodiscard]] bool is_complete(const Cta& cta, const Cta::Barrier& barrier) {
  const std::uint32_t threads =
      barrier.expected_threads != 0 ? barrier.expected_threads : cta.live_warps * lanes_per_warp;
  return barrier.arrived_threads != 0 && barrier.arrived_threads >= threads;
}

// bar.red: every waiting lane gets the reduction over all lanes that came.
void write_reduction(Warp& warp, const Split& split, const Cta::Barrier& barrier) {
  const ir::Inst& inst = warp.kernel->code[split.pc - 1];
  const ir::Form& form = warp.kernel->info[split.pc - 1].form;
  if (!form.has("red")) {
    return;
  }
  if (form.has("popc")) {
    std::uint32_t* const destination = split.frame->registers + std::size_t{inst.d} * lanes_per_warp;
    for_each_lane(split.mask, [&](int lane) { destination[lane] = barrier.reduction; });
    return;
  }
  const bool value = form.has("or") ? barrier.any != 0 : barrier.reduction == barrier.reduced_lanes;
  std::uint32_t& predicate = split.frame->predicates[inst.d];
  predicate = value ? predicate | split.mask : predicate & ~split.mask;
}

void complete(Cta& cta, std::uint32_t number) {
  Cta::Barrier& barrier = cta.barriers[number];
  Observer* const observer = observer_of(cta);
  if (observer != nullptr) {
    observer->barrier_completes(cta, number);
  }
  const std::vector<std::uint32_t> waiting = std::move(barrier.waiting);
  for (const std::uint32_t id : waiting) {
    Warp& warp = cta.warps[id];
    for (Split& split : warp.splits) {
      if (split.wait == Split::Wait::barrier && split.counted && split.barrier == number) {
        write_reduction(warp, split, barrier);
        split.wait = Split::Wait::none;
        split.counted = false;
      }
    }
    if (observer != nullptr) {
      observer->barrier_passes(warp, number);
    }
  }
  const std::uint64_t phase = barrier.phase + 1;
  barrier = Cta::Barrier{};
  barrier.phase = phase;
  for (const std::uint32_t id : waiting) {
    Warp& warp = cta.warps[id];
    if (warp.state == WarpState::at_barrier) {
      warp.state = WarpState::running;
      next_split(warp);
    }
  }
}

void report(Warp& warp, SyncProblem problem, const std::string& detail) {
  if (Observer* const observer = observer_of(*warp.cta)) {
    observer->sync_problem(warp, problem, warp.barrier_pc, detail);
  }
}

}  // namespace

bool waits_at_counted_barrier(const Warp& warp) {
  return std::any_of(warp.splits.begin(), warp.splits.end(), [](const Split& split) { return split.counted; });
}

bool meets_at_barrier(Warp& warp) {
  const std::uint32_t number = warp.splits.front().barrier;
  for (const Split& split : warp.splits) {
    if (split.wait != Split::Wait::barrier || split.counted || split.barrier != number) {
      return false;
    }
  }
  Cta& cta = *warp.cta;
  Cta::Barrier& barrier = cta.barriers[number];
  const std::uint32_t threads = warp.splits.front().barrier_threads;
  if (barrier.arrived_threads != 0 && barrier.expected_threads != threads) {
    report(warp, SyncProblem::barrier_count,
           fmt::format("barrier {} is used with {} and with {} threads at once (0: the whole block)", number,
                       barrier.expected_threads, threads));
  }
  barrier.expected_threads = std::max(barrier.expected_threads, threads);
  barrier.arrived_threads += lanes_per_warp;
  bool waits = false;
  for (Split& split : warp.splits) {
    split.counted = !split.arrives_only;
    split.wait = split.arrives_only ? Split::Wait::none : Split::Wait::barrier;
    waits = waits || split.counted;
  }
  if (waits) {
    barrier.waiting.push_back(warp.id);
  }
  warp.state = WarpState::at_barrier;
  if (is_complete(cta, barrier)) {
    warp.state = WarpState::running;
    complete(cta, number);
  }
  if (take_runnable(warp)) {
    warp.state = WarpState::running;
  } else {
    warp.leave = true;
  }
  return true;
}

void come_to_barrier(Warp& warp, std::uint32_t number, std::uint32_t threads, bool arrives_only) {
  if (threads % lanes_per_warp != 0) {
    report(warp, SyncProblem::barrier_count,
           fmt::format("a barrier for {} threads: the count must be a multiple of the warp size", threads));
    threads = (threads + lanes_per_warp - 1) / lanes_per_warp * lanes_per_warp;
  }
  const std::uint32_t passing = warp.active & ~warp.exec;  // the guard keeps them from the barrier
  Split aside{};
  if (passing != 0) {
    aside = warp.current;
    aside.mask = passing;
    aside.pc = warp.pc;
    aside.frame = warp.frame;
    aside.wait = Split::Wait::none;
  }
  warp.active = warp.exec;
  Split& split = warp.current;
  split.barrier = number;
  split.barrier_threads = threads;
  split.arrives_only = arrives_only;
  split.counted = false;
  park(warp, Split::Wait::barrier);
  if (passing != 0) {
    warp.splits.push_back(std::move(aside));
  }
  next_split(warp);
}

void end_warp(Warp& warp) {
  Cta& cta = *warp.cta;
  finish_copies(warp);
  warp.state = WarpState::exited;
  warp.leave = true;
  --cta.live_warps;
  for (std::uint32_t number = 0; number < barriers_per_cta; ++number) {
    if (is_complete(cta, cta.barriers[number])) {
      complete(cta, number);
    }
  }
}

}  // namespace flashmoe::vgpu::exec
