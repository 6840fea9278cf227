#include "workflow/gates/stopped.hpp"

#include <csignal>

#include "support/process.hpp"

namespace flashmoe::workflow {

void mark_stopped(GateResult& result) {
  const bool preempted = interrupt_signal() == SIGTERM || interrupt_signal() == SIGHUP;
  result.outcome = Outcome::could_not_run;
  result.summary = preempted ? "preempted: the machine asked to stop" : "interrupted";
  result.stopped = preempted ? "preempted" : "interrupted";
  result.findings.push_back({.severity = Severity::warning,
                             .group = "machine",
                             .what = result.summary,
                             .fix = "run the same command again: what was built is kept"});
}

}  // namespace flashmoe::workflow
