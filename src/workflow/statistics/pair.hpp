// One fresh process pair: what it measured, or why it could not. Real and simulated machines give the same shape, so
// that what the self-test judges is what runs.
#pragma once

#include <functional>
#include <vector>

#include "support/json.hpp"
#include "support/result.hpp"

namespace flashmoe::workflow {

// Seconds per call of base, candidate, candidate, base, one after the other: a linear drift cancels.
struct AbbaBlock {
  double base_first = 0, candidate_first = 0, candidate_second = 0, base_second = 0;
  [[nodiscard]] double log_ratio() const;  // of base over candidate
};

struct PairSample {
  std::vector<double> block_log_ratios;
  double log_ratio = 0;  // the median block
  double base_seconds = 0;
  double candidate_seconds = 0;
  Json machine_state = Json::object();  // clocks and load around the pair, as far as they can be read
};

enum class PairProblem {
  none,
  base_failed,       // crash, wrong result, limit passed: the comparison has no ground
  candidate_failed,  // the same for the candidate: a failed candidate, never a slow one
  preempted,         // the machine is going away; the pairs so far stay valid
  interrupted        // the user said stop
};

struct PairOutcome {
  PairProblem problem = PairProblem::none;
  Diagnostic diagnostic{};
  PairSample sample{};
};

using PairSource = std::function<PairOutcome(int pair_index)>;

[[nodiscard]] const char* name_of(PairProblem problem);
[[nodiscard]] double median_of(std::vector<double> values);  // NaN of none
[[nodiscard]] PairSample pair_of(const std::vector<AbbaBlock>& blocks);
[[nodiscard]] Json to_json(const PairSample& sample);
[[nodiscard]] Result<PairSample> pair_from_json(const Json& json);

}  // namespace flashmoe::workflow
