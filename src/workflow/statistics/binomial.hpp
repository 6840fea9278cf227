// How sure an observed rate is.
#pragma once

namespace flashmoe::workflow {

struct RateInterval {
  double rate = 0, lower = 0, upper = 1;
  bool operator==(const RateInterval&) const = default;
};

// Clopper and Pearson's interval: it covers the true rate with at least `confidence`, however small the counts.
[[nodiscard]] RateInterval exact_rate(int hits, int trials, double confidence = 0.95);

}  // namespace flashmoe::workflow
