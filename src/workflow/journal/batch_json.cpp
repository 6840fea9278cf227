// The JSON of records of a search that several processes share.
#include "workflow/journal/bodies.hpp"

namespace flashmoe::workflow::journal_json {

template <class Io>
void describe(Io& io, Of<BatchCandidate> auto& candidate) {
  io("commit", candidate.commit);
  io("hypothesis", candidate.hypothesis);
  io("files", candidate.files);
}

template <class Io>
void describe(Io& io, Of<BatchRecord> auto& record) {
  io("parent", record.parent);
  io("seed", record.seed);
  io("candidates", record.candidates);
  io("summary", record.summary);
}

template <class Io>
void describe(Io& io, Of<CountRecord> auto& record) {
  io("candidate", record.candidate);
  io("hypothesis", record.hypothesis);
  io("seed", record.seed);
  io("cycles", record.cycles);
  io("predicted", record.predicted);
  io("counters", record.counters);
  io("summary", record.summary);
}

void write_body(Json& to, const BatchRecord& body) {
  write_fields(to, body);
}
void read_body(const Json& from, BatchRecord& body) {
  read_fields(from, body);
}
void write_body(Json& to, const CountRecord& body) {
  write_fields(to, body);
}
void read_body(const Json& from, CountRecord& body) {
  read_fields(from, body);
}

}  // namespace flashmoe::workflow::journal_json
