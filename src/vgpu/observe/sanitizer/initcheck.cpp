#include "vgpu/observe/sanitizer/initcheck.hpp"

#include <fmt/format.h>

#include <bit>
#include <string_view>

#include "vgpu/observe/lanes.hpp"

namespace flashmoe::vgpu::observe {

void Initcheck::grid_begins(const exec::Grid& grid) {
  grid_ = &grid;
  kernel_ = grid.kernel;
  steps_.clear();
  slots_.clear();
  const auto append = [this](const std::vector<std::uint32_t>& slots, std::uint32_t& first, std::uint32_t& count) {
    first = static_cast<std::uint32_t>(slots_.size());
    count = static_cast<std::uint32_t>(slots.size());
    slots_.insert(slots_.end(), slots.begin(), slots.end());
  };
  for (const ir::InstInfo& info : kernel_->info) {
    Step step;
    append(info.reads, step.first_read, step.reads);
    append(info.writes, step.first_write, step.writes);
    append(info.read_predicates, step.first_read_predicate, step.read_predicates);
    append(info.written_predicates, step.first_written_predicate, step.written_predicates);
    step.rule = info.poison;
    const std::string_view op = info.form.opcode;
    step.is_branch = op == "bra" || op == "brx" || op == "exit" || op == "ret" || op == "trap";
    // match asks those who are there, and that is how a warp elects one of them.
    step.uses_whole_warp =
        op == "shfl" || op == "mma" || op == "movmatrix" || (info.poison == ir::PoisonRule::vote && op != "match");
    step.is_opaque = op == "mbarrier" || op == "cp";
    step.is_shuffle = op == "shfl";
    steps_.push_back(step);
  }
}

void Initcheck::frame_begins(const exec::Frame& frame, WarpPoison& warp) {
  auto& place = warp.frames[&frame];
  if (!place) place = std::make_unique<RegisterPoison>();
  place->begin(*frame.function);
}

RegisterPoison& Initcheck::find_registers(const exec::Warp& warp, WarpPoison& poison) {
  auto& place = poison.frames[warp.frame];
  if (!place) {
    place = std::make_unique<RegisterPoison>();
    place->begin(*warp.frame->function);
  }
  poison.frame = warp.frame;
  poison.registers = place.get();
  return *poison.registers;
}

void Initcheck::meet(const exec::Warp& warp, const ir::Inst& inst, std::uint32_t pc, RegisterPoison& poison) {
  const Step& step = steps_[pc];
  std::uint32_t dirty = 0, dirty_predicates = 0;
  for (std::uint32_t i = 0; i < step.reads; ++i) dirty |= poison.lanes(slots_[step.first_read + i]);
  for (std::uint32_t i = 0; i < step.read_predicates; ++i) {
    dirty_predicates |= poison.predicate(slots_[step.first_read_predicate + i]);
  }
  const std::uint32_t lanes = warp.exec;
  std::uint32_t left = dirty | dirty_predicates;
  if (step.is_branch) {
    const std::uint32_t undecided = left & warp.active;
    if (left == 0) poison.settle(pc);
    if (undecided == 0) return;
    const std::uint32_t origin = step.read_predicates > 0 ? poison.predicate_origin(slots_[step.first_read_predicate])
                                                          : poison.origin(slots_[step.first_read]);
    report(warp, pc, std::countr_zero(undecided), branch, origin, nullptr, ir::Space::generic);
    return;
  }
  dirty = ((dirty & (step.uses_whole_warp ? exec::all_lanes : lanes)) | (dirty_predicates & lanes));
  const std::uint32_t absent = step.is_shuffle ? lanes_without_source(warp, inst, kernel_->info[pc].form) : 0;
  if ((dirty | absent) != 0) return propagate(warp, inst, pc, poison, dirty, absent);
  for (std::uint32_t i = 0; i < step.writes; ++i) {
    const std::uint32_t slot = slots_[step.first_write + i];
    poison.define(slot, lanes);
    left |= poison.lanes(slot);
  }
  for (std::uint32_t i = 0; i < step.written_predicates; ++i) {
    const std::uint32_t index = slots_[step.first_written_predicate + i];
    poison.define_predicate(index, lanes);
    left |= poison.predicate(index);
  }
  if (left == 0 && !step.is_shuffle) poison.settle(pc);  // who takes part in a shuffle is asked every time
}

void Initcheck::propagate(const exec::Warp& warp, const ir::Inst& inst, std::uint32_t pc, RegisterPoison& poison,
                          std::uint32_t dirty, std::uint32_t absent) {
  const Step& row = steps_[pc];
  PoisonStep step{.warp = warp,
                  .inst = inst,
                  .info = kernel_->info[pc],
                  .poison = poison,
                  .lanes = warp.exec,
                  .dirty = dirty,
                  .absent = absent};
  step.origin = ir::no_slot;
  for (std::uint32_t i = 0; i < row.read_predicates; ++i) {
    const std::uint32_t index = slots_[row.first_read_predicate + i];
    if ((poison.predicate(index) & dirty) != 0) step.origin = poison.predicate_origin(index);
  }
  for (std::uint32_t i = 0; i < row.reads; ++i) {
    const std::uint32_t slot = slots_[row.first_read + i];
    if ((poison.lanes(slot) & dirty) != 0) step.origin = poison.origin(slot);
  }
  if (absent != 0) step.origin = pc;
  const auto define_results = [&] {
    for (const std::uint32_t slot : step.info.writes) poison.define(slot, step.lanes);
    for (const std::uint32_t index : step.info.written_predicates) poison.define_predicate(index, step.lanes);
  };
  switch (step.info.poison) {
    case ir::PoisonRule::any_to_all:
      return poison_any_to_all(step);
    case ir::PoisonRule::move:
      return poison_move(step);
    case ir::PoisonRule::bitwise:
      return poison_bitwise(step);
    case ir::PoisonRule::select:
      return poison_select(step);
    case ir::PoisonRule::vote:
      return poison_vote(step);
    case ir::PoisonRule::matrix_multiply:
      return poison_matrix_multiply(step);
    case ir::PoisonRule::matrix_load:
      if (step.info.form.opcode == "movmatrix") return poison_vote(step);
      [[fallthrough]];
    case ir::PoisonRule::load:
    case ir::PoisonRule::store:
    case ir::PoisonRule::atomic:
    case ir::PoisonRule::async_copy:
      // What the memory holds is added by access().
      check_address(warp, inst, pc, poison);
      define_results();
      return;
    case ir::PoisonRule::none:
      define_results();
      return;
  }
}

void Initcheck::check_address(const exec::Warp& warp, const ir::Inst& inst, std::uint32_t pc, RegisterPoison& poison) {
  const auto check = [&](std::uint32_t slot, bool wide) {
    if (slot == ir::no_slot) return;
    const std::uint32_t bad = (poison.lanes(slot) | (wide ? poison.lanes(slot + 1) : 0)) & warp.exec;
    if (bad == 0) return;
    const std::uint32_t from = (poison.lanes(slot) & bad) != 0 ? slot : slot + 1;
    report(warp, pc, std::countr_zero(bad), address, poison.origin(from), nullptr, ir::Space::generic);
  };
  check(inst.a, inst.wide_address);
  if (kernel_->info[pc].poison == ir::PoisonRule::async_copy) check(inst.b, inst.b_wide);
}

void Initcheck::report(const exec::Warp& warp, std::uint32_t pc, int lane, Sink sink, std::uint32_t origin,
                       const std::uint64_t* at, ir::Space space) {
  if (!log_.is_new(Check::initcheck, pc, ir::no_slot, sink)) return;
  static constexpr const char* messages[] = {
      "a branch depends on a value that was never set",
      "an address depends on a value that was never set",
      "a value that was never set is stored to global memory",
      "a value that was never set takes part in an atomic on global memory",
      "an atomic works on global memory that was never set",
      "an mbarrier is used that nothing initialised",
  };
  const std::uint32_t number = warp.id * exec::lanes_per_warp + static_cast<std::uint32_t>(lane);
  const exec::Dim3 thread = thread_of(grid_->launch->block, number);
  Finding finding{.check = Check::initcheck, .kernel = kernel_->name, .message = messages[sink]};
  finding.cause = Cause::value;
  finding.at = party(*kernel_, pc, warp.cta->block, thread);
  if (at != nullptr) {
    finding.address = *at;
    finding.space = ir::name_of(space);
  }
  finding.advice = "Initialise the variable or the memory on every path before it is used.";
  if (sink == atomic_on_undefined) {
    finding.advice = "Clear the memory (cuMemsetD8/D32) before the launch.";
  } else if (sink == barrier_object) {
    finding.advice = "Let one thread run mbarrier.init, and put a barrier behind it before anybody arrives or waits.";
  } else if (origin != ir::no_slot && steps_[origin].is_shuffle) {
    finding.other = party(*kernel_, origin, warp.cta->block, thread);
    finding.other->what = "the shuffle that took it from a lane that does not take part,";
    finding.advice =
        "Let every lane that is read from execute the shuffle, and be in its mask; or leave out what comes from "
        "others.";
  } else if (origin != ir::no_slot) {
    finding.other = party(*kernel_, origin, warp.cta->block, thread);
    finding.other->what = "the read that brought the undefined bytes in,";
    finding.advice = "Write the memory before it is read, or leave out the elements that nobody wrote.";
  }
  if (leftovers_) finding.advice += " What an earlier call left in a __device__ variable counts as never set.";
  log_.add(std::move(finding));
}

}  // namespace flashmoe::vgpu::observe
