// What a launch did, counted per instruction. Counting is exact for the PTX that ran; only the caches are a model. Of a
// sample of CTAs (sample.hpp) counts are scaled as they come, and caches, which live on what all CTAs ask for in turn,
// are left out.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "vgpu/exec/observer.hpp"
#include "vgpu/observe/counters/bank_conflicts.hpp"
#include "vgpu/observe/counters/cache.hpp"
#include "vgpu/observe/counters/machine_shape.hpp"
#include "vgpu/observe/counters/paths.hpp"
#include "vgpu/observe/counters/sample.hpp"
#include "vgpu/observe/counters/work_spread.hpp"

namespace flashmoe::vgpu::observe {

struct InstructionCounts {
  std::uint64_t warps = 0;    // executions by a warp
  std::uint64_t threads = 0;  // executions by a thread: lanes that passed the guard
};

struct MemoryCounts {
  std::uint64_t shared_requests = 0, shared_wavefronts = 0, shared_ideal = 0;
  std::uint64_t shared_repeats = 0;  // requests for which Wavefronts::may_be_fewer
  std::uint64_t global_requests = 0, global_sectors = 0, global_ideal_sectors = 0, global_lines = 0;
  std::uint64_t local_requests = 0, local_bytes = 0;

  MemoryCounts& operator+=(const MemoryCounts& other);
};

struct EdgeCounts {
  std::uint64_t warps = 0, threads = 0;
};

// Of one launch. Kernel and launch are copied where a report needs them after the grid is gone.
struct LaunchCounts {
  std::vector<InstructionCounts> instructions{};                          // by pc
  std::vector<MemoryCounts> memory{};                                     // by pc
  std::map<std::pair<std::uint32_t, std::uint32_t>, EdgeCounts> edges{};  // of branches: (from, to)
  std::map<std::uint32_t, std::uint64_t> divergent_branches{};            // by pc: lanes of one warp went both ways
  MemoryTraffic traffic{};
  WorkSpread work{};
  std::optional<LaunchPaths> paths{};  // where they were asked for
  std::optional<CtaSample> sample{};   // the CTAs that were counted, where it was not all of them
  double sampled_over_executed = 1;    // instructions of the sample, scaled, over those that all CTAs executed
  exec::Dim3 grid{}, block{};
  std::uint32_t shared_bytes = 0;
  bool is_cold = true;
};

class Counters {
 public:
  // `sample`: of each launch with more CTAs.
  Counters(const MachineShape& machine, bool cold, bool paths = false, std::optional<SampleSize> sample = {});

  void grid_begins(const exec::Grid& grid);
  void grid_ends(std::uint64_t warp_instructions);
  [[nodiscard]] bool watches(std::uint64_t cta) const { return !counts_.sample || counts_.sample->holds(cta); }
  void instruction(const exec::Warp& warp, std::uint32_t pc, std::uint32_t lanes) {
    InstructionCounts& counts = counts_.instructions[pc];
    const std::uint64_t threads = lanes == exec::all_lanes ? 32 : static_cast<std::uint64_t>(__builtin_popcount(lanes));
    if (counts_.sample) {
      const std::uint64_t times = sampled(warp, [&](CtaCounts& cta) {
        ++cta.instructions;
        cta.thread_instructions += threads;
      });
      counts.warps += times;
      counts.threads += times * threads;
      return;
    }
    ++counts.warps;
    counts.threads += threads;
    if (paths_) paths_->instruction(warp, pc);
  }
  void cta_ended(const exec::Cta& cta, bool wrote);
  void branch(const exec::Warp& warp, const ir::Inst& inst, std::uint32_t pc, std::uint32_t taken,
              std::uint32_t not_taken);
  void access(const exec::Warp& warp, const exec::Access& access);                      // all but asynchronous copies
  void copies_issued(const exec::Warp& warp, std::span<const exec::AsyncCopy> copies);  // by one instruction

  [[nodiscard]] const LaunchCounts& counts() const { return counts_; }

 private:
  // Adds to the CTA's own counts, where CTAs are sampled. Returns how many CTAs this one stands for.
  template <class Add>
  std::uint64_t sampled(const exec::Warp& warp, Add&& add) {
    if (!counts_.sample) return 1;
    CtaSample::Chosen& chosen = *counts_.sample->find(warp.cta->linear);
    add(chosen.counts);
    return chosen.stands_for;
  }
  // Of what coalesced_ holds.
  void global(const exec::Warp& warp, std::uint32_t pc, MemoryModel::Kind kind);
  void shared(const exec::Warp& warp, std::uint32_t pc, const Wavefronts& wavefronts);
  [[nodiscard]] Wavefronts wavefronts_of(const exec::Access& access, SharedKind kind);

  MachineShape machine_;
  bool cold_;
  std::optional<SampleSize> sample_{};
  double scaled_instructions_ = 0;  // as the executor counts them
  std::unique_ptr<MemoryModel> model_{};
  LaunchCounts counts_{};
  WorkCount work_{};
  std::optional<PathCount> paths_{};
  struct KnownWavefronts {
    exec::LanePattern pattern{};
    Wavefronts wavefronts{};
  };
  std::vector<KnownWavefronts> known_wavefronts_{};  // by pc: what it asked for last
  std::vector<bool> past_l1_{};                      // by pc
  Coalesced coalesced_{};
};

}  // namespace flashmoe::vgpu::observe
