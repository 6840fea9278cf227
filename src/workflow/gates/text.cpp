// A gate run for people.
#include <fmt/format.h>

#include "workflow/gates/gates.hpp"

namespace flashmoe::workflow {
namespace {

Severity severity_of(const GateResult& result) {
  if (result.outcome == Outcome::holds) return Severity::ok;
  return result.outcome == Outcome::inconclusive ? Severity::warning : Severity::error;
}

// Findings that are fine are one line together; the others are shown whole.
void add_findings(std::string& out, const GateResult& result, bool colour) {
  const Gate* gate = find_gate(result.gate);
  for (const Finding& finding : result.findings) {
    if (finding.severity == Severity::ok && (gate == nullptr || !gate->shows_what_is_ok)) continue;
    out += fmt::format("    {} {}: {}\n", mark_of(finding.severity, colour), finding.group, finding.what);
    if (!finding.where.empty()) out += fmt::format("      at  {}\n", finding.where);
    if (!finding.fix.empty()) out += fmt::format("      fix {}\n", finding.fix);
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
    out += fmt::format("  {} {:<12} {} ({:.1f} s): {}\n", mark_of(severity_of(result), colour), result.gate,
                       name_of(result.outcome), result.seconds, result.summary);
    add_findings(out, result, colour);
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
  return out + fmt::format("{} {} in {:.1f} s{}\n", run.project, name_of(run.outcome), run.seconds,
                           id.empty() ? "" : fmt::format(", record {}", id));
}

}  // namespace flashmoe::workflow
