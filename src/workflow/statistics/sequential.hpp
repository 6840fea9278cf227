// The sequential test behind KEEP and REVERT (docs/comparing.md): a t e-value over the log-ratios of fresh process
// pairs. Valid whenever one looks, so that sampling may stop as soon as it is decided.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace flashmoe::workflow {

enum class Decision { keep, revert, inconclusive };

struct ComparePolicy {
  double alpha = 0.05;     // of this comparison: 0.05 / (k (k + 1)) for the k-th of a run
  double min_gain = 0.02;  // least gain worth keeping, as a ratio - 1
  int min_pairs = 6;
  int max_pairs = 24;
  double g = 1.0;  // prior width of the e-value
};

struct ConfidenceInterval {
  double mean = 0, lower = 0, upper = 0;  // of log(time of base / time of candidate): above 0 the candidate is faster
};

// The same as people read it, ratio - 1; a bound that is not finite is unset.
struct Gain {
  std::optional<double> mean{}, lower{}, upper{};
  bool operator==(const Gain&) const = default;
};

struct Verdict {
  Decision decision = Decision::inconclusive;
  bool final = false;  // more pairs may still change it while false
  ConfidenceInterval interval;
  int pairs = 0;
};

struct Moments {
  double mean = 0;
  double variance = 0;  // with n - 1
};

[[nodiscard]] const char* name_of(Decision decision);
[[nodiscard]] Gain gain_of(const ConfidenceInterval& interval);
[[nodiscard]] Moments moments_of(const std::vector<double>& x);
// `variance` with n - 1; 1 where nothing can be said (n < 2).
[[nodiscard]] double e_value(double mean, double variance, int n, double null_mean, double g);
// |t| from which on the e-value of n pairs is at least 1 / alpha; infinite when n pairs can never get there.
[[nodiscard]] double critical_t(int n, double alpha, double g);
[[nodiscard]] ConfidenceInterval confidence_sequence(const std::vector<double>& x, double alpha, double g);
[[nodiscard]] Verdict decide(const std::vector<double>& log_ratios, const ComparePolicy& policy);
// alpha of the k-th comparison (k from 1) of a run that may keep something false with probability `total` at most.
[[nodiscard]] double spend_alpha(double total, int k);
// The smallest true gain (ratio - 1) whose lower bound is above 0 after max_pairs pairs with probability `power`, when
// pairs spread by `pair_spread` (standard deviation of a pair's log-ratio).
[[nodiscard]] double minimum_detectable_gain(double pair_spread, const ComparePolicy& policy, double power = 0.8);

}  // namespace flashmoe::workflow
