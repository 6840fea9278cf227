// The record of a loop that ended: from where to where, in how many changes, and why it stopped. Its iterations have
// records of their own, which say what it cost.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace flashmoe::workflow {

struct RunRecord {
  static constexpr const char* kind = "run";
  std::string start{}, end{};  // commits
  int iterations = 0, kept = 0;
  std::string stopped{};                   // why
  std::vector<std::string> bottlenecks{};  // that were named, in order
  // On a device without a clock: instructions that the busiest SM executed.
  std::optional<double> busiest_sm_at_start{}, busiest_sm_at_end{};
  // With a clock: times the speed of the baseline.
  std::string baseline{};
  std::optional<double> ratio_at_start{}, ratio_at_end{};
  // What it was allowed; unset: from before it was kept, or no limit.
  std::optional<int> max_iterations{};
  std::optional<double> max_minutes{}, max_dollars{};
  std::string summary{};
  bool operator==(const RunRecord&) const = default;
};

}  // namespace flashmoe::workflow
