// The gates in their order: environment, build, correctness, performance, profile. One that could not run has failed;
// those behind it are not run, and say so; but what is slow is explained.
#pragma once

#include <string>
#include <vector>

#include "support/progress.hpp"
#include "workflow/gates/gate.hpp"
#include "workflow/gates/options.hpp"
#include "workflow/journal/record.hpp"
#include "workflow/project/project.hpp"
#include "workflow/verdict/gate_result.hpp"

namespace flashmoe::workflow {

struct GateRun {
  std::string project;
  std::string device;
  std::vector<GateResult> gates;
  Outcome outcome = Outcome::could_not_run;
  std::string summary;
  std::string code;            // why it does not hold (codes.def); empty when it does
  std::string next;            // the command to type
  std::vector<double> ladder;  // of the project
  Record record{};             // as written to the journal; without an id when it was not
  Finding record_problem{};    // why not
  double seconds = 0;
};

// A Progress for it has as many steps as there are gates.
[[nodiscard]] GateRun run_gates(const Project& project, const GateOptions& options, Progress& progress);
// The report for people; `colour` as may_colour says.
[[nodiscard]] std::string report_text(const GateRun& run, bool colour);
// What the process exits with. A verdict nobody can look up is degraded.
[[nodiscard]] int exit_code(const GateRun& run);
// For `git bisect run`: 0 good, 1 bad, 125 could not build or decide, 130 stop the bisection (interrupted).
[[nodiscard]] int bisect_code(const GateRun& run);

}  // namespace flashmoe::workflow
