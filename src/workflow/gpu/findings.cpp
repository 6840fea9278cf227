#include "workflow/gpu/findings.hpp"

#include <fmt/format.h>

#include <map>
#include <set>
#include <utility>

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

// CTAs that fill a machine on paper. Of each kernel the launch that executed most: small workloads may well leave CTAs
// without work.
std::vector<Finding> idle_ctas(const std::vector<LaunchReport>& launches) {
  std::map<std::string, const LaunchReport*> largest;
  for (const LaunchReport& launch : launches) {
    const LaunchReport*& known = largest[launch.kernel];
    if (known == nullptr || launch.instructions() > known->instructions()) known = &launch;
  }
  std::vector<Finding> found;
  for (const auto& [kernel, launch] : largest) {
    if (static_cast<double>(launch->ctas()) < launch->sms || launch->working_ctas >= launch->sms) continue;
    found.push_back(
        {.severity = Severity::warning,
         .group = "waves",
         .what = fmt::format("{}: {:.0f} of {} CTAs do work, on {:.0f} of {:.0f} SMs: {:.3f} waves, not {:.2f}", kernel,
                             launch->working_ctas, launch->ctas(), launch->working_sms, launch->sms, launch->waves,
                             launch->waves_of_grid),
         .where = {},
         .fix = "spread the work over the grid, or launch the CTAs that do it and no others"});
  }
  return found;
}

}  // namespace

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
  found.warnings = idle_ctas(launches);
  return found;
}

}  // namespace flashmoe::workflow
