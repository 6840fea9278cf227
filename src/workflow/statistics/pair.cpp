#include "workflow/statistics/pair.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace flashmoe::workflow {

double AbbaBlock::log_ratio() const {
  return 0.5 * (std::log(base_first) + std::log(base_second) - std::log(candidate_first) - std::log(candidate_second));
}

const char* name_of(PairProblem problem) {
  switch (problem) {
    case PairProblem::none:
      return "none";
    case PairProblem::base_failed:
      return "base failed";
    case PairProblem::candidate_failed:
      return "candidate failed";
    case PairProblem::preempted:
      return "preempted";
    case PairProblem::interrupted:
      return "interrupted";
  }
  return "none";
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
  sample.log_ratio = median_of(sample.block_log_ratios);
  sample.base_seconds = median_of(base);
  sample.candidate_seconds = median_of(candidate);
  return sample;
}

Json to_json(const PairSample& sample) {
  return {{"log_ratio", sample.log_ratio},
          {"block_log_ratios", sample.block_log_ratios},
          {"base_seconds", sample.base_seconds},
          {"candidate_seconds", sample.candidate_seconds},
          {"machine_state", sample.machine_state}};
}

Result<PairSample> pair_from_json(const Json& json) {
  const auto number = [&](const char* key) {
    return json.is_object() && json.contains(key) && json[key].is_number() ? json[key].get<double>()
                                                                           : std::numeric_limits<double>::quiet_NaN();
  };
  PairSample sample;
  sample.log_ratio = number("log_ratio");
  sample.base_seconds = number("base_seconds");
  sample.candidate_seconds = number("candidate_seconds");
  if (!std::isfinite(sample.log_ratio)) return Diagnostic{.message = "a stored pair has no log_ratio"};
  if (json.contains("block_log_ratios") && json["block_log_ratios"].is_array()) {
    for (const Json& value : json["block_log_ratios"]) {
      if (value.is_number()) sample.block_log_ratios.push_back(value.get<double>());
    }
  }
  sample.machine_state = json.value("machine_state", Json::object());
  return sample;
}

}  // namespace flashmoe::workflow
