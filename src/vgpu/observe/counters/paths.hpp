// Which way warps went, for whoever wants the order of instructions and not their number: the outcomes of every branch
// of every warp of three CTAs (the first, the median and the heaviest by instructions), and what each CTA did in all.
//
// Which CTA is the median is known at the end only, and no CTA can be run again: what it read may have been written
// over. So one CTA of each number of instructions is kept, runs of equal outcomes as one. Most launches have a handful
// of such numbers; where there are so many that they would fill the memory, some are given up, and the median is the
// nearest of those left.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <unordered_map>
#include <vector>

#include "vgpu/exec/observer.hpp"

namespace flashmoe::vgpu::observe {

enum class BranchOutcome : std::uint8_t { not_taken, taken, both };  // both: lanes parted; they run one after the other

struct OutcomeRun {
  BranchOutcome outcome = BranchOutcome::not_taken;
  std::uint32_t times = 0;
};

// Instructions that ran one after the other, as they stand.
struct Stretch {
  std::uint32_t from = 0, to = 0;  // the last one included
  std::uint64_t times = 0;
};

struct WarpPath {
  std::map<std::uint32_t, std::vector<OutcomeRun>> branches{};  // by pc of conditional branches, in the order executed
  std::vector<Stretch> stretches{};                             // by from and to
};

struct CtaPath {
  std::uint64_t linear = 0;
  std::uint64_t instructions = 0;
  std::vector<WarpPath> warps{};
};

struct CtaTotals {
  std::uint64_t instructions = 0, mma = 0, global_bytes = 0;  // bytes: of the sectors that were touched
  bool operator==(const CtaTotals&) const = default;
};

struct LaunchPaths {
  std::vector<CtaTotals> totals{};  // by place in the grid
  std::vector<CtaPath> ctas{};      // first, median, heaviest; those that are one are there once
  bool median_is_exact = true;
};

class PathCount {
 public:
  // `most_runs`: of outcomes, in all that is kept.
  explicit PathCount(std::size_t most_runs = std::size_t{1} << 21U) : most_runs_(most_runs) {}

  void launch_begins(const ir::Kernel& kernel, std::uint64_t ctas);
  void instruction(const exec::Warp& warp, std::uint32_t pc);  // not those that lowering added
  void branch(const exec::Warp& warp, std::uint32_t pc, std::uint32_t taken, std::uint32_t not_taken);
  void moved(const exec::Warp& warp, std::uint64_t bytes) { running(*warp.cta).totals.global_bytes += bytes; }
  void cta_ended(const exec::Cta& cta);
  [[nodiscard]] LaunchPaths paths() const;

 private:
  struct RunningWarp {
    std::map<std::uint32_t, std::vector<OutcomeRun>> branches{};
    std::unordered_map<std::uint64_t, std::uint64_t> stretches{};  // from and to in one word
    std::uint32_t from = ir::no_slot, last = ir::no_slot;
    void end_stretch();
  };
  struct RunningCta {
    CtaTotals totals{};
    std::vector<RunningWarp> warps{};
  };
  struct Kept {
    CtaPath path{};
    std::size_t runs = 0;
  };

  [[nodiscard]] RunningCta& running(const exec::Cta& cta);
  void keep(Kept kept);
  void thin_out();

  std::size_t most_runs_, runs_ = 0;
  std::vector<bool> is_mma_{}, is_conditional_{};  // by pc
  std::vector<std::uint32_t> before_{};            // by pc: who stands before it, what lowering added left out
  std::unordered_map<std::uint64_t, std::unique_ptr<RunningCta>> running_{};
  RunningCta* latest_ = nullptr;
  std::uint64_t latest_linear_ = 0;
  std::vector<CtaTotals> totals_{};
  std::map<std::uint64_t, Kept> kept_{};  // by instructions
  CtaPath first_{};
};

}  // namespace flashmoe::vgpu::observe
