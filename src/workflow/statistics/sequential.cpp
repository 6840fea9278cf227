#include "workflow/statistics/sequential.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

namespace flashmoe::workflow {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

// P(T > t) for a noncentral t: T = (Z + shift) / sqrt(W / nu). Integrates over s = sqrt(W / nu), whose density is
// smooth and near 1, with Simpson's rule.
double probability_above(double t, double shift, int nu) {
  const double half_nu = 0.5 * nu;
  const double log_scale = std::log(2.0) + half_nu * std::log(half_nu) - std::lgamma(half_nu);
  const auto integrand = [&](double s) {
    if (s <= 0) return 0.0;
    const double density = std::exp(log_scale + (nu - 1) * std::log(s) - half_nu * s * s);
    return density * 0.5 * std::erfc((t * s - shift) / std::sqrt(2.0));
  };
  const double last = 1 + 8 / std::sqrt(static_cast<double>(nu));
  constexpr int intervals = 400;
  const double h = last / intervals;
  double sum = integrand(0) + integrand(last);
  for (int i = 1; i < intervals; ++i) sum += (i % 2 == 1 ? 4 : 2) * integrand(i * h);
  return sum * h / 3;
}

}  // namespace

const char* name_of(Decision decision) {
  switch (decision) {
    case Decision::keep:
      return "KEEP";
    case Decision::revert:
      return "REVERT";
    case Decision::inconclusive:
      return "INCONCLUSIVE";
  }
  return "INCONCLUSIVE";
}

Gain gain_of(const ConfidenceInterval& interval) {
  const auto gain = [](double log_ratio) {
    return std::isfinite(log_ratio) ? std::optional(std::expm1(log_ratio)) : std::nullopt;
  };
  return {.mean = gain(interval.mean), .lower = gain(interval.lower), .upper = gain(interval.upper)};
}

Moments moments_of(const std::vector<double>& x) {
  if (x.empty()) return {};
  const double n = static_cast<double>(x.size());
  const double mean = std::accumulate(x.begin(), x.end(), 0.0) / n;
  double squares = 0;
  for (const double value : x) squares += (value - mean) * (value - mean);
  return {.mean = mean, .variance = x.size() < 2 ? 0 : squares / (n - 1)};
}

double e_value(double mean, double variance, int n, double null_mean, double g) {
  if (n < 2) return 1;
  const double nu = n - 1;
  const double spread = 1 + n * g;
  const double difference = mean - null_mean;
  if (difference == 0) return 1 / std::sqrt(spread);
  // The largest value n pairs can reach, also the limit for a variance of 0.
  if (!(variance > 0)) return std::exp(0.5 * (n - 1) * std::log(spread));
  const double u = n * difference * difference / (variance * nu);  // t^2 / nu
  return std::exp(-0.5 * std::log(spread) + 0.5 * n * (std::log1p(u) - std::log1p(u / spread)));
}

double critical_t(int n, double alpha, double g) {
  if (n < 2) return infinity;
  const double spread = 1 + n * g;
  // E = 1/alpha solved for t^2 / nu: (1 + u) / (1 + u / spread) = (spread / alpha^2)^(1/n).
  const double ratio = std::exp((std::log(spread) - 2 * std::log(alpha)) / n);
  if (!(ratio < spread)) return infinity;
  return std::sqrt((n - 1) * (ratio - 1) / (1 - ratio / spread));
}

ConfidenceInterval confidence_sequence(const std::vector<double>& x, double alpha, double g) {
  const Moments moments = moments_of(x);
  const int n = static_cast<int>(x.size());
  const double t = critical_t(n, alpha, g);
  if (!std::isfinite(t) || !std::isfinite(moments.variance)) {
    return {.mean = moments.mean, .lower = -infinity, .upper = infinity};
  }
  const double half_width = t * std::sqrt(moments.variance / n);
  return {.mean = moments.mean, .lower = moments.mean - half_width, .upper = moments.mean + half_width};
}

Verdict decide(const std::vector<double>& log_ratios, const ComparePolicy& policy) {
  Verdict verdict;
  verdict.pairs = static_cast<int>(log_ratios.size());
  verdict.interval = confidence_sequence(log_ratios, policy.alpha, policy.g);
  verdict.final = verdict.pairs >= policy.max_pairs;
  if (verdict.pairs < policy.min_pairs) return verdict;
  const double least = std::log1p(policy.min_gain);
  if (verdict.interval.lower > 0 && verdict.interval.mean >= least) {
    verdict.decision = Decision::keep;
    verdict.final = true;
  } else if (verdict.interval.upper < least) {
    verdict.decision = Decision::revert;
    verdict.final = true;
  }
  return verdict;
}

double spend_alpha(double total, int k) {
  const double at = std::max(1, k);
  return total / (at * (at + 1));  // the sum over all k is `total`
}

double minimum_detectable_gain(double pair_spread, const ComparePolicy& policy, double power) {
  const int n = policy.max_pairs;
  const double t = critical_t(n, policy.alpha, policy.g);
  if (!std::isfinite(t) || !std::isfinite(pair_spread)) return infinity;
  double low = 0;
  double high = 2 * t + 20;
  for (int i = 0; i < 60; ++i) {
    const double middle = 0.5 * (low + high);
    (probability_above(t, middle, n - 1) < power ? low : high) = middle;
  }
  return std::expm1(high * pair_spread / std::sqrt(static_cast<double>(n)));
}

}  // namespace flashmoe::workflow
