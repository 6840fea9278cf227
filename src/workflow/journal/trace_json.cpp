// The JSON of records of imported evaluations.
#include "workflow/journal/bodies.hpp"

namespace flashmoe::workflow::journal_json {

template <class Io>
void describe(Io& io, Of<TraceRecord> auto& record) {
  io("format", record.format);
  io("definition", record.definition);
  io("solution", record.solution);
  io("hardware", record.hardware);
  io("trace", record.trace);
  io("summary", record.summary);
}

void write_body(Json& to, const TraceRecord& body) {
  write_fields(to, body);
}
void read_body(const Json& from, TraceRecord& body) {
  read_fields(from, body);
}

}  // namespace flashmoe::workflow::journal_json
