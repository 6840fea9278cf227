// Real pairs: two fresh worker processes, five ABBA blocks, the same new inputs for both, every output checked.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "workflow/project/project.hpp"
#include "workflow/runner/runner.hpp"
#include "workflow/statistics/pair.hpp"

namespace flashmoe::workflow {

struct PairSetup {
  const Project* project = nullptr;  // whose tensors, tolerances and limits hold
  Workload workload{};
  Runnable base{};
  Runnable candidate{};
  std::optional<Runnable> reference{};
  std::uint64_t seed = 0;
  double block_seconds = 0.004;
  int blocks = 5;
};

// Raw: what a pair was made of, too.
struct MeasuredPair {
  PairOutcome outcome{};
  std::vector<AbbaBlock> blocks{};
};

// Every other pair starts and runs in the opposite order (BAAB), so that no side is the first one more often.
[[nodiscard]] MeasuredPair measure_blocks(const PairSetup& setup, int pair_index);
[[nodiscard]] PairOutcome measure_pair(const PairSetup& setup, int pair_index);

// The same, and between pairs the user's status command whenever a minute has passed: a machine that is gone is a
// preemption, not a failed candidate.
[[nodiscard]] PairSource pair_source(PairSetup setup);

}  // namespace flashmoe::workflow
