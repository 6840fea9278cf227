// What the checks of a virtual GPU found, as the gates say it.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "workflow/gpu/launch_report.hpp"
#include "workflow/verdict/verdict.hpp"

namespace flashmoe::workflow {

struct VirtualFindings {
  std::vector<Finding> findings{};         // each place once
  std::vector<std::string> faults{};       // why launches did not end
  std::vector<std::string> as_reported{};  // the checks' findings, one JSON object each
  std::string first{};                     // of the checks, in one line; empty: they found nothing
};

// The code of what a check, or the end of a launch ("fault"), reports.
[[nodiscard]] const char* check_code(std::string_view check);

[[nodiscard]] VirtualFindings virtual_findings(const std::vector<LaunchReport>& launches);

}  // namespace flashmoe::workflow
