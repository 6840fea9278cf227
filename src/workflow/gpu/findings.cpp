#include "workflow/gpu/findings.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <set>

#include "workflow/compile/json_text.hpp"
#include "workflow/runner/inputs.hpp"

namespace flashmoe::workflow {

ReportFile::ReportFile()
    : path_(
          (std::filesystem::temp_directory_path() / fmt::format("cudadent-vgpu-{}-{:x}.jsonl", getpid(), fresh_seed()))
              .string()) {}

ReportFile::~ReportFile() {
  std::error_code ignored;
  std::filesystem::remove(path_, ignored);
}

std::vector<Json> read_launches(const std::string& path) {
  std::vector<Json> launches;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    Json launch = Json::parse(line, nullptr, false);
    if (launch.is_object()) launches.push_back(std::move(launch));
  }
  return launches;
}

namespace {

// "kernel.cu:41", or the PTX line where the image has no line information.
std::string place_of(const Json& party) {
  if (party.contains("source_file")) {
    return fmt::format("{}:{}", text_in(party, "source_file"), number_in(party, "source_line"));
  }
  return fmt::format("PTX line {}: {}", number_in(party, "ptx_line"), text_in(party, "instruction"));
}

std::string thread_of(const Json& party) {
  const auto list = [&](const char* key) { return party.contains(key) ? party[key].dump() : std::string("?"); };
  return fmt::format("block {} thread {}", list("block"), list("thread"));
}

// One line what and who, and a second for the other party of a race.
std::string describe(const Json& finding) {
  std::string text = text_in(finding, "message");
  if (finding.contains("at")) text += fmt::format(" ({}, {})", text_in(finding, "kernel"), thread_of(finding["at"]));
  if (finding.contains("other")) {
    const Json& other = finding["other"];
    text += fmt::format("; against {} at {} ({})", text_in(other, "what"), place_of(other), thread_of(other));
  }
  return text;
}

}  // namespace

void add_virtual_findings(const std::string& path, GateResult& result) {
  std::set<std::pair<std::string, std::string>> seen;  // what and where: threads differ from launch to launch
  for (const Json& launch : read_launches(path)) {
    if (const std::string fault = text_in(launch, "fault"); !fault.empty() && seen.emplace("fault", fault).second) {
      result.findings.push_back({.severity = Severity::error, .group = "fault", .what = fault});
      result.data["virtual_faults"].push_back(fault);
    }
    if (!launch.contains("findings")) continue;
    for (const Json& finding : launch["findings"]) {
      const std::string where = finding.contains("at") ? place_of(finding["at"]) : "";
      const std::string check = text_in(finding, "check");
      if (!seen.emplace(check + text_in(finding, "message"), where).second) continue;
      result.findings.push_back({.severity = Severity::error,
                                 .group = check,
                                 .what = describe(finding),
                                 .where = where,
                                 .fix = text_in(finding, "advice")});
      result.data["virtual_findings"].push_back(finding);
      if (result.data["virtual_findings"].size() > 1) continue;
      // A wrong result or a fault came first and said so; the finding says why.
      const std::string first =
          fmt::format("{}: {}{}", check, text_in(finding, "message"), where.empty() ? "" : " at " + where);
      result.summary = result.outcome == Outcome::fails ? fmt::format("{} ({})", first, result.summary) : first;
      result.outcome = Outcome::fails;
    }
  }
}

}  // namespace flashmoe::workflow
