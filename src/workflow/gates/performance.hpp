// Gate 3: how fast, against the baseline measured in the same minute on the same inputs. The small workload first (is
// it broken?), then the target. The verdict is on the lower confidence bound.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "support/progress.hpp"
#include "workflow/gates/gate.hpp"
#include "workflow/journal/baseline.hpp"
#include "workflow/project/project.hpp"
#include "workflow/runner/runner.hpp"
#include "workflow/verdict/gate_result.hpp"

namespace flashmoe::workflow {

// What an earlier run measured for the baseline of one workload on the same device.
struct RecordedBaseline {
  double seconds = 0;
  std::string record_id{};
  BaselineFacts facts{};  // what may explain a difference: commit, versions, clocks
};

struct PerformanceOptions {
  std::uint64_t seed = 0;
  double limit_seconds_per_workload = 10;
  double alpha = 0.05;                                 // of all looks at this kernel together
  int look = 1;                                        // this one's number
  bool accept_baseline = false;                        // a drifted baseline is the new one
  std::map<std::string, RecordedBaseline> recorded{};  // by workload
  BaselineFacts facts_now{};
  bool rehearsal = false;  // a virtual GPU stands in for the card: nothing is measured, nothing decided
};

// Where a ratio (baseline time over kernel time) stands: "broken", "bottleneck", "success", "target", "stretch".
[[nodiscard]] const char* rung_of(const Thresholds& thresholds, double ratio);

[[nodiscard]] GateResult run_performance_gate(const Project& project, const Runnable& kernel, const Runnable& baseline,
                                              const Runnable& reference, const PerformanceOptions& options,
                                              Progress& progress);

extern const Gate performance_gate;

}  // namespace flashmoe::workflow
