// The comparison on this machine, with real processes: equal builds, and builds that are slower by a known amount.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "support/progress.hpp"
#include "support/result.hpp"
#include "workflow/journal/selftest_record.hpp"
#include "workflow/statistics/sequential.hpp"

namespace flashmoe::workflow {

struct RealOptions {
  std::vector<double> slowdowns{0.01, 0.02, 0.05};
  double min_gain = 0.005;
  int max_pairs = 24;
  double limit_seconds = 240;  // of everything; what does not fit is said to be missing
  std::uint64_t seed = 42;
};

struct RealComparison {
  double injected = 0;    // log-ratio put in: below 0 the candidate is slower, above 0 faster, 0 the same build
  std::string problem{};  // why it was not measured; empty: it was
  Verdict verdict{};
  double pair_spread = 0;
  [[nodiscard]] bool measured() const { return problem.empty(); }
  // A kept candidate that is not faster, or a reverted one that is faster by at least the least gain.
  [[nodiscard]] bool wrong(double min_gain) const;
  [[nodiscard]] bool found(double min_gain) const;  // the right decision, not only no wrong one
};

[[nodiscard]] Result<std::vector<RealComparison>> run_real(const RealOptions& options, Progress& progress);
[[nodiscard]] RealResult result_of(const RealComparison& comparison);

}  // namespace flashmoe::workflow
