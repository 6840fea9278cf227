// Control flow and barriers (PTX ISA 9.7.12, 9.7.13).
#include <fmt/format.h>

#include <atomic>
#include <bit>

#include "vgpu/exec/barrier.hpp"
#include "vgpu/exec/calls.hpp"
#include "vgpu/exec/flow.hpp"
#include "vgpu/exec/handlers.hpp"
#include "vgpu/exec/lane_loop.hpp"
#include "vgpu/exec/observer.hpp"

namespace flashmoe::vgpu::exec {

namespace {

template <Mode mode>
[[nodiscard]] Observer* observer_of(const Warp& warp) {
  return mode == Mode::observed ? warp.cta->grid->observer : nullptr;
}

template <Mode mode>
void bra(Warp& warp, const ir::Inst& inst) {
  if (Observer* const observer = observer_of<mode>(warp)) {
    observer->branch(warp, inst, warp.pc - 1, warp.exec, warp.active & ~warp.exec);
  }
  if (warp.exec == warp.active) {
    jump(warp, inst.target);
  } else if (warp.exec != 0) {
    diverge(warp, warp.exec, inst.target, inst.imm);
  }
}

// Lanes part by target; the last group goes on, the others are put aside.
template <Mode mode>
void brx(Warp& warp, const ir::Inst& inst) {
  const std::uint32_t* const targets = warp.kernel->lists.data() + inst.list + 1;
  const std::uint32_t count = warp.kernel->lists[inst.list];
  const std::uint32_t* const index = warp.slot(inst.a);
  for_each_lane(warp.exec, [&](int lane) {
    if (index[lane] >= count && !warp.leave) {
      raise(warp, Fault::Kind::illegal_instruction,
            fmt::format("branches to entry {} of a table of {}", index[lane], count), lane);
    }
  });
  if (warp.leave) {
    return;
  }
  if (Observer* const observer = observer_of<mode>(warp)) {
    observer->branch(warp, inst, warp.pc - 1, warp.exec, warp.active & ~warp.exec);
  }
  std::uint32_t left = warp.exec;
  const bool all_branch = left == warp.active;
  while (left != 0) {
    const std::uint32_t target = targets[index[first_lane(left)]];
    std::uint32_t group = 0;
    for_each_lane(left, [&](int lane) { group |= targets[index[lane]] == target ? 1u << lane : 0; });
    left &= ~group;
    if (left == 0 && all_branch) {
      jump(warp, target);
    } else {
      put_aside(warp, group, target, inst.imm);
    }
  }
}

// What lowering adds where branches meet again.
void reconverge(Warp& warp, const ir::Inst&) {
  if (warp.current.reconverge.empty()) {
    return;
  }
  const std::uint32_t here = --warp.pc;
  if (arrive(warp)) {
    warp.pc = here + 1;
  }
}

// Before a .sync op: the lanes that it names must be here together.
template <Mode mode>
void converge(Warp& warp, const ir::Inst& inst) {
  std::uint32_t named = all_lanes;
  if (inst.m != ir::no_slot) {
    named = 0;
    const std::uint32_t* const masks = warp.slot(inst.m);
    for_each_lane(warp.exec, [&](int lane) { named |= masks[lane]; });
    if (Observer* const observer = observer_of<mode>(warp)) {
      std::uint32_t without_itself = 0;
      for_each_lane(warp.exec, [&](int lane) { without_itself |= ((masks[lane] >> lane) & 1) == 0 ? 1u << lane : 0; });
      if (without_itself != 0) {
        observer->sync_problem(warp, SyncProblem::bad_mask, warp.pc,
                               fmt::format("lanes {:#010x} execute it but are not in their own mask", without_itself));
      }
    }
  }
  if ((named & live_lanes(warp) & ~warp.exec) == 0) {
    if (Observer* const observer = observer_of<mode>(warp)) {
      for_each_group(warp, inst,
                     [&](std::uint32_t group, std::uint32_t) { observer->warp_syncs(warp, group, warp.pc); });
    }
    return;
  }
  if (!waits_by_itself(warp)) {
    wait_for_mask(warp, inst);
  }
}

template <Mode mode, bool arrives_only, bool aligned>
void bar(Warp& warp, const ir::Inst& inst) {
  const int lane = first_lane(warp.exec);
  const std::uint32_t number = inst.a == ir::no_slot ? static_cast<std::uint32_t>(inst.imm) : warp.slot(inst.a)[lane];
  const std::uint32_t threads = inst.b == ir::no_slot ? 0 : warp.slot(inst.b)[lane];
  warp.barrier_pc = warp.pc - 1;
  if (number >= barriers_per_cta) {  // before anybody is told: nobody has room for it
    raise(warp, Fault::Kind::illegal_instruction, fmt::format("barrier {}: there are 0 to 15", number), lane);
    return;
  }
  if (inst.c != ir::no_slot) {  // bar.red
    Cta::Barrier& barrier = warp.cta->barriers[number];
    const std::uint32_t predicate = inst.not_c ? ~warp.predicates[inst.c] : warp.predicates[inst.c];
    barrier.reduction += static_cast<std::uint32_t>(std::popcount(predicate & warp.exec));
    barrier.reduced_lanes += static_cast<std::uint32_t>(std::popcount(warp.exec));
    barrier.any |= predicate & warp.exec;
  }
  if (Observer* const observer = observer_of<mode>(warp)) {
    if (aligned && warp.exec != live_lanes(warp)) {
      observer->sync_problem(
          warp, SyncProblem::divergent_barrier, warp.barrier_pc,
          fmt::format("lanes {:#010x} of the warp's {:#010x} are here: all lanes must execute the same barrier",
                      warp.exec, live_lanes(warp)));
    }
    observer->barrier_arrives(warp, inst, number, warp.exec, !arrives_only);
  }
  come_to_barrier(warp, number, threads, arrives_only);
}

template <Mode mode, Scope scope, FenceKind kind>
void fence(Warp& warp, const ir::Inst&) {
  std::atomic_thread_fence(std::memory_order_seq_cst);
  if (Observer* const observer = observer_of<mode>(warp)) {
    observer->fence(warp, scope, kind);
  }
}

void exit(Warp& warp, const ir::Inst&) {
  exit_lanes(warp, warp.exec);
}

void trap(Warp& warp, const ir::Inst&) {
  raise(warp, Fault::Kind::trap, "the kernel executed trap", first_lane(warp.exec));
}

// Others get their turn; how long a sleep is, is left to the device (PTX ISA 9.7.19.2).
void nanosleep(Warp& warp, const ir::Inst&) {
  warp.leave = true;
  warp.yielded = true;
}

void do_nothing(Warp&, const ir::Inst&) {}

template <Mode mode>
ir::Handler pick_barrier(const ir::Form& form) {
  if (form.has("warp") || form.has("cluster")) {
    // vgpu.converge before it has done the work. A cluster is one CTA here: nobody else is to be waited for.
    return form.has("warp") ? &do_nothing : nullptr;
  }
  const bool aligned = form.opcode == "bar" || form.has("aligned");
  if (form.has("arrive")) {
    return aligned ? &bar<mode, true, true> : &bar<mode, true, false>;
  }
  return aligned ? &bar<mode, false, true> : &bar<mode, false, false>;
}

template <Mode mode, FenceKind kind>
ir::Handler pick_fence_scope(const ir::Form& form) {
  if (form.has("cta")) {
    return &fence<mode, Scope::cta, kind>;
  }
  return form.has("sys") ? &fence<mode, Scope::system, kind> : &fence<mode, Scope::gpu, kind>;
}

template <Mode mode>
ir::Handler pick_fence(const ir::Form& form) {
  if (form.opcode == "membar" || form.has("sc")) {
    return pick_fence_scope<mode, FenceKind::sc>(form);
  }
  if (form.has("acquire")) {
    return pick_fence_scope<mode, FenceKind::acquire>(form);
  }
  return form.has("release") ? pick_fence_scope<mode, FenceKind::release>(form)
                             : pick_fence_scope<mode, FenceKind::acq_rel>(form);
}

template <Mode mode>
ir::Handler pick(const ir::Form& form) {
  const std::string& op = form.opcode;
  if (op == "vgpu") {
    return form.has("reconverge") ? &reconverge : form.has("converge") ? &converge<mode> : nullptr;
  }
  if (op == "bra") {
    return &bra<mode>;
  }
  if (op == "brx") {
    return &brx<mode>;
  }
  if (op == "bar" || op == "barrier") {
    return pick_barrier<mode>(form);
  }
  if (op == "membar" || op == "fence") {
    return pick_fence<mode>(form);
  }
  if (op == "call") {
    return call_handler(mode);
  }
  if (op == "ret") {
    return &return_lanes;
  }
  if (op == "exit") {
    return &exit;
  }
  if (op == "trap") {
    return &trap;
  }
  if (op == "nanosleep") {
    return &nanosleep;
  }
  return op == "brkpt" || op == "griddepcontrol" || op == "setmaxnreg" || op == "pmevent" ? &do_nothing : nullptr;
}

}  // namespace

ir::Handler control_handler(const ir::Form& form, Mode mode) {
  return mode == Mode::fast ? pick<Mode::fast>(form) : pick<Mode::observed>(form);
}

}  // namespace flashmoe::vgpu::exec
