#include "workflow/gpu/findings.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <map>
#include <set>
#include <utility>

#include "workflow/verdict/codes.hpp"

namespace flashmoe::workflow {
namespace {

// 4096 -> "4,096".
std::string grouped(std::uint64_t value) {
  std::string text = std::to_string(value);
  for (auto at = static_cast<std::ptrdiff_t>(text.size()) - 3; at > 0; at -= 3)
    text.insert(static_cast<std::size_t>(at), 1, ',');
  return text;
}

// The project's own name of the buffer, empty when it is not an argument's.
std::string buffer_name(const ReportedFinding& finding, const std::vector<std::string>* arguments) {
  if (!finding.buffer || !finding.buffer->argument || arguments == nullptr) return {};
  return *finding.buffer->argument < arguments->size() ? (*arguments)[*finding.buffer->argument] : "";
}

// The message, with that name in the place of the driver's.
std::string named_message(const ReportedFinding& finding, const std::string& buffer) {
  std::string text = finding.message;
  if (buffer.empty()) return text;
  if (const std::size_t at = text.find(finding.buffer->what); at != std::string::npos)
    text.replace(at, finding.buffer->what.size(), "'" + buffer + "'");
  return text;
}

// What and who, and the other party of a race.
std::string describe(const ReportedFinding& finding, const std::string& message, const std::string& buffer) {
  std::string text = message;
  if (!buffer.empty()) {
    const std::int64_t offset = finding.buffer->offset;
    text += fmt::format(", at {} {} {} bytes", buffer, offset < 0 ? '-' : '+',
                        grouped(static_cast<std::uint64_t>(std::abs(offset))));
  }
  if (finding.at) text += fmt::format(" ({}, {})", finding.kernel, finding.at->runner());
  if (finding.other) {
    text +=
        fmt::format("; against {} at {} ({})", finding.other->what, finding.other->place(), finding.other->runner());
  }
  return text;
}

constexpr std::array causes{"access", "order", "lanes", "value", "standstill"};

// A finding with the launch it is of.
struct Told {
  const LaunchReport* launch;
  const ReportedFinding* finding;
  const std::vector<std::string>* arguments;
  [[nodiscard]] auto rank() const { return std::find(causes.begin(), causes.end(), finding->cause); }
};

// A finding that the gate's own schedule did not bring.
std::string schedule_text(const LaunchReport& launch) {
  return launch.schedule == "adversarial" ? fmt::format("; under schedule adversarial, seed {}", launch.seed) : "";
}

std::vector<Told> by_cause(const std::vector<LaunchReport>& launches, const ArgumentNames& arguments) {
  std::vector<Told> all;
  for (const LaunchReport& launch : launches) {
    const auto known = arguments.find(launch.kernel);
    for (const ReportedFinding& finding : launch.findings)
      all.push_back({&launch, &finding, known != arguments.end() ? &known->second : nullptr});
  }
  std::stable_sort(all.begin(), all.end(), [](const Told& a, const Told& b) { return a.rank() < b.rank(); });
  return all;
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
         .what = fmt::format("{}: {:.0f} of {} CTAs do work, on {:.0f} of {:.0f} SMs: {:.3f} waves, not {:.2f}",
                             launch->name, launch->working_ctas, launch->ctas(), launch->working_sms, launch->sms,
                             launch->waves, launch->waves_of_grid),
         .where = {},
         .fix = "spread the work over the grid, or launch the CTAs that do it and no others"});
  }
  return found;
}

}  // namespace

const char* check_code(std::string_view check) {
  constexpr std::array known{std::pair{"memcheck", codes::gpu_memcheck},   std::pair{"initcheck", codes::gpu_initcheck},
                             std::pair{"racecheck", codes::gpu_racecheck}, std::pair{"synccheck", codes::gpu_synccheck},
                             std::pair{"waves", codes::gpu_idle_ctas},     std::pair{"fault", codes::gpu_fault}};
  for (const auto& [name, code] : known) {
    if (check == name) return code;
  }
  return codes::gpu_finding;
}

VirtualFindings virtual_findings(const std::vector<LaunchReport>& launches, const ArgumentNames& arguments) {
  VirtualFindings found;
  std::set<std::pair<std::string, std::string>> seen;  // what and where: threads differ from launch to launch
  for (const Told& told : by_cause(launches, arguments)) {
    const ReportedFinding& finding = *told.finding;
    const std::string where = finding.at ? finding.at->place() : "";
    const std::string buffer = buffer_name(finding, told.arguments);
    const std::string message = named_message(finding, buffer);
    if (!seen.emplace(finding.check + message, where).second) continue;
    if (finding.cause == "leak") {
      found.leaks.push_back(
          {.severity = Severity::warning, .group = finding.check, .what = message, .fix = finding.advice});
      continue;
    }
    found.findings.push_back({.severity = Severity::error,
                              .group = finding.check,
                              .what = describe(finding, message, buffer) + schedule_text(*told.launch),
                              .where = where,
                              .fix = finding.advice});
    found.messages.push_back(message);
    found.as_reported.push_back(finding.json);
    if (found.first.empty())
      found.first = fmt::format("{}: {}{}", finding.check, message, where.empty() ? "" : " at " + where);
  }
  for (const LaunchReport& launch : launches) {
    if (launch.fault.empty() || !seen.emplace("fault", launch.fault).second) continue;
    found.faults.push_back(launch.fault);
    const bool is_told = std::any_of(launch.findings.begin(), launch.findings.end(),
                                     [](const ReportedFinding& finding) { return finding.cause == causes.back(); });
    if (is_told) continue;
    found.findings.push_back({.severity = Severity::error, .group = "fault", .what = launch.fault});
    found.messages.push_back(launch.fault);
  }
  found.warnings = idle_ctas(launches);
  for (auto* told : {&found.findings, &found.warnings, &found.leaks}) {
    for (Finding& finding : *told) finding.code = check_code(finding.group);
  }
  return found;
}

std::string findings_text(const std::vector<Finding>& findings) {
  std::string text;
  for (const Finding& finding : findings) {
    text += fmt::format("{}: {}\n", finding.group, finding.what);
    if (!finding.where.empty()) text += "  at " + finding.where + "\n";
    text += "  " + finding.fix + "\n";
  }
  return text;
}

}  // namespace flashmoe::workflow
