// Seeded and observed runs: one host thread, an order that depends on nothing but the schedule.
#include <algorithm>
#include <memory>
#include <vector>

#include "vgpu/exec/async_copy.hpp"
#include "vgpu/exec/cta.hpp"
#include "vgpu/exec/flow.hpp"
#include "vgpu/exec/lane_loop.hpp"
#include "vgpu/exec/observer.hpp"
#include "vgpu/exec/schedule.hpp"
#include "vgpu/exec/standstill.hpp"

namespace flashmoe::vgpu::exec {

namespace {

// Long enough that a CTA's state stays in the host's caches, short enough that CTAs interleave as on a device.
constexpr std::uint32_t natural_slice = 512;
constexpr std::uint32_t seeded_slice = 64;
// A CTA that nobody watches stays in the host's caches over some barriers.
constexpr int turns_unwatched = 16;
// Often enough to meet every short sequence of a kernel within a few seeds; parted lanes cost twice the instructions.
constexpr std::uint64_t turns_between_partings = 4;

// Lanes that met for a .sync op, or for an earlier one of the same basic block, run it together: they may part only
// where the next thing that needs them all is a meeting (vgpu.converge), or control flow, behind which one stands.
std::vector<bool> parting_places(const ir::Kernel& kernel) {
  std::vector<bool> may_part(kernel.info.size());
  bool may = true;
  for (std::size_t pc = kernel.info.size(); pc-- > 0;) {
    const ir::Form& form = kernel.info[pc].form;
    const bool is_control = form.opcode == "bra" || form.opcode == "brx" || form.opcode == "ret" ||
                            form.opcode == "exit" || form.opcode == "call";
    if (form.opcode == "vgpu" || is_control) {
      may = true;
    } else if (form.has("sync")) {
      may = false;
    }
    may_part[pc] = may;
  }
  return may_part;
}

class Turns {
 public:
  Turns(Grid& grid, std::uint64_t resident) : grid_(grid), schedule_(grid.launch->schedule) {
    if (schedule_.parts_warps) {
      may_part_ = parting_places(*grid.kernel);
    }
    slice_ = schedule_.slice != 0 ? schedule_.slice : schedule_.seed != 0 ? seeded_slice : natural_slice;
    for (std::uint64_t i = 0; i < resident; ++i) {
      ctas_.push_back(begin_cta(grid_, next_++, static_cast<std::uint32_t>(i % grid_.launch->sm_count), nullptr));
    }
  }

  std::uint64_t run() {
    std::size_t turn = 0;
    while (!ctas_.empty() && !grid_.stopped) {
      const std::size_t index = schedule_.seed != 0 ? draw(grid_.random_state) % ctas_.size() : turn % ctas_.size();
      turn = index + 1;
      Cta& cta = *ctas_[index];
      if (schedule_.seed != 0) {
        one_warp(cta);
      } else {
        const bool is_unwatched = grid_.observer != nullptr && observer_of(cta) == nullptr;
        for (int i = 0; i < (is_unwatched ? turns_unwatched : 1) && cta.live_warps != 0 && !grid_.stopped; ++i) {
          every_warp(cta);
        }
      }
      if (cta.live_warps == 0 && !grid_.stopped) {
        turn = replace(index);
      }
    }
    for (const std::unique_ptr<Cta>& cta : ctas_) {  // a fault cut them off
      if (Observer* const observer = observer_of(*cta)) {
        observer->cta_ends(*cta);
      }
    }
    return executed_;
  }

 private:
  void every_warp(Cta& cta) {
    bool anyone_ran = false;
    for (Warp& warp : cta.warps) {
      if (warp.state == WarpState::running && !grid_.stopped) {
        anyone_ran = true;
        run_one(warp, slice_);
      }
    }
    if (!anyone_ran && !grid_.stopped) {
      raise_deadlock(cta);
    }
  }

  void one_warp(Cta& cta) {
    runnable_.clear();
    for (Warp& warp : cta.warps) {
      if (warp.state == WarpState::running) {
        runnable_.push_back(&warp);
      }
    }
    if (runnable_.empty()) {
      raise_deadlock(cta);
      return;
    }
    Warp& warp = *runnable_[draw(grid_.random_state) % runnable_.size()];
    run_one(warp, 1 + draw(grid_.random_state) % (2 * std::uint64_t{slice_}));
  }

  void run_one(Warp& warp, std::uint64_t slice) {
    if (schedule_.parts_warps) {
      part(warp);
    }
    const Ran ran = run_warp(warp, slice);
    executed_ += ran.instructions;
    spent_ += ran.steps;
    if (schedule_.copies == Schedule::Copies::random && warp.state != WarpState::exited && !warp.copies.empty()) {
      land_some_copies(warp);
    }
    if (spent_ > grid_.launch->instruction_budget) {
      raise_timeout(warp);
    }
    look_for_end(warp);
  }

  // Now and then some of the running lanes fall behind the others, until they meet where the program makes them.
  void part(Warp& warp) {
    if (!warp.splits.empty() || !may_part_[warp.pc] || draw(grid_.random_state) % turns_between_partings != 0) {
      return;
    }
    const std::uint32_t behind = warp.active & static_cast<std::uint32_t>(draw(grid_.random_state));
    if (behind != 0 && behind != warp.active) {
      (void)put_aside(warp, behind, warp.pc, -1);
    }
  }

  // Nobody is asked before as many turns were no progress as there are warps.
  void look_for_end(Warp& warp) {
    still_turns_ = warp.state == WarpState::exited || !stands_still(warp) ? 0 : still_turns_ + 1;
    if (grid_.observer == nullptr || still_turns_ < ctas_.size() * warp.cta->warps.size()) {
      return;
    }
    still_turns_ = 0;
    std::size_t live = 0;
    Warp* repeats = nullptr;
    for (const std::unique_ptr<Cta>& cta : ctas_) {
      for (Warp& one : cta->warps) {
        if (one.state == WarpState::exited) {
          continue;
        }
        if (!stands_still(one)) {
          return;
        }
        ++live;
        const bool polls = one.state == WarpState::running && one.repetition.read_pc != ir::no_slot;
        repeats = repeats == nullptr && one.state == WarpState::running ? &one : repeats;
        repeats = polls && repeats->repetition.read_pc == ir::no_slot ? &one : repeats;
      }
    }
    if (repeats != nullptr && !grid_.stopped) {
      raise_standstill(*repeats, live, grid_.launch->grid.count() - next_);
    }
  }

  // The CTA has ended; the next one takes its place on the SM. Returns whose turn it is.
  std::size_t replace(std::size_t index) {
    if (Observer* const observer = observer_of(*ctas_[index])) {
      observer->cta_ends(*ctas_[index]);
    }
    if (next_ < grid_.launch->grid.count()) {
      const std::uint32_t sm = ctas_[index]->sm;
      ctas_[index] = begin_cta(grid_, next_++, sm, std::move(ctas_[index]));
      return index + 1;
    }
    ctas_.erase(ctas_.begin() + static_cast<std::ptrdiff_t>(index));
    return index;
  }

  Grid& grid_;
  const Schedule& schedule_;
  std::uint32_t slice_ = 0;
  std::uint64_t next_ = 0, executed_ = 0, spent_ = 0;
  std::vector<std::unique_ptr<Cta>> ctas_{};
  std::vector<Warp*> runnable_{};
  std::vector<bool> may_part_{};  // by pc
  std::size_t still_turns_ = 0;
};

}  // namespace

std::uint64_t run_in_order(Grid& grid, std::uint64_t resident) {
  return Turns(grid, resident).run();
}

}  // namespace flashmoe::vgpu::exec
