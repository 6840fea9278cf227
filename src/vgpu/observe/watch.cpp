#include "vgpu/observe/watch.hpp"

#include <memory>
#include <utility>

#include "vgpu/exec/handlers.hpp"

namespace flashmoe::vgpu::observe {

struct Watch::WarpShadow {
  WarpPoison poison{};
  PartialArrival arrival{};
  LastAccess last_access{};
};

struct Watch::CtaShadow {
  CtaShadow(std::uint32_t warp_count, std::size_t shared_bytes) : poison(shared_bytes), warps(warp_count) {}
  std::unique_ptr<RaceCta> race{};
  CtaPoison poison;
  std::vector<WarpShadow> warps;
  bool wrote_global = false;
};

Watch::Watch(WatchOptions options)
    : options_(std::move(options)),
      log_(options_.most_findings),
      memcheck_(log_, options_.most_strays),
      initcheck_(log_, options_.global, options_.leftovers),
      racecheck_(log_, options_.races_by_lane),
      races_(racecheck_),
      synccheck_(log_),
      counters_(options_.machine, options_.cold_caches, options_.paths, options_.sample) {
  log_.set_catch_up([this] { races_.catch_up(); });
}

Watch::~Watch() = default;

void Watch::grid_begins(exec::Grid& grid) {
  log_.next_kernel(grid.kernel);
  notes_.clear();
  for (const ir::InstInfo& info : grid.kernel->info) {
    const ir::Form& form = info.form;
    Note note{};
    note.is_branch = form.opcode == "bra";
    note.is_warp_barrier = (form.opcode == "bar" || form.opcode == "barrier") && form.has("warp");
    note.is_memory_barrier_object =
        form.opcode == "mbarrier" || (form.opcode == "cp" && form.has("async") && form.has("mbarrier"));
    note.is_barrier_object_init = form.opcode == "mbarrier" && form.has("init");
    note.is_non_coherent = form.opcode == "ld" && form.has("nc");
    notes_.push_back(note);
  }
  memcheck_.grid_begins(grid);
  synccheck_.kernel_begins();
  initcheck_.grid_begins(grid);
  racecheck_.grid_begins(grid);
  if (options_.counters) counters_.grid_begins(grid);
  if (counts().sample) unwatched_code_ = exec::code_for(*grid.kernel, exec::Mode::fast);
}

void Watch::grid_ends(exec::Grid& grid, std::uint64_t warp_instructions) {
  races_.finish();
  racecheck_.grid_ends();
  if (options_.counters) counters_.grid_ends(warp_instructions);
  report_fault(grid);
}

// Faults that stop the grid before a check could see them: addresses that no lane can be spared for.
void Watch::report_fault(const exec::Grid& grid) {
  using Kind = exec::Fault::Kind;
  const exec::Fault& fault = grid.fault;
  const bool is_address = fault.kind == Kind::illegal_address || fault.kind == Kind::misaligned_address ||
                          fault.kind == Kind::stack_overflow;
  if (!is_address || !options_.memcheck || memcheck_.has_ended_launch()) return;
  for (const Finding& finding : log_.findings()) {
    if (finding.check == Check::memcheck && finding.kernel == grid.kernel->name && finding.at.pc == fault.pc) return;
  }
  if (!log_.is_new(Check::memcheck, fault.pc, ir::no_slot, 1000)) return;
  Finding finding{.check = Check::memcheck, .kernel = grid.kernel->name, .message = fault.message};
  finding.cause = Cause::access;
  finding.at = party(*grid.kernel, fault.pc, fault.block, fault.thread);
  if (fault.kind != Kind::stack_overflow) {
    finding.address = fault.address;
    finding.space = "device";
  }
  finding.advice = fault.kind == Kind::misaligned_address ? "Align the address to the size of the access."
                   : fault.kind == Kind::stack_overflow   ? "Call less deeply, or use smaller local arrays."
                                                          : "Check the pointer and the index against the real extent.";
  log_.add(std::move(finding));
}

void Watch::cta_begins(exec::Cta& cta) {
  if (options_.counters && !counters_.watches(cta.linear)) return;
  auto shadow = std::make_unique<CtaShadow>(static_cast<std::uint32_t>(cta.warps.size()), cta.shared.size());
  cta.shadow = shadow.get();
  if (options_.racecheck) shadow->race = races_.cta_begins(cta);
  for (exec::Warp& warp : cta.warps) warp.shadow = &shadow->warps[warp.id];
  ctas_[cta.shadow] = std::move(shadow);
}

void Watch::cta_ends(exec::Cta& cta) {
  if (options_.synccheck) {
    for (const exec::Warp& warp : cta.warps) synccheck_.ends(warp, shadow_of(warp).arrival);
  }
  if (options_.racecheck) races_.cta_ends(std::move(shadow_of(cta).race));
  if (options_.counters) counters_.cta_ended(cta, shadow_of(cta).wrote_global);
  ctas_.erase(cta.shadow);
  cta.shadow = nullptr;
  for (exec::Warp& warp : cta.warps) warp.shadow = nullptr;
}

void Watch::before(exec::Warp& warp, const ir::Inst& inst, std::uint32_t pc) {
  // A branch is executed by those who do not take it, too.
  if (options_.counters && inst.is_instruction)
    counters_.instruction(warp, pc, notes_[pc].is_branch ? warp.active : warp.exec);
  if (options_.initcheck) initcheck_.instruction(warp, inst, pc, shadow_of(warp).poison);
}

void Watch::warp_syncs(exec::Warp& warp, std::uint32_t lanes, std::uint32_t pc) {
  // Of the .sync ops only bar.warp.sync orders memory. Lanes that have exited are not waited for.
  if (!options_.racecheck || !notes_[pc].is_warp_barrier) return;
  races_.warp_syncs(warp, lanes | warp.exited, *shadow_of(*warp.cta).race);
}

std::uint32_t Watch::access(exec::Warp& warp, const ir::Inst& inst, const exec::Access& access) {
  exec::Access allowed = access;
  // All of them are strong, but init is a plain write that others must be kept away from. (Not so inval: libcu++ lets a
  // lane run it that was elected without memory being ordered, when its pipeline ends.)
  allowed.is_non_coherent = notes_[access.pc].is_non_coherent;
  allowed.is_barrier_object = notes_[access.pc].is_memory_barrier_object && access.copies.empty();
  if (notes_[access.pc].is_barrier_object_init) allowed.order = exec::Order::weak;
  exec::LanePattern pattern;
  if (access.lanes == exec::all_lanes && access.copies.empty() && pattern.find(access.address))
    allowed.pattern = &pattern;
  if (options_.memcheck) allowed.lanes = memcheck_.allowed(warp, allowed);
  if (allowed.lanes == 0) return 0;
  if (allowed.lanes != exec::all_lanes) allowed.pattern = nullptr;
  WarpShadow& of_warp = shadow_of(warp);
  CtaShadow& of_cta = shadow_of(*warp.cta);
  if (options_.synccheck) synccheck_.access(warp, allowed, of_warp.last_access, of_warp.arrival);
  if (options_.counters && access.copies.empty()) counters_.access(warp, allowed);
  const bool writes = access.kind == exec::AccessKind::store || access.kind == exec::AccessKind::atomic;
  of_cta.wrote_global = of_cta.wrote_global || (writes && access.space == ir::Space::global);
  if (options_.racecheck) races_.access(warp, inst, allowed, *of_cta.race);
  if (options_.initcheck) initcheck_.access(warp, inst, allowed, of_warp.poison, of_cta.poison);
  return allowed.lanes;
}

void Watch::branch(exec::Warp& warp, const ir::Inst& inst, std::uint32_t pc, std::uint32_t taken,
                   std::uint32_t not_taken) {
  if (options_.counters) counters_.branch(warp, inst, pc, taken, not_taken);
}

void Watch::frame_begins(exec::Warp& warp, exec::Frame& frame) {
  if (options_.initcheck) initcheck_.frame_begins(frame, shadow_of(warp).poison);
}

void Watch::barrier_arrives(exec::Warp& warp, const ir::Inst&, std::uint32_t number, std::uint32_t lanes, bool waits) {
  if (options_.synccheck) {
    WarpShadow& shadow = shadow_of(warp);
    synccheck_.arrives(warp, number, lanes, shadow.last_access, shadow.arrival);
  }
  if (options_.racecheck) races_.barrier_arrives(warp, number, waits, *shadow_of(*warp.cta).race);
}

void Watch::barrier_completes(exec::Cta& cta, std::uint32_t number) {
  if (options_.synccheck) {
    for (const exec::Warp& warp : cta.warps) synccheck_.completes(warp, number, shadow_of(warp).arrival);
    report_gone_past(cta, number);
  }
  if (options_.racecheck) races_.barrier_completes(cta, number, *shadow_of(cta).race);
}

// Whoever has exited is not waited for. But a warp that ran code behind the barrier had been meant to come.
void Watch::report_gone_past(const exec::Cta& cta, std::uint32_t number) {
  if (cta.barriers[number].expected_threads != 0 || cta.barriers[number].waiting.empty()) return;
  const exec::Warp& waits = cta.warps[cta.barriers[number].waiting.front()];
  for (const exec::Warp& warp : cta.warps) {
    if (warp.state != exec::WarpState::exited) continue;
    synccheck_.completes_without(warp, shadow_of(warp).last_access, waits);
  }
}

void Watch::barrier_passes(exec::Warp& warp, std::uint32_t number) {
  if (options_.racecheck) races_.barrier_passes(warp, number, *shadow_of(*warp.cta).race);
}

void Watch::fence(exec::Warp& warp, exec::Scope scope, exec::FenceKind kind) {
  if (options_.racecheck) races_.fence(warp, scope, kind, *shadow_of(*warp.cta).race);
}

void Watch::barrier_object_used(exec::Warp& warp, const exec::BarrierObjectUse& use) {
  if (options_.racecheck) races_.object_used(warp, use, *shadow_of(*warp.cta).race);
}

void Watch::copies_issued(exec::Warp& warp, std::span<const exec::AsyncCopy> copies) {
  if (options_.counters) counters_.copies_issued(warp, copies);
  if (options_.racecheck) races_.copies_issued(warp, copies, *shadow_of(*warp.cta).race);
}

void Watch::copies_committed(exec::Warp& warp, std::uint32_t lanes) {
  if (options_.racecheck) races_.copies_committed(warp, lanes, *shadow_of(*warp.cta).race);
}

void Watch::copies_waited(exec::Warp& warp, std::uint32_t lanes, std::uint32_t pending) {
  if (options_.racecheck) races_.copies_waited(warp, lanes, pending, *shadow_of(*warp.cta).race);
}

void Watch::sync_problem(exec::Warp& warp, exec::SyncProblem problem, std::uint32_t pc, std::string_view detail) {
  if (!options_.synccheck) return;
  if (problem == exec::SyncProblem::divergent_barrier) return;  // arrives() sees it, and whether the others follow
  synccheck_.problem(warp, problem, pc, detail);
}

}  // namespace flashmoe::vgpu::observe
