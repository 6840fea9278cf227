#include <fmt/format.h>

#include "workflow/gates/gates.hpp"

namespace flashmoe::workflow {
namespace {

struct Mark {
  const char* text;
  const char* colour;
};

Mark mark_of(Severity severity) {
  switch (severity) {
    case Severity::ok:
      return {"✓", "32"};
    case Severity::warning:
      return {"!", "33"};
    case Severity::error:
      return {"✗", "31"};
  }
  return {"?", "0"};
}

std::string painted(const std::string& text, const char* colour, bool on) {
  return on ? fmt::format("\033[{}m{}\033[0m", colour, text) : text;
}

Severity severity_of(const GateResult& gate) {
  if (gate.outcome == Outcome::holds) return Severity::ok;
  return gate.outcome == Outcome::inconclusive ? Severity::warning : Severity::error;
}

// Findings that are fine are one line together; the others are shown whole.
void add_findings(std::string& out, const GateResult& gate, bool colour) {
  for (const Finding& finding : gate.findings) {
    if (finding.severity == Severity::ok && gate.gate != "performance") continue;
    const Mark mark = mark_of(finding.severity);
    out += fmt::format("    {} {}: {}\n", painted(mark.text, mark.colour, colour), finding.group, finding.what);
    if (!finding.where.empty()) out += fmt::format("      at  {}\n", finding.where);
    if (!finding.fix.empty()) out += fmt::format("      fix {}\n", finding.fix);
  }
}

}  // namespace

std::string report_text(const GateRun& run, bool colour) {
  std::string out = fmt::format("{} on {}\n", run.project, run.device);
  for (const GateResult& gate : run.gates) {
    if (gate.data.contains("not_run")) {
      out += fmt::format("  - {:<12} {}\n", gate.gate, gate.summary);
      continue;
    }
    const Mark mark = mark_of(severity_of(gate));
    out += fmt::format("  {} {:<12} {} ({:.1f} s): {}\n", painted(mark.text, mark.colour, colour), gate.gate,
                       name_of(gate.outcome), gate.seconds, gate.summary);
    add_findings(out, gate, colour);
  }
  if (!run.record_problem.what.empty()) {
    out += fmt::format("  ! {}\n      fix {}\n", run.record_problem.what, run.record_problem.fix);
  }
  const std::string id = run.record.value("id", "");
  out += fmt::format("{} {} in {:.1f} s{}\n", run.project, name_of(run.outcome), run.seconds,
                     id.empty() ? "" : fmt::format(", record {}", id));
  return out;
}

Json to_json(const GateRun& run) {
  Json json = run.record;
  json["outcome"] = name_of(run.outcome);
  json["exit_code"] = exit_code(run.outcome);
  if (!run.record_problem.what.empty()) json["record_problem"] = run.record_problem.what;
  return json;
}

}  // namespace flashmoe::workflow
