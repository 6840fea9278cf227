// What the checks of a virtual GPU found, as the gates say it.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "workflow/gpu/launch_report.hpp"
#include "workflow/runner/runner.hpp"
#include "workflow/verdict/verdict.hpp"

namespace flashmoe::workflow {

struct VirtualFindings {
  std::vector<Finding> findings{};         // each place once
  std::vector<std::string> messages{};     // of these, each in a few words: without who it was, and against whom
  std::vector<Finding> warnings{};         // nothing wrong, but not what it looks like
  std::vector<Finding> leaks{};            // memory that the program never freed: at its end that harms nobody
  std::vector<std::string> faults{};       // why launches did not end
  std::vector<std::string> as_reported{};  // the checks' findings, one JSON object each
  std::string first{};                     // of the checks, in one line; empty: they found nothing
};

// The code of what a check, or the end of a launch ("fault"), reports.
[[nodiscard]] const char* check_code(std::string_view check);

// Those first that explain others. Buffers have the names of `arguments`, where it knows them.
[[nodiscard]] VirtualFindings virtual_findings(const std::vector<LaunchReport>& launches,
                                               const ArgumentNames& arguments = {});

// For people: what, where, what to do.
[[nodiscard]] std::string findings_text(const std::vector<Finding>& findings);

}  // namespace flashmoe::workflow
