// Two versions on a GPU that is not here. Predictions have no variance: no test is run on them, and a gain counts only
// where it is larger than what the model can tell apart.
#pragma once

#include <string>
#include <vector>

namespace flashmoe::workflow {

struct PredictedGain {
  double base_cycles = 0, candidate_cycles = 0;  // of the SM clock, for one call
  std::string base_limiter{}, candidate_limiter{};
  double needed = 0;                  // the larger of the phase's least gain and the least that is believed
  std::vector<std::string> doubts{};  // why the figures may be off

  [[nodiscard]] double gain() const { return candidate_cycles > 0 ? base_cycles / candidate_cycles - 1 : 0; }
  [[nodiscard]] bool is_worth_keeping() const { return gain() >= needed; }
  bool operator==(const PredictedGain&) const = default;
};

// "12340 -> 5678 cycles, +117.3 % predicted (10 % are needed): worth keeping"
[[nodiscard]] std::string text_of(const PredictedGain& gain);

}  // namespace flashmoe::workflow
