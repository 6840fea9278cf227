// Evaluations in the format of FlashInfer-Bench: a Trace is one line of JSON, a definition, a workload, a solution and
// what came of it. The fields are those of flashinfer-bench at commit 40e6ca7 (2026-04-30), which numbers no schema.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "support/result.hpp"
#include "workflow/journal/record.hpp"

namespace flashmoe::workflow {

inline constexpr const char* flashinfer_trace_format = "flashinfer-trace";
inline constexpr const char* flashinfer_trace_schema = "flashinfer-bench 40e6ca7 (2026-04-30)";

struct ExportedTraces {
  std::vector<std::string> lines{};
  std::size_t not_told = 0;  // usable gate runs that a Trace cannot tell: nothing was timed, and nothing is wrong
};
// What gate runs found, one Trace for each workload that was timed, and one for a run that does not hold; imported ones
// as they came. `inputs` are the names of the project's inputs.
[[nodiscard]] ExportedTraces export_traces(const std::vector<Record>& records, const std::vector<std::string>& inputs);

// A line as a record that claims nothing of this machine; an error says which field is not as the schema has it.
[[nodiscard]] Result<Record> record_of_trace(const std::string& line);

}  // namespace flashmoe::workflow
