#include "workflow/journal/heading.hpp"

#include "workflow/journal/listing.hpp"
#include "workflow/journal/record.hpp"

namespace flashmoe::workflow {

Heading heading_of(const Record& record) {
  return {.length = record.line.size(),
          .sha256 = content_sha256(record.line),
          .id = record.id,
          .chain = record.chain,
          .kind = record.kind,
          .time = record.time,
          .run = record.run,
          .project = record.project,
          .device = record.device,
          .verdict = record.verdict,
          .commit = record.commit,
          .dirty = record.dirty.value_or(false),
          .seconds = record.seconds,
          .dollars = record.cost.total,
          .detail = detail_of(record),
          .standing = record.standing,
          .standing_why = record.standing_why};
}

bool is_usable(const Heading& heading) {
  return is_usable(heading.standing, heading.standing_why);
}

}  // namespace flashmoe::workflow
