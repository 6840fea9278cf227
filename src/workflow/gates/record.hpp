// What a gate run leaves in the journal, and what a later one reads there.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "workflow/gates/performance.hpp"
#include "workflow/project/project.hpp"
#include "workflow/runner/runner.hpp"

namespace flashmoe::workflow {

struct GateContext;
struct GateRun;
struct Record;

// Records of this project, oldest first; none when there is no journal or it does not read.
[[nodiscard]] std::vector<Record> read_history(const Project& project);
// Seconds the last recorded run of this gate took; 0: never ran.
[[nodiscard]] double recorded_seconds(const std::vector<Record>& history, const std::string& gate);
// The last accepted baseline of each workload on this device.
[[nodiscard]] std::map<std::string, RecordedBaseline> recorded_baselines(const std::vector<Record>& history,
                                                                         const std::string& device);
// Number of the next look at the speed of this kernel (by its content hash) there: every recorded run that came to a
// figure was one, whatever it said.
[[nodiscard]] int next_look(const std::vector<Record>& history, const std::string& device,
                            const std::string& kernel_hash);
// What may explain that a baseline is faster or slower than it was.
[[nodiscard]] BaselineFacts baseline_facts(const Project& project, const Runnable& baseline);

// Under which a record keeps sources_hash().
inline constexpr const char* hash_of_sources = "sources";
// Of what was built and of the project's file, by role.
[[nodiscard]] Named<std::string> hashes_of(const GateContext& context);
// Into the journal, or only as it would be there; `problem` says why it could not be written.
void write_or_show(const GateContext& context, const Record& record, bool write, Record& written, Finding& problem);

[[nodiscard]] Record gate_record(const GateContext& context, const GateRun& run);

}  // namespace flashmoe::workflow
