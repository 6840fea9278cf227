// Gate 3: how fast, against the baseline measured in the same minute on the same inputs. The small workload first (is
// it broken?), then the target. The verdict is on the lower confidence bound.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "support/progress.hpp"
#include "workflow/project/project.hpp"
#include "workflow/runner/runner.hpp"
#include "workflow/statistics/sequential.hpp"
#include "workflow/verdict/verdict.hpp"

namespace flashmoe::workflow {

// What an earlier run measured for the baseline of one workload on the same device.
struct RecordedBaseline {
  double seconds = 0;
  std::string record_id{};
  Json facts = Json::object();  // what may explain a difference: commit, versions, clocks
};

struct PerformanceOptions {
  std::uint64_t seed = 0;
  double limit_seconds_per_workload = 10;
  double alpha = 0.05;
  bool accept_baseline = false;                        // a drifted baseline is the new one
  std::map<std::string, RecordedBaseline> recorded{};  // by workload
  Json facts_now = Json::object();
};

// Where a ratio (baseline time over kernel time) stands: "broken", "bottleneck", "success", "target", "stretch".
[[nodiscard]] const char* rung_of(const Thresholds& thresholds, double ratio);

[[nodiscard]] GateResult run_performance_gate(const Project& project, const Runnable& kernel, const Runnable& baseline,
                                              const Runnable& reference, const PerformanceOptions& options,
                                              Progress& progress);

// What differs between two sets of facts, as sentences: "commit: a1b2c3 then, d4e5f6 now".
[[nodiscard]] std::vector<std::string> differences(const Json& then, const Json& now);

}  // namespace flashmoe::workflow
