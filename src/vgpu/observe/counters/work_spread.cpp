#include "vgpu/observe/counters/work_spread.hpp"

#include <algorithm>

namespace flashmoe::vgpu::observe {
namespace {

constexpr double least_of_mean = 0.1;
constexpr double least_of_largest = 0.05;

}  // namespace

void WorkCount::launch_begins(std::uint32_t sms) {
  *this = {};
  largest_writer_on_sm_.assign(std::max(sms, 1U), 0);
  dealt_to_sm_ = largest_writer_on_sm_;
}

void WorkCount::cta_ended(std::uint64_t cta, std::uint32_t sm, std::uint64_t instructions, bool wrote,
                          std::uint64_t times) {
  ctas_ += times;
  total_ += static_cast<double>(times * instructions);
  largest_ = std::max(largest_, instructions);
  dealt_to_sm_[cta % dealt_to_sm_.size()] += instructions;
  if (!wrote) return;
  writers_[instructions] += times;
  std::uint64_t& largest = largest_writer_on_sm_[sm % largest_writer_on_sm_.size()];
  largest = std::max(largest, instructions);
}

WorkSpread WorkCount::spread() const {
  WorkSpread spread{.ctas = ctas_};
  if (total_ > 0) spread.largest_over_mean = static_cast<double>(largest_) * static_cast<double>(ctas_) / total_;
  if (ctas_ > 0) spread.busiest_sm = *std::max_element(dealt_to_sm_.begin(), dealt_to_sm_.end());
  if (writers_.empty()) return spread;
  double count = 0, sum = 0;
  for (const auto& [instructions, ctas] : writers_) {
    count += static_cast<double>(ctas);
    sum += static_cast<double>(instructions) * static_cast<double>(ctas);
  }
  const auto largest = static_cast<double>(writers_.rbegin()->first);
  const double least = std::max({least_of_mean * sum / count, least_of_largest * largest, 1.0});
  for (const auto& [instructions, ctas] : writers_) {
    if (static_cast<double>(instructions) >= least) spread.working_ctas += ctas;
  }
  spread.working_sms = static_cast<std::uint32_t>(
      std::count_if(largest_writer_on_sm_.begin(), largest_writer_on_sm_.end(),
                    [&](std::uint64_t instructions) { return static_cast<double>(instructions) >= least; }));
  return spread;
}

}  // namespace flashmoe::vgpu::observe
