#include "workflow/statistics/pair.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

namespace flashmoe::workflow {

double AbbaBlock::log_ratio() const {
  return 0.5 * (std::log(base_first) + std::log(base_second) - std::log(candidate_first) - std::log(candidate_second));
}

double median_of(std::vector<double> values) {
  if (values.empty()) return std::numeric_limits<double>::quiet_NaN();
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  const double upper = *middle;
  if (values.size() % 2 == 1) return upper;
  return 0.5 * (upper + *std::max_element(values.begin(), middle));
}

PairSample pair_of(const std::vector<AbbaBlock>& blocks) {
  PairSample sample;
  std::vector<double> base;
  std::vector<double> candidate;
  for (const AbbaBlock& block : blocks) {
    sample.block_log_ratios.push_back(block.log_ratio());
    base.insert(base.end(), {block.base_first, block.base_second});
    candidate.insert(candidate.end(), {block.candidate_first, block.candidate_second});
  }
  sample.processor_clock_blocks = static_cast<int>(
      std::count_if(blocks.begin(), blocks.end(), [](const AbbaBlock& block) { return block.processor_clock; }));
  sample.log_ratio = median_of(sample.block_log_ratios);
  if (!blocks.empty()) {
    sample.total_log_ratio = std::log(std::accumulate(base.begin(), base.end(), 0.0) /
                                      std::accumulate(candidate.begin(), candidate.end(), 0.0));
  }
  sample.base_seconds = median_of(base);
  sample.candidate_seconds = median_of(candidate);
  return sample;
}

double log_ratio_of_all_blocks(const std::vector<PairSample>& pairs) {
  double sum = 0;
  for (const PairSample& pair : pairs) sum += pair.total_log_ratio.value_or(pair.log_ratio);
  return pairs.empty() ? std::numeric_limits<double>::quiet_NaN() : sum / static_cast<double>(pairs.size());
}

}  // namespace flashmoe::workflow
