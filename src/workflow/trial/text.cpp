// A trial for people: the answer first, then what it stands on.
#include <fmt/format.h>

#include <algorithm>

#include "workflow/journal/listing.hpp"
#include "workflow/trial/trial.hpp"

namespace flashmoe::workflow {
namespace {

std::string listed(const std::vector<std::string>& files) {
  constexpr std::size_t most = 4;
  std::string text;
  for (std::size_t i = 0; i < std::min(most, files.size()); ++i) text += (i == 0 ? "" : ", ") + files[i];
  return files.size() > most ? fmt::format("{} and {} more", text, files.size() - most) : text;
}

std::string measured_text(const CompareRecord& compared, const Comparison& comparison) {
  std::string text;
  if (compared.gain)
    text += fmt::format("  gain        {} at {}\n", gain_text(*compared.gain), compared.workload.value_or(""));
  if (compared.policy)
    text += fmt::format("  needed      {:.2f} %, and a lower bound above 0 at alpha {:.4g}\n",
                        100 * compared.policy->min_gain, compared.policy->alpha);
  if (!comparison.pairs.empty())
    text += fmt::format("  time        {:.4g} us before, {:.4g} us after, per call (last of {} pairs)\n",
                        1e6 * comparison.pairs.back().base_seconds, 1e6 * comparison.pairs.back().candidate_seconds,
                        comparison.pairs.size());
  return text;
}

}  // namespace

std::string trial_text(const TrialReport& report) {
  const auto& iteration = std::get<IterationRecord>(report.record.body);
  std::string text =
      fmt::format("{} on {}: {} (+{} -{})\n", report.record.project, report.record.device,
                  listed(report.snapshot.files), report.snapshot.lines_added, report.snapshot.lines_removed);
  if (!iteration.hypothesis.empty()) text += fmt::format("  because     {}\n", iteration.hypothesis);
  for (const GateResult& gate : report.gates.gates) {
    if (gate.not_run) continue;
    text += fmt::format("  {:<11} {}: {}\n", gate.gate, name_of(gate.outcome), gate.summary);
    if (gate.outcome == Outcome::holds) continue;
    for (const Finding& finding : gate.findings) {
      if (finding.severity == Severity::ok) continue;
      text += fmt::format("    {}: {}\n", finding.group, finding.what);
      if (!finding.where.empty()) text += fmt::format("      at  {}\n", finding.where);
      if (!finding.fix.empty()) text += fmt::format("      fix {}\n", finding.fix);
    }
  }
  if (report.comparison) {
    const auto& compared = std::get<CompareRecord>(report.comparison->record.body);
    if (report.comparison->counters) {
      text += counters_text(*report.comparison->counters);
    } else {
      text += measured_text(compared, report.comparison->comparison);
    }
    if (!compared.problem.empty()) text += fmt::format("  why         {}\n", compared.problem);
    if (!compared.fix.empty()) text += fmt::format("  fix         {}\n", compared.fix);
    for (const std::string& note : report.comparison->notes) text += fmt::format("  note        {}\n", note);
  }
  for (const std::string& note : report.notes) text += fmt::format("  note        {}\n", note);
  if (report.record.evidence) text += fmt::format("  evidence    {}\n", text_of(*report.record.evidence));
  text += fmt::format("  record      {} ({:.1f} s); the edit is kept as commit {}\n", report.record.id,
                      report.record.seconds, report.snapshot.commit.substr(0, 12));
  return text;
}

}  // namespace flashmoe::workflow
