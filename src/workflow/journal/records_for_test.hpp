// Tests only: records as a journal would hold them.
#pragma once

#include <string>

#include "support/json_text.hpp"
#include "workflow/journal/record_json.hpp"

namespace flashmoe::workflow {

[[nodiscard]] inline bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

[[nodiscard]] inline Record with_line(Record record) {
  record.line = one_line(complete_json(record));
  return record;
}

[[nodiscard]] inline Record record_for_test(const std::string& id, const std::string& verdict) {
  Record record;
  record.id = id;
  record.time = "2026-11-15T05:00:00.000000Z";
  record.run = "tuesday";
  record.project = "softmax";
  record.commit = "0123456789abcdef0123456789abcdef01234567";
  record.dirty = false;
  record.verdict = verdict;
  return record;
}

[[nodiscard]] inline Record compare_record(const std::string& id, const std::string& verdict, double gain) {
  Record record = record_for_test(id, verdict);
  record.kind = CompareRecord::kind;
  record.seconds = 30;
  record.cost = {.machine = 0.01, .agent = 0.1, .total = 0.11};
  record.body = CompareRecord{.note = "wider | loads",
                              .base = VersionRecord{.name = "HEAD"},
                              .candidate = VersionRecord{.name = "."},
                              .workload = "target",
                              .recipe = Recipe{.argv = {"compare"}},
                              .gain = Gain{.mean = gain, .lower = gain - 0.01},
                              .pairs_used = 7,
                              .samples = {PairSample{.log_ratio = gain}}};
  return with_line(record);
}

[[nodiscard]] inline Record gate_record(const std::string& id, double speedup, Outcome outcome) {
  Record record = record_for_test(id, name_of(outcome));
  record.kind = GateRecord::kind;
  record.seconds = 12;
  record.cost = {.machine = 0.02, .agent = 0.2, .total = 0.22};
  GateResult build{.gate = BuildFacts::gate, .outcome = Outcome::holds, .summary = "builds"};
  GateResult performance{.gate = PerformanceFacts::gate, .outcome = outcome, .summary = "0.9x"};
  performance.findings = {{.severity = Severity::error, .what = "slow", .fix = "profile it"}};
  MeasuredWorkload target;
  target.speed = SpeedFacts{.ratio = {.mean = speedup, .lower = speedup - 0.05}};
  performance.facts = PerformanceFacts{.workloads = {{"target", target}}};
  record.body = GateRecord{.gates = {build, performance}};
  return with_line(record);
}

}  // namespace flashmoe::workflow
