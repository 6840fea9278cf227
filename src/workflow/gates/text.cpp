// A gate run for people: a line for each gate, what is wrong below it, and the answer at the end.
#include <fmt/format.h>

#include <algorithm>

#include "support/text.hpp"
#include "workflow/gates/gates.hpp"
#include "workflow/gates/ladder.hpp"

namespace flashmoe::workflow {
namespace {

Severity severity_of(const GateResult& result) {
  if (result.outcome == Outcome::holds) return Severity::ok;
  return result.outcome == Outcome::inconclusive ? Severity::warning : Severity::error;
}

bool is_shown(const Finding& finding, const GateResult& result) {
  const Gate* gate = find_gate(result.gate);
  return finding.severity != Severity::ok || (gate != nullptr && gate->shows_what_is_ok);
}

// The summary of a gate is for lists; where its findings are shown it would say the same again.
bool findings_say_it(const GateResult& result) {
  return std::any_of(result.findings.begin(), result.findings.end(), [&](const Finding& finding) {
    const bool is_fine = finding.severity == Severity::ok;
    const bool decides = is_fine == (result.outcome == Outcome::holds) && finding.code == result.code;
    return is_shown(finding, result) && (decides || finding.what.starts_with(result.summary));
  });
}

// Findings that are fine are one line together; the others are shown whole.
void add_findings(std::string& out, const GateResult& result, const std::vector<double>& ladder, bool colour) {
  const auto* measured = std::get_if<PerformanceFacts>(&result.facts);
  for (const Finding& finding : result.findings) {
    if (!is_shown(finding, result)) continue;
    out += fmt::format("    {} {}: {}\n", mark_of(finding.severity, colour), finding.group, finding.what);
    if (!finding.where.empty()) out += fmt::format("      at  {}\n", finding.where);
    if (!finding.fix.empty()) out += fmt::format("      fix {}\n", finding.fix);
    const MeasuredWorkload* one = measured == nullptr ? nullptr : find_named(measured->workloads, finding.group);
    if (one == nullptr || !one->speed) continue;
    for (const std::string& line : ladder_lines(ladder, one->speed->ratio)) out += fmt::format("      {}\n", line);
  }
}

}  // namespace

std::string report_text(const GateRun& run, bool colour) {
  std::string out = fmt::format("{} on {}\n", run.project, run.device);
  for (const GateResult& result : run.gates) {
    if (result.not_run) {
      out += fmt::format("  - {:<12} {}\n", result.gate, result.summary);
      continue;
    }
    out += fmt::format("  {} {:<12} {} ({:.1f} s){}\n", mark_of(severity_of(result), colour), result.gate,
                       name_of(result.outcome), result.seconds, findings_say_it(result) ? "" : ": " + result.summary);
    add_findings(out, result, run.ladder, colour);
  }
  if (!run.record_problem.what.empty()) {
    out += fmt::format("  ! {}\n      fix {}\n", run.record_problem.what, run.record_problem.fix);
  }
  if (run.record.evidence) {
    const Evidence& evidence = *run.record.evidence;
    out += fmt::format("  evidence       {}{}\n", text_of(evidence),
                       evidence.confinement.empty() ? "" : "; " + evidence.confinement);
  }
  const std::string& id = run.record.id;
  const std::string answer = fmt::format("{} {} in {:.1f} s{}", run.project, name_of(run.outcome), run.seconds,
                                         id.empty() ? "" : fmt::format(", record {}", id));
  return out + bold(answer + (run.next.empty() ? "" : "; next: " + run.next), colour) + "\n";
}

}  // namespace flashmoe::workflow
