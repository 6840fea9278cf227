// Gate 2: tiny, then every declared workload, then random shapes and hard values, against the reference. No timing
// before this holds.
#pragma once

#include <cstdint>
#include <string>

#include "support/progress.hpp"
#include "workflow/gates/gate.hpp"
#include "workflow/project/project.hpp"
#include "workflow/runner/runner.hpp"
#include "workflow/verdict/gate_result.hpp"

namespace flashmoe::workflow {

struct CorrectnessOptions {
  std::uint64_t seed = 0;
  std::uint64_t repeat_with = 0;  // what --seed takes to get the same inputs; 0: there is no such flag
  double limit_seconds = 600;     // for all cases together
  bool schedules = false;         // of the device: calls repeat themselves to the bit, other orders are tried
  std::string report{};           // where a device that checks leaves its findings: they count; empty: there is none
};

[[nodiscard]] GateResult run_correctness_gate(const Project& project, const Runnable& kernel, const Runnable& reference,
                                              const CorrectnessOptions& options, Progress& progress);

extern const Gate correctness_gate;

// One thing to check: a workload, and what is in its inputs.
struct CorrectnessCase {
  std::string name;
  Values values;
  std::string hard{};  // empty: ordinary values
  int repeats = 1;     // with new inputs in the same buffers
};

// Declared workloads, random ones from the parameters' domains; hard values on the smallest workload, the target and
// two random shapes.
[[nodiscard]] std::vector<CorrectnessCase> correctness_cases(const Project& project, std::uint64_t seed);
// Of these a few to repeat under other schedules: the smallest, and the largest that are still small.
[[nodiscard]] std::vector<CorrectnessCase> smaller_cases(const Project& project,
                                                         const std::vector<CorrectnessCase>& cases);

}  // namespace flashmoe::workflow
