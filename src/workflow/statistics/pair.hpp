// One fresh process pair: what it measured, or why it could not. Real and simulated machines give the same shape, so
// that what the self-test judges is what runs.
#pragma once

#include <array>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "support/result.hpp"

namespace flashmoe::workflow {

// Seconds per call of base, candidate, candidate, base, one after the other: a linear drift cancels.
struct AbbaBlock {
  double base_first = 0, candidate_first = 0, candidate_second = 0, base_second = 0;
  bool processor_clock = false;            // else the wall's
  [[nodiscard]] double log_ratio() const;  // of base over candidate
};

// Clocks and load at one moment, as far as they can be read.
struct CpuState {
  std::optional<double> load_1min{};
  std::optional<std::array<double, 2>> cpu_mhz{};  // the slowest and the fastest core
  std::optional<std::string> governor{};
  bool operator==(const CpuState&) const = default;
};

struct PairSample {
  std::vector<double> block_log_ratios{};
  double log_ratio = 0;  // the median block
  // Of the seconds of all blocks. Medians let a disturbed block go; a candidate that is slow in some blocks on purpose,
  // or by what it puts off, is seen here alone.
  std::optional<double> total_log_ratio{};
  double base_seconds = 0;
  double candidate_seconds = 0;
  std::optional<int> processor_clock_blocks{};  // of the blocks, those that processor time decided
  std::optional<CpuState> before{}, after{};
  bool operator==(const PairSample&) const = default;
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

[[nodiscard]] double median_of(std::vector<double> values);  // NaN of none
[[nodiscard]] PairSample pair_of(const std::vector<AbbaBlock>& blocks);
// Of all blocks together, as the mean over the pairs (of their medians where nothing else is known). NaN of none.
[[nodiscard]] double log_ratio_of_all_blocks(const std::vector<PairSample>& pairs);

}  // namespace flashmoe::workflow
