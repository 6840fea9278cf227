// The bodies of --json=short: what decides, without samples, counters and facts.
#pragma once

#include <vector>

#include "workflow/journal/json.hpp"

namespace flashmoe::workflow {

struct GateRun;
struct Profile;
struct ProgramRun;
struct Record;
struct Finding;

// Without those that are fine.
[[nodiscard]] Json brief_findings(const std::vector<Finding>& findings);
[[nodiscard]] Json brief_gate(const GateRun& run);
[[nodiscard]] Json brief_profile(const Profile& profile);
[[nodiscard]] Json brief_program(const ProgramRun& run);
// One record, in a line's worth.
[[nodiscard]] Json brief_record(const Record& record);

}  // namespace flashmoe::workflow
