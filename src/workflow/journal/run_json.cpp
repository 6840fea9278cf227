// The JSON of records of loops that ended.
#include "workflow/journal/bodies.hpp"

namespace flashmoe::workflow::journal_json {

template <class Io>
void describe(Io& io, Of<RunRecord> auto& record) {
  io("start", record.start);
  io("end", record.end);
  io("iterations", record.iterations);
  io("kept", record.kept);
  io("stopped", record.stopped);
  io.if_any("bottlenecks", record.bottlenecks);
  io.if_any("busiest_sm_at_start", record.busiest_sm_at_start);
  io.if_any("busiest_sm_at_end", record.busiest_sm_at_end);
  io.if_any("baseline", record.baseline);
  io.if_any("ratio_at_start", record.ratio_at_start);
  io.if_any("ratio_at_end", record.ratio_at_end);
  io.if_any("max_iterations", record.max_iterations);
  io.if_any("max_minutes", record.max_minutes);
  io.if_any("max_dollars", record.max_dollars);
  io("summary", record.summary);
}

void write_body(Json& to, const RunRecord& body) {
  write_fields(to, body);
}
void read_body(const Json& from, RunRecord& body) {
  read_fields(from, body);
}

}  // namespace flashmoe::workflow::journal_json
