#include "vgpu/exec/cta.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "vgpu/exec/frames.hpp"
#include "vgpu/exec/handlers.hpp"
#include "vgpu/exec/lane_loop.hpp"
#include "vgpu/exec/observer.hpp"
#include "vgpu/exec/place.hpp"
#include "vgpu/exec/standstill.hpp"

namespace flashmoe::vgpu::exec {

namespace {

void begin_warp(Warp& warp, Cta& cta, std::uint32_t id, std::uint32_t threads) {
  const Grid& grid = *cta.grid;
  const ir::Kernel& kernel = *grid.kernel;
  const std::uint32_t lanes = std::min<std::uint32_t>(threads - id * lanes_per_warp, lanes_per_warp);
  warp.kernel = &kernel;
  warp.cta = &cta;
  warp.id = id;
  warp.valid = lanes == lanes_per_warp ? all_lanes : (1u << lanes) - 1;
  warp.exited = 0;
  warp.exec = 0;
  warp.state = WarpState::running;
  warp.leave = false;
  warp.polled = false;
  warp.yielded = false;
  warp.repetition = {};
  warp.steps = warp.instructions = 0;
  warp.splits.clear();
  warp.current = Split{};
  warp.records.clear();
  warp.copies.clear();
  std::fill(std::begin(warp.committed_groups), std::end(warp.committed_groups), 0);
  std::fill(warp.local.begin(), warp.local.end(), std::uint8_t{0});
  for (const std::unique_ptr<Frame>& frame : warp.frames) {
    frame->lanes = 0;  // a grid that stopped left them in use
  }
  warp.shadow = nullptr;
  warp.shared = cta.shared.data();
  warp.shared_bytes = kernel.static_shared_bytes + kernel.red_zone_bytes;
  if (grid.launch->dynamic_shared_bytes != 0) {
    warp.shared_bytes = std::max(kernel.dynamic_shared_offset, kernel.static_shared_bytes) + kernel.red_zone_bytes +
                        grid.launch->dynamic_shared_bytes;
  }
  warp.global_base = grid.memory->base();
  warp.global_bytes = grid.memory->mapped_bytes();
  warp.active = warp.valid;
  warp.pc = kernel.functions.front().entry;
  use_frame(warp, enter_frame(warp, kernel.functions.front(), nullptr, warp.valid));
}

template <Mode mode>
void main_loop(Warp& warp) {
  Observer* const observer = warp.cta->grid->observer;
  // With an observer the kernel's own code tells it everything.
  const bool is_unwatched = mode == Mode::fast && observer != nullptr;
  const ir::Inst* const code = is_unwatched ? observer->unwatched_code()->data() : warp.kernel->code.data();
  do {
    const std::uint32_t pc = warp.pc;
    const ir::Inst& inst = code[pc];
    // Guard 0 reads the word before the predicates, which holds all lanes.
    const std::uint32_t guard = warp.predicates[static_cast<int>(inst.guard) - 1];
    warp.exec = warp.active & (inst.guard_negated ? ~guard : guard);
    warp.pc = pc + 1;
    if (warp.exec != 0 || inst.runs_empty) {
      warp.instructions += inst.is_instruction;
      if constexpr (mode == Mode::observed) {
        observer->before(warp, inst, pc);
      }
      inst.run(warp, inst);
      if constexpr (mode == Mode::observed) {
        if (warp.cta->grid->write.lanes != 0) {
          wrote(*warp.cta->grid);
        }
      }
    }
  } while (++warp.steps != warp.slice_end && !warp.leave);
}

}  // namespace

std::unique_ptr<Cta> begin_cta(Grid& grid, std::uint64_t linear, std::uint32_t sm, std::unique_ptr<Cta> used) {
  const Launch& launch = *grid.launch;
  std::unique_ptr<Cta> cta = used != nullptr ? std::move(used) : std::make_unique<Cta>();
  cta->grid = &grid;
  cta->linear = linear;
  cta->block = Dim3{static_cast<std::uint32_t>(linear % launch.grid.x),
                    static_cast<std::uint32_t>(linear / launch.grid.x % launch.grid.y),
                    static_cast<std::uint32_t>(linear / launch.grid.x / launch.grid.y)};
  cta->sm = sm;
  cta->shadow = nullptr;
  const std::size_t shared_bytes =
      std::max<std::size_t>(grid.kernel->dynamic_shared_offset, grid.kernel->static_shared_bytes) +
      grid.kernel->red_zone_bytes + launch.dynamic_shared_bytes;
  // Zero, so that a kernel that reads shared memory before it wrote it does the same in every run.
  cta->shared.assign(shared_bytes + 16, 0);
  for (Cta::Barrier& barrier : cta->barriers) {
    barrier = Cta::Barrier{};
  }
  const auto threads = static_cast<std::uint32_t>(launch.block.count());
  const std::uint32_t warps = (threads + lanes_per_warp - 1) / lanes_per_warp;
  if (cta->warps.size() != warps) {
    cta->warps = std::vector<Warp>(warps);
  }
  cta->live_warps = warps;
  for (std::uint32_t id = 0; id < warps; ++id) {
    begin_warp(cta->warps[id], *cta, id, threads);
  }
  if (grid.observer != nullptr) {
    grid.observer->cta_begins(*cta);
  }
  return cta;
}

Ran run_warp(Warp& warp, std::uint64_t slice) {
  const Ran before{warp.steps, warp.instructions};
  warp.slice_end = warp.steps + slice;
  warp.leave = false;
  warp.yielded = false;
  if (observer_of(*warp.cta) != nullptr) {
    main_loop<Mode::observed>(warp);
  } else {
    main_loop<Mode::fast>(warp);
  }
  return {warp.steps - before.steps, warp.instructions - before.instructions};
}

void raise_timeout(Warp& warp) {
  // Between two slices warp.pc is the instruction to come; raise() names the one before.
  warp.pc = (warp.state == WarpState::at_barrier ? warp.barrier_pc : warp.pc) + 1;
  raise(
      warp, Fault::Kind::timeout,
      fmt::format("the instruction budget is spent ({} of warps; VGPU_BUDGET sets another); this is where the warp was",
                  warp.cta->grid->launch->instruction_budget),
      warp.active == 0 ? 0 : first_lane(warp.active));
}

void raise_deadlock(Cta& cta) {
  std::string waiting;
  Warp* first = nullptr;
  for (Warp& warp : cta.warps) {
    if (warp.state == WarpState::at_barrier) {
      const Split& split = warp.splits.front();
      waiting += fmt::format("{}warp {} at barrier {} (PTX line {})", waiting.empty() ? "" : ", ", warp.id,
                             split.barrier, cta.grid->kernel->info[warp.barrier_pc].at.line);
      first = first == nullptr ? &warp : first;
    }
  }
  if (first == nullptr) {
    return;
  }
  const Split& split = first->splits.front();
  const std::string message =
      fmt::format("nothing can run: {} of the block's {} warps have exited, the others wait: {}",
                  cta.warps.size() - cta.live_warps, cta.warps.size(), waiting);
  first->pc = first->barrier_pc + 1;
  if (Observer* const observer = observer_of(cta)) {
    observer->sync_problem(*first, SyncProblem::deadlock, first->barrier_pc, message);
  }
  raise(*first, Fault::Kind::deadlock, message, first_lane(split.mask));
}

}  // namespace flashmoe::vgpu::exec
