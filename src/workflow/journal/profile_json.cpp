// The JSON of records of profiles.
#include "workflow/journal/bodies.hpp"

namespace flashmoe::workflow::journal_json {

template <class Io>
void describe(Io& io, Of<ProfileRecord> auto& record) {
  io("summary", record.summary);
  io.if_any("cost_per_hour", record.cost_per_hour);
  io("threads", record.threads);
  io.if_any("point", record.point);
  io("profile", record.profile);
}

void write_body(Json& to, const ProfileRecord& body) {
  write_fields(to, body);
}
void read_body(const Json& from, ProfileRecord& body) {
  read_fields(from, body);
}

}  // namespace flashmoe::workflow::journal_json
