#include "vgpu/observe/sanitizer/synccheck.hpp"

#include <fmt/format.h>

#include <bit>
#include <utility>

#include "vgpu/observe/lanes.hpp"

namespace flashmoe::vgpu::observe {
namespace {

struct Words {
  const char* message;
  const char* advice;
};

Words words(exec::SyncProblem problem) {
  switch (problem) {
    case exec::SyncProblem::divergent_barrier:
      return {"barrier reached by some threads only",
              "Move the barrier out of the branch, so that every thread of the block reaches it."};
    case exec::SyncProblem::barrier_count:
      return {"the threads that arrive do not fit the barrier's count",
              "Give the barrier the number of threads that really arrive, a multiple of 32."};
    case exec::SyncProblem::bad_mask:
      return {"the member mask does not name the lanes that execute the instruction",
              "Name exactly the lanes that reach the instruction, for instance with __ballot_sync before the branch."};
    case exec::SyncProblem::missing_wait:
      return {"asynchronous copies are still under way",
              "Wait with cp.async.wait_group or wait_all before the data is used and before the block ends."};
    case exec::SyncProblem::deadlock:
      return {"threads wait for each other for ever",
              "Check that every thread that is waited for can reach the barrier, and that locks are released."};
    case exec::SyncProblem::polling:
      return {"polls for a value that nobody writes",
              "Write what is waited for before anybody waits, and wait only for CTAs that are resident."};
    case exec::SyncProblem::endless_loop:
      return {"a loop that never ends", "Change in the loop what its condition asks for."};
  }
  return {"", ""};
}

}  // namespace

void Synccheck::problem(const exec::Warp& warp, exec::SyncProblem problem, std::uint32_t pc, std::string_view detail) {
  if (!log_.is_new(Check::synccheck, pc, ir::no_slot, static_cast<std::uint32_t>(problem))) return;
  const auto [message, advice] = words(problem);
  const auto party_at = [&warp](std::uint32_t at, std::uint32_t lanes) {
    const std::uint32_t number = warp.id * exec::lanes_per_warp + static_cast<std::uint32_t>(std::countr_zero(lanes));
    return party(*warp.kernel, at, warp.cta->block, thread_of(warp.cta->grid->launch->block, number));
  };
  Finding finding{.check = Check::synccheck, .kernel = warp.kernel->name};
  finding.message = detail.empty() ? message : fmt::format("{}: {}", message, detail);
  finding.at = party_at(pc, warp.exec != 0 ? warp.exec : warp.active != 0 ? warp.active : 1u);
  if (problem == exec::SyncProblem::bad_mask && warp.active == 0) {
    // All lanes wait: those of this mask, and those elsewhere.
    for (const exec::Split& split : warp.splits) {
      const bool is_at_barrier = split.wait == exec::Split::Wait::barrier;
      const Party waits = party_at(is_at_barrier ? split.pc - 1 : split.pc, split.mask);
      if (split.pc == pc)
        finding.at = waits;
      else if (!finding.other)
        finding.other = waits;
    }
    if (finding.other) finding.other->what = "lanes that wait elsewhere";
  }
  const bool stands_still = problem == exec::SyncProblem::deadlock || problem == exec::SyncProblem::polling ||
                            problem == exec::SyncProblem::endless_loop;
  finding.cause = stands_still ? Cause::standstill : Cause::order;
  if (problem == exec::SyncProblem::polling) {
    finding.address = warp.repetition.read_address;
    finding.space = ir::name_of(warp.repetition.read_space);
  }
  finding.advice = advice;
  log_.add(std::move(finding));
}

void Synccheck::access(const exec::Warp& warp, const exec::Access& access, LastAccess& last, PartialArrival& open) {
  if (access.space == ir::Space::param || !access.copies.empty()) return;
  last.pc = access.pc;
  if (open.expected != 0 && (access.space == ir::Space::shared || paths_.is_behind(*warp.kernel, open.pc, access.pc))) {
    open.passed_by |= access.lanes;
  }
  if (access.lanes == (warp.valid & ~warp.exited)) return;
  for_each_lane(access.lanes, [&](int lane) { last.alone[static_cast<std::size_t>(lane)] = access.pc; });
}

void Synccheck::arrives(const exec::Warp& warp, std::uint32_t number, std::uint32_t lanes, const LastAccess& last,
                        PartialArrival& open) {
  const ir::Form& form = warp.kernel->info[warp.barrier_pc].form;
  // bar is barrier.aligned; without .aligned any lanes may come by themselves (PTX ISA 9.7.13.1).
  if (form.opcode == "barrier" && !form.has("aligned")) return;
  const std::uint32_t live = warp.valid & ~warp.exited;
  std::uint32_t gone_past = 0;  // and exited
  for_each_lane(warp.valid & warp.exited, [&](int lane) {
    const std::uint32_t pc = last.alone[static_cast<std::size_t>(lane)];
    if (pc != ir::no_slot && paths_.is_behind(*warp.kernel, warp.barrier_pc, pc)) gone_past |= 1u << lane;
  });
  if (open.expected != 0 && (open.number != number || open.pc != warp.barrier_pc)) ends(warp, open);
  if (open.expected == 0) {
    if (((live | gone_past) & ~lanes) == 0) return;
    open = {
        .arrived = 0, .expected = live | gone_past, .passed_by = gone_past, .number = number, .pc = warp.barrier_pc};
  }
  open.arrived |= lanes;
  if ((open.expected & ~open.arrived) == 0) open = {};
}

void Synccheck::completes(const exec::Warp& warp, std::uint32_t number, PartialArrival& open) {
  if (open.number == number) ends(warp, open);
}

void Synccheck::completes_without(const exec::Warp& gone, const LastAccess& last, const exec::Warp& waits) {
  if (last.pc == ir::no_slot || !paths_.is_behind(*waits.kernel, waits.barrier_pc, last.pc)) return;
  problem(waits, exec::SyncProblem::divergent_barrier, waits.barrier_pc,
          fmt::format("warp {} of the block went past it and exited", gone.id));
}

void Synccheck::ends(const exec::Warp& warp, PartialArrival& open) {
  // A barrier waits for those who have not exited. But lanes that went past it to shared memory were meant to come.
  open.expected &= ~(warp.exited & ~open.passed_by);
  if ((open.expected & ~open.arrived) == 0) {
    open = {};
    return;
  }
  problem(warp, exec::SyncProblem::divergent_barrier, open.pc,
          fmt::format("lanes {:#010x} came, lanes {:#010x} did not", open.arrived, open.expected & ~open.arrived));
  open = {};
}

}  // namespace flashmoe::vgpu::observe
