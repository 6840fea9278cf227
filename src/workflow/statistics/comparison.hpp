// Comparing two versions: A/A calibration, then fresh process pairs until the sequential test has decided. Where the
// pairs come from, a real machine or a simulated one, is the caller's.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "support/result.hpp"
#include "workflow/statistics/pair.hpp"
#include "workflow/statistics/sequential.hpp"

namespace flashmoe::workflow {

struct Calibration {
  int pairs = 0;
  double pair_spread = 0;  // standard deviation of the log-ratio of equal versions: the noise floor of one pair
  double noise_floor = 0;  // the same for the mean of max_pairs, as a ratio - 1
  double minimum_detectable_gain = 0;
  ConfidenceInterval interval{};
  bool biased = false;  // equal versions look different: nothing measured here can be believed
};

[[nodiscard]] Calibration calibrate(const std::vector<double>& equal_log_ratios, const ComparePolicy& policy);

enum class Ending {
  decided,
  threshold_refused,  // so many pairs decide nothing at the error rate that is left
  biased,
  base_failed,
  candidate_failed,
  preempted,
  interrupted,
  out_of_time
};
[[nodiscard]] const char* name_of(Ending ending);

struct ComparisonPlan {
  ComparePolicy policy{};
  int calibration_pairs = 8;
  double limit_seconds = 1800;
  bool lower_bound_decides = false;  // final claims: KEEP needs the lower bound, not the mean, to reach min_gain
};

struct Comparison {
  Ending ending = Ending::decided;
  Diagnostic
      problem{};  // for every ending but `decided`; there: why it is INCONCLUSIVE, where the machine is too coarse
  Verdict verdict{};
  Calibration calibration{};
  std::vector<PairSample> calibration_pairs{};
  std::vector<PairSample> pairs{};
  double seconds = 0;

  [[nodiscard]] std::vector<double> log_ratios() const;
  [[nodiscard]] std::string word() const;  // "KEEP", ..., "PREEMPTED": what a record calls it
};

struct ComparisonHooks {
  // After every pair, before the next is measured: a place to store it and to show progress.
  std::function<void(bool calibrating, const PairSample& sample, const Verdict& so_far)> after_pair{};
};

// Goes on from what `earlier` has (a comparison that was preempted); its pairs count.
[[nodiscard]] Comparison compare_versions(const PairSource& equal_pair, const PairSource& pair,
                                          const ComparisonPlan& plan, Comparison earlier = {},
                                          const ComparisonHooks& hooks = {});

}  // namespace flashmoe::workflow
