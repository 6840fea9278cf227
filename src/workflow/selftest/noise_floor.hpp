// What this machine's noise does to the tool: how far pairs of equal builds spread, and how often the performance gate
// is wrong about a kernel whose speed is known.
#pragma once

#include <cstdint>

#include "support/progress.hpp"
#include "support/result.hpp"
#include "workflow/journal/selftest_record.hpp"

namespace flashmoe::workflow {

struct NoiseOptions {
  int pairs = 16;      // of each example
  int gate_runs = 10;  // of each speed
  double block_seconds = 0.004;
  std::uint64_t seed = 42;
};

[[nodiscard]] Result<NoiseResult> measure_noise(const NoiseOptions& options, Progress& progress);

}  // namespace flashmoe::workflow
