#include "workflow/report/status.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "support/text.hpp"
#include "workflow/gates/gate.hpp"
#include "workflow/gates/next.hpp"
#include "workflow/journal/heading.hpp"
#include "workflow/journal/journal.hpp"
#include "workflow/journal/listing.hpp"
#include "workflow/journal/record.hpp"

namespace flashmoe::workflow {
namespace {

// The gate that decided: the last one that ran and came to the run's verdict. One that only explains comes last.
const GateResult* deciding_gate(const GateRecord& run, Outcome verdict) {
  const GateResult* explanation = nullptr;
  for (auto result = run.gates.rbegin(); result != run.gates.rend(); ++result) {
    if (result->not_run || result->outcome != verdict) continue;
    const Gate* gate = find_gate(result->gate);
    if (gate == nullptr || gate->nothing_to_explain == nullptr) return &*result;
    explanation = &*result;
  }
  return explanation;
}

std::optional<SpeedFacts> speed_of(const GateRecord& run, const Project& project) {
  const Workload* target = target_workload(project);
  for (const GateResult& gate : run.gates) {
    const auto* measured = std::get_if<PerformanceFacts>(&gate.facts);
    if (measured == nullptr || target == nullptr) continue;
    if (const MeasuredWorkload* one = find_named(measured->workloads, target->name)) return one->speed;
  }
  return std::nullopt;
}

// No gate was left out on purpose, up to the one that takes the time; what only explains may be missing.
bool is_whole(const GateRecord& run) {
  const auto was_left_out = [](const GateResult& gate) { return gate.summary == "not run: not asked for"; };
  const auto takes_the_time = [](const GateResult& gate) { return gate.gate == PerformanceFacts::gate; };
  return std::none_of(run.gates.begin(), run.gates.end(), was_left_out) &&
         std::any_of(run.gates.begin(), run.gates.end(), takes_the_time);
}

DeviceStatus device_status(const Project& project, const Record& record, const GateRecord& run) {
  DeviceStatus status{.device = record.device,
                      .outcome = outcome_named(record.verdict).value_or(Outcome::could_not_run),
                      .summary = run.summary,
                      .id = record.id,
                      .time = record.time,
                      .commit = record.commit.value_or("").substr(0, 12) + (record.dirty.value_or(false) ? "+" : ""),
                      .speed = speed_of(run, project)};
  const GateResult* decided = deciding_gate(run, status.outcome);
  if (decided != nullptr && status.outcome != Outcome::holds) status.code = decided->code;
  status.whole = is_whole(run);
  status.next = next_command(project, {.device = record.device,
                                       .outcome = status.outcome,
                                       .code = status.code,
                                       .seed = run.seed.value_or(0),
                                       .is_whole = status.whole});
  return status;
}

Severity severity_of(Outcome outcome) {
  if (outcome == Outcome::holds) return Severity::ok;
  return outcome == Outcome::inconclusive ? Severity::warning : Severity::error;
}

}  // namespace

Result<StatusReport> status_of(const Project& project, const std::vector<Heading>& headings, const LoadRecord& load) {
  StatusReport report{.directory = project.directory, .project = project.name, .records = headings.size()};
  for (auto heading = headings.rbegin(); heading != headings.rend(); ++heading) {
    if (!is_usable(*heading)) continue;
    if (heading->kind == CompareRecord::kind && report.comparison.empty())
      report.comparison = heading->verdict + "  " + heading->detail;
    const bool is_known = std::any_of(report.devices.begin(), report.devices.end(),
                                      [&](const DeviceStatus& one) { return one.device == heading->device; });
    if (heading->kind != GateRecord::kind || is_known) continue;
    const auto record = load(*heading);
    if (!record) return record.error();
    if (const auto* run = record->as<GateRecord>()) report.devices.push_back(device_status(project, *record, *run));
  }
  report.next =
      report.devices.empty() ? "cudadent gate" + project_argument(project.directory) : report.devices.front().next;
  return report;
}

StatusReport status_of(const Project& project, const std::vector<Record>& records) {
  std::vector<Heading> headings;
  for (const Record& record : records) {
    headings.push_back(heading_of(record));
    headings.back().offset = headings.size() - 1;
  }
  auto report = status_of(project, headings, [&](const Heading& heading) { return records[heading.offset]; });
  return std::move(*report);
}

std::string outcome_of(const DeviceStatus& status) {
  const bool in_part = status.outcome == Outcome::holds && !status.whole;
  return std::string(name_of(status.outcome)) + (in_part ? " in part" : "");
}

StatusReport nothing_here(const std::string& directory) {
  return {.directory = directory, .next = "cudadent new"};
}

std::string status_text(const StatusReport& report, bool colour) {
  if (report.project.empty()) {
    return "There is no kernel project here (no cudadent.toml in " + printable(report.directory) +
           ").\n"
           "  cudadent new       a project that works, to begin with\n"
           "  cudadent doctor    is this machine fit for the work?\n"
           "  cudadent --help    all commands\n";
  }
  std::string text = fmt::format("{}: {} record{}\n", report.project, report.records, report.records == 1 ? "" : "s");
  for (const DeviceStatus& one : report.devices) {
    text += fmt::format("  {} {:<12} {:<13} {}  {:<13}  record {}\n", mark_of(severity_of(one.outcome), colour),
                        printable(one.device), outcome_of(one), printable(one.time.substr(0, 16)),
                        printable(one.commit.empty() ? "-" : one.commit), printable(one.id));
    if (one.speed) {
      text += fmt::format("      {:.2f}x the baseline [{:.2f}, {:.2f}]: {}\n", one.speed->ratio.mean,
                          one.speed->ratio.lower, one.speed->ratio.upper, printable(one.speed->rung));
    }
    if (one.outcome != Outcome::holds || !one.whole) text += fmt::format("      {}\n", printable(one.summary));
  }
  constexpr std::size_t most_problems = 3;
  for (std::size_t i = 0; i < std::min(most_problems, report.problems.size()); ++i)
    text += fmt::format("  {} journal: {}\n", mark_of(Severity::warning, colour), printable(report.problems[i]));
  if (report.problems.size() > most_problems)
    text += fmt::format("      and {} more: cudadent journal --check\n", report.problems.size() - most_problems);
  if (!report.comparison.empty()) text += "  last comparison: " + printable(report.comparison) + "\n";
  return text;
}

}  // namespace flashmoe::workflow
