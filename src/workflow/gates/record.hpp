// What a gate run leaves in the journal, and what a later one reads there.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "workflow/compile/cpu_build.hpp"
#include "workflow/gates/gates.hpp"
#include "workflow/gates/performance.hpp"
#include "workflow/runner/runner.hpp"

namespace flashmoe::workflow {

// Records of this project, oldest first; none when there is no journal or it does not read.
[[nodiscard]] std::vector<Json> read_history(const Project& project);
// Seconds the last recorded run of this gate took; 0: never ran.
[[nodiscard]] double recorded_seconds(const std::vector<Json>& history, const std::string& gate);
// The last accepted baseline of each workload on this device.
[[nodiscard]] std::map<std::string, RecordedBaseline> recorded_baselines(const std::vector<Json>& history,
                                                                         const std::string& device);
// What may explain that a baseline is faster or slower than it was.
[[nodiscard]] Json baseline_facts(const Project& project, const Runnable& baseline);

[[nodiscard]] Json gate_record(const Project& project, const GateRun& run, std::uint64_t seed, int threads,
                               const std::map<std::string, BuiltCallable>& built, const Json& facts,
                               const std::map<std::string, RecordedBaseline>& recorded);

}  // namespace flashmoe::workflow
