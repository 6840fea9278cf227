#include "vgpu/observe/counters/work_spread.hpp"

#include <algorithm>

namespace flashmoe::vgpu::observe {
namespace {

constexpr double least_of_mean = 0.1;
constexpr double least_of_largest = 0.01;

}  // namespace

void WorkCount::launch_begins(std::uint32_t sms) {
  ctas_with_.clear();
  largest_on_sm_.assign(std::max(sms, 1U), 0);
}

void WorkCount::cta_ended(std::uint32_t sm, std::uint64_t instructions) {
  ++ctas_with_[instructions];
  std::uint64_t& largest = largest_on_sm_[sm % largest_on_sm_.size()];
  largest = std::max(largest, instructions);
}

WorkSpread WorkCount::spread() const {
  WorkSpread spread;
  double total = 0;
  for (const auto& [instructions, ctas] : ctas_with_) {
    spread.ctas += ctas;
    total += static_cast<double>(instructions) * static_cast<double>(ctas);
  }
  if (total == 0) return spread;
  const auto largest = static_cast<double>(ctas_with_.rbegin()->first);
  const double mean = total / static_cast<double>(spread.ctas);
  spread.largest_over_mean = largest / mean;
  const double least = std::max(least_of_mean * mean, least_of_largest * largest);
  for (const auto& [instructions, ctas] : ctas_with_) {
    if (static_cast<double>(instructions) >= least) spread.working_ctas += ctas;
  }
  spread.working_sms = static_cast<std::uint32_t>(
      std::count_if(largest_on_sm_.begin(), largest_on_sm_.end(),
                    [&](std::uint64_t instructions) { return static_cast<double>(instructions) >= least; }));
  return spread;
}

}  // namespace flashmoe::vgpu::observe
