// The JSON of records of changes that were tried.
#include "workflow/journal/bodies.hpp"

namespace flashmoe::workflow::journal_json {

template <class Io>
void describe(Io& io, Of<IterationRecord> auto& record) {
  io.if_any("cost_per_hour", record.cost_per_hour);
  io("proposer", record.proposer);
  io("hypothesis", record.hypothesis);
  io.if_any("rule", record.rule);
  io.if_any("predicted", record.predicted);
  io.if_any("seen", record.seen);
  io("parent", record.parent);
  io("candidate", record.candidate);
  io("patch_sha256", record.patch_sha256);
  io("files", record.files);
  io("lines_added", record.lines_added);
  io("lines_removed", record.lines_removed);
  io("workload", record.workload);
  io.if_any("comparison", record.comparison);
  io.if_any("gain", record.gain);
  io.if_any("decision", record.decision);
  io.if_any("ground", record.ground);
  io("summary", record.summary);
  io.if_any("fix", record.fix);
}

void write_body(Json& to, const IterationRecord& body) {
  write_fields(to, body);
}
void read_body(const Json& from, IterationRecord& body) {
  read_fields(from, body);
}

}  // namespace flashmoe::workflow::journal_json
