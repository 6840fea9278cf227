// What the performance gate measured, sample by sample.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "workflow/verdict/named.hpp"

namespace flashmoe::workflow {

struct DriftFacts {
  double seconds = 0;  // as recorded
  std::string record{};
  double drift = 0;  // of what is measured now, as ratio - 1
  bool operator==(const DriftFacts&) const = default;
};

struct RatioFacts {  // time of the baseline over time of the kernel
  double mean = 0, lower = 0, upper = 0;
  double alpha = 0;
  bool operator==(const RatioFacts&) const = default;
};

// On a card, beside the time of the kernels that decides: never mixed with it.
struct CardTimesFacts {
  double baseline_cold_seconds = 0, kernel_cold_seconds = 0;  // events around a call, L2 overwritten before
  double baseline_call_seconds = 0, kernel_call_seconds = 0;  // the host's clock, launches one by one
  bool warm = false;                                          // whether the inputs of a block fit into L2
  bool operator==(const CardTimesFacts&) const = default;
};

struct SpeedFacts {
  RatioFacts ratio{};
  std::string rung{};  // of the ladder, by the lower bound
  double needed = 0;
  double baseline_seconds = 0, kernel_seconds = 0;  // per call, undisturbed
  std::vector<double> log_ratios{};                 // one per pair of fresh processes
  std::vector<double> baseline_samples{}, kernel_samples{};
  int calls_per_block = 0;
  int outputs_compared = 0;
  std::optional<int> processor_clock_blocks{};  // of the ABBA blocks, those that processor time decided
  std::optional<CardTimesFacts> card{};
  bool operator==(const SpeedFacts&) const = default;
};

struct MeasuredWorkload {
  std::map<std::string, double> values{};
  std::optional<DriftFacts> baseline_recorded{};
  std::optional<std::vector<std::string>> baseline_differences{};  // set when it drifted: what else differs
  std::optional<SpeedFacts> speed{};                               // unset: it came to no figure
  bool operator==(const MeasuredWorkload&) const = default;
};

// Where there is no clock: both sides as predicted on the same device. Never evidence of a speed.
struct PredictedSpeedFacts {
  std::string workload{};
  std::string baseline_sha256{}, kernel_sha256{};  // of the images that were predicted
  double baseline_cycles = 0, kernel_cycles = 0;   // of a call
  double ratio = 0;                                // of the one over the other
  std::vector<std::string> doubts{};               // why either figure may be off
  bool operator==(const PredictedSpeedFacts&) const = default;
};

struct PerformanceFacts {
  static constexpr const char* gate = "performance";
  std::uint64_t seed = 0;
  std::string baseline{};                         // its label
  Named<MeasuredWorkload> workloads{};            // in the order they were measured
  std::optional<std::string> baseline_version{};  // what it says it runs on
  std::optional<int> look{};                      // which one at this kernel on this device, from 1
  std::optional<PredictedSpeedFacts> predicted{};
  std::string failure{};  // "refused", "baseline drift", ...; empty: none
  bool operator==(const PerformanceFacts&) const = default;
};

}  // namespace flashmoe::workflow
