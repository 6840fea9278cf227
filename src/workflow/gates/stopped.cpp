#include "workflow/gates/stopped.hpp"

#include <csignal>

#include "support/process.hpp"
#include "workflow/verdict/codes.hpp"

namespace flashmoe::workflow {

void mark_stopped(GateResult& result) {
  const bool preempted = interrupt_signal() == SIGTERM || interrupt_signal() == SIGHUP;
  result.outcome = Outcome::inconclusive;
  result.code = preempted ? codes::preempted : codes::interrupted;
  result.summary = preempted ? "preempted: the machine asked to stop" : "interrupted";
  result.stopped = preempted ? "preempted" : "interrupted";
  result.findings.push_back({.severity = Severity::warning,
                             .group = "machine",
                             .what = result.summary,
                             .fix = "run the same command again: what was built is kept",
                             .code = result.code});
}

}  // namespace flashmoe::workflow
