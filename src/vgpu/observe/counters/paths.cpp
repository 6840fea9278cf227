#include "vgpu/observe/counters/paths.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

namespace flashmoe::vgpu::observe {

void PathCount::launch_begins(const ir::Kernel& kernel, std::uint64_t ctas) {
  *this = PathCount(most_runs_);
  totals_.resize(ctas);
  std::uint32_t before = ir::no_slot;
  for (std::size_t pc = 0; pc < kernel.info.size(); ++pc) {
    const ir::InstInfo& info = kernel.info[pc];
    is_mma_.push_back(info.pipe == ir::Pipe::tensor);
    is_conditional_.push_back(info.form.opcode == "bra" && kernel.code[pc].guard != 0);
    before_.push_back(before);
    if (!info.is_pseudo) before = static_cast<std::uint32_t>(pc);
  }
}

PathCount::RunningCta& PathCount::running(const exec::Cta& cta) {
  if (latest_ != nullptr && latest_linear_ == cta.linear) return *latest_;
  std::unique_ptr<RunningCta>& found = running_[cta.linear];
  if (found == nullptr) {
    found = std::make_unique<RunningCta>();
    found->warps.resize(cta.warps.size());
  }
  latest_ = found.get();
  latest_linear_ = cta.linear;
  return *latest_;
}

void PathCount::RunningWarp::end_stretch() {
  if (from != ir::no_slot) ++stretches[std::uint64_t{from} << 32U | last];
}

void PathCount::instruction(const exec::Warp& warp, std::uint32_t pc) {
  RunningCta& cta = running(*warp.cta);
  RunningWarp& one = cta.warps[warp.id];
  if (one.from == ir::no_slot || one.last != before_[pc]) {
    one.end_stretch();
    one.from = pc;
  }
  one.last = pc;
  ++cta.totals.instructions;
  if (is_mma_[pc]) ++cta.totals.mma;
}

void PathCount::branch(const exec::Warp& warp, std::uint32_t pc, std::uint32_t taken, std::uint32_t not_taken) {
  if (!is_conditional_[pc]) return;
  const BranchOutcome outcome = taken == 0       ? BranchOutcome::not_taken
                                : not_taken == 0 ? BranchOutcome::taken
                                                 : BranchOutcome::both;
  std::vector<OutcomeRun>& runs = running(*warp.cta).warps[warp.id].branches[pc];
  if (runs.empty() || runs.back().outcome != outcome) runs.push_back({outcome, 0});
  ++runs.back().times;
}

void PathCount::cta_ended(const exec::Cta& cta) {
  RunningCta& ended = running(cta);
  Kept kept{.path = {.linear = cta.linear, .instructions = ended.totals.instructions}};
  totals_[cta.linear] = ended.totals;
  const auto same = kept_.find(ended.totals.instructions);
  // Of equals the one that comes first in the grid: the order in which CTAs end is the schedule's.
  if (same == kept_.end() || cta.linear < same->second.path.linear) {
    for (RunningWarp& warp : ended.warps) {
      warp.end_stretch();
      WarpPath& path = kept.path.warps.emplace_back();
      for (const auto& [pc, runs] : warp.branches) kept.runs += runs.size();
      path.branches = std::move(warp.branches);
      for (const auto& [ends, times] : warp.stretches)
        path.stretches.push_back(
            {static_cast<std::uint32_t>(ends >> 32U), static_cast<std::uint32_t>(ends & 0xffffffffU), times});
      std::sort(path.stretches.begin(), path.stretches.end(),
                [](const Stretch& a, const Stretch& b) { return std::pair(a.from, a.to) < std::pair(b.from, b.to); });
      kept.runs += path.stretches.size();
    }
    keep(std::move(kept));
  }
  running_.erase(cta.linear);
  latest_ = nullptr;
}

void PathCount::keep(Kept kept) {
  if (kept.path.linear == 0) first_ = kept.path;
  const auto same = kept_.find(kept.path.instructions);
  if (same != kept_.end()) runs_ -= same->second.runs;
  runs_ += kept.runs;
  kept_.insert_or_assign(kept.path.instructions, std::move(kept));
  while (runs_ > most_runs_ && kept_.size() > 2) thin_out();
}

// The lightest and the heaviest stay; of the others goes whose neighbours are nearest to each other.
void PathCount::thin_out() {
  auto goes = std::next(kept_.begin());
  std::uint64_t least = ~std::uint64_t{0};
  for (auto one = goes; one != std::prev(kept_.end()); ++one) {
    const std::uint64_t gap = std::next(one)->first - std::prev(one)->first;
    if (gap < least) goes = one;
    least = std::min(least, gap);
  }
  runs_ -= goes->second.runs;
  kept_.erase(goes);
}

LaunchPaths PathCount::paths() const {
  LaunchPaths paths{.totals = totals_};
  if (kept_.empty()) return paths;
  std::vector<std::uint64_t> instructions;
  for (const CtaTotals& one : totals_) instructions.push_back(one.instructions);
  const auto middle = instructions.begin() + static_cast<std::ptrdiff_t>(instructions.size() / 2);
  std::nth_element(instructions.begin(), middle, instructions.end());
  const auto distance = [&](const auto& one) {
    return one.first > *middle ? one.first - *middle : *middle - one.first;
  };
  const auto median = std::min_element(kept_.begin(), kept_.end(),
                                       [&](const auto& a, const auto& b) { return distance(a) < distance(b); });
  paths.median_is_exact = median->first == *middle;
  const auto add = [&](const CtaPath& path) {
    const bool is_there = std::any_of(paths.ctas.begin(), paths.ctas.end(),
                                      [&](const CtaPath& other) { return other.linear == path.linear; });
    if (!is_there && !path.warps.empty()) paths.ctas.push_back(path);
  };
  add(first_);
  add(median->second.path);
  add(kept_.rbegin()->second.path);
  return paths;
}

}  // namespace flashmoe::vgpu::observe
