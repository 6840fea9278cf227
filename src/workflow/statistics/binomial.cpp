#include "workflow/statistics/binomial.hpp"

#include <cmath>

namespace flashmoe::workflow {
namespace {

double probability_at_most(int hits, int trials, double rate) {
  if (hits >= trials || rate <= 0) return 1;
  if (rate >= 1) return 0;
  double sum = 0;
  for (int i = 0; i <= hits; ++i) {
    const double log_ways = std::lgamma(trials + 1) - std::lgamma(i + 1) - std::lgamma(trials - i + 1);
    sum += std::exp(log_ways + i * std::log(rate) + (trials - i) * std::log1p(-rate));
  }
  return sum;
}

// P(at most `hits`) falls in the rate: where does it cross `level`?
double rate_where(int hits, int trials, double level) {
  double low = 0;
  double high = 1;
  for (int i = 0; i < 60; ++i) {
    const double middle = 0.5 * (low + high);
    (probability_at_most(hits, trials, middle) > level ? low : high) = middle;
  }
  return 0.5 * (low + high);
}

}  // namespace

RateInterval exact_rate(int hits, int trials, double confidence) {
  if (trials <= 0) return {};
  const double tail = 0.5 * (1 - confidence);
  RateInterval interval{.rate = static_cast<double>(hits) / trials};
  if (hits > 0) interval.lower = rate_where(hits - 1, trials, 1 - tail);
  if (hits < trials) interval.upper = rate_where(hits, trials, tail);
  return interval;
}

}  // namespace flashmoe::workflow
