#include "workflow/gpu/findings.hpp"

#include <fmt/format.h>

#include <array>
#include <set>
#include <utility>

#include "workflow/verdict/codes.hpp"

namespace flashmoe::workflow {
namespace {

// One line what and who, and a second for the other party of a race.
std::string describe(const ReportedFinding& finding) {
  std::string text = finding.message;
  if (finding.at) text += fmt::format(" ({}, {})", finding.kernel, finding.at->runner());
  if (finding.other) {
    text +=
        fmt::format("; against {} at {} ({})", finding.other->what, finding.other->place(), finding.other->runner());
  }
  return text;
}

}  // namespace

const char* check_code(std::string_view check) {
  constexpr std::array known{std::pair{"memcheck", codes::gpu_memcheck}, std::pair{"initcheck", codes::gpu_initcheck},
                             std::pair{"racecheck", codes::gpu_racecheck}, std::pair{"synccheck", codes::gpu_synccheck},
                             std::pair{"fault", codes::gpu_fault}};
  for (const auto& [name, code] : known) {
    if (check == name) return code;
  }
  return codes::gpu_finding;
}

VirtualFindings virtual_findings(const std::vector<LaunchReport>& launches) {
  VirtualFindings found;
  std::set<std::pair<std::string, std::string>> seen;  // what and where: threads differ from launch to launch
  for (const LaunchReport& launch : launches) {
    if (!launch.fault.empty() && seen.emplace("fault", launch.fault).second) {
      found.findings.push_back({.severity = Severity::error, .group = "fault", .what = launch.fault});
      found.faults.push_back(launch.fault);
    }
    for (const ReportedFinding& finding : launch.findings) {
      const std::string where = finding.at ? finding.at->place() : "";
      if (!seen.emplace(finding.check + finding.message, where).second) continue;
      found.findings.push_back({.severity = Severity::error,
                                .group = finding.check,
                                .what = describe(finding),
                                .where = where,
                                .fix = finding.advice});
      found.as_reported.push_back(finding.json);
      if (found.first.empty()) {
        found.first = fmt::format("{}: {}{}", finding.check, finding.message, where.empty() ? "" : " at " + where);
      }
    }
  }
  for (Finding& finding : found.findings) finding.code = check_code(finding.group);
  return found;
}

}  // namespace flashmoe::workflow
