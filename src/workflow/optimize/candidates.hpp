// Versions that are counted before one of them is tried, and versions at workloads that nobody tuned for.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "workflow/advise/rules.hpp"
#include "workflow/device/selector.hpp"
#include "workflow/optimize/optimize.hpp"

namespace flashmoe::workflow {

// What a virtual device counted of a version.
struct Counted {
  double cycles = 0;  // of the busiest SM, estimated; 0: it could not be counted, or a check found something
  std::optional<double> predicted{};  // cycles of the call; unset: not predicted
  Values counters{};                  // of the weightiest launch
};

struct Candidate {
  Proposal proposal;
  Snapshot change;
};

// By how much `after` takes less or more: as predicted where both are, else by the estimate from counts.
[[nodiscard]] double factor(const Counted& before, const Counted& after);

using CountedVersions = std::map<std::string, Counted>;  // by commit

struct Counting {
  const Project& project;
  const DeviceSelector& device;
  const RuleSet& rules;
  std::uint64_t seed = 0;
  bool quiet = false;
};

// Cycles of the call at the target workload, unset where the model abstains.
[[nodiscard]] std::optional<double> predicted_cycles(const Counting& counting, const Project& project,
                                                     const std::string& workload = {});

// Counts those that are not counted yet on a virtual device, as many at once as there are cores; those that do not
// build or do not run cost nothing more.
void count_candidates(const Counting& counting, const std::vector<Candidate>& candidates, CountedVersions& counted);

// Every workload but the target, at `start` and at `end`: counted, or timed where there is a clock. One that cannot be
// is left out.
[[nodiscard]] std::vector<Elsewhere> look_elsewhere(const Counting& counting, const std::string& run,
                                                    const std::string& start, const std::string& end);

}  // namespace flashmoe::workflow
