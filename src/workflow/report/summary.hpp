// The summary of a run, as JSON and as Markdown.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "support/json.hpp"
#include "support/result.hpp"
#include "workflow/project/project.hpp"

namespace flashmoe::workflow {

// The name of the run that `name` means: a run, or the run of the record with that id.
[[nodiscard]] Result<std::string> find_run(const std::vector<Json>& records, const std::string& name);
// Before and after, each change with its effect, time against plan, cost, next goals. `project` is where the plan
// comes from; without it the plan is unknown.
[[nodiscard]] Json run_summary(const std::vector<Json>& records, const std::string& run,
                               const std::optional<Project>& project);
[[nodiscard]] std::string markdown_of(const Json& summary);

}  // namespace flashmoe::workflow
