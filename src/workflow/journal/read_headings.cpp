#include "workflow/journal/read_headings.hpp"

#include <optional>
#include <utility>

#include "support/json_fields.hpp"
#include "support/json_text.hpp"
#include "workflow/journal/lines_as_records.hpp"
#include "workflow/journal/record.hpp"
#include "workflow/journal/record_json.hpp"

namespace flashmoe::workflow {

std::optional<Record> record_in(std::string_view line) {
  const Json json = bounded_json(line);
  const Json* version = field_in(json, "version");
  const bool reads = version != nullptr && version->is_number_integer() && json.contains("id") &&
                     json["id"].is_string() && json.contains("kind") && json["kind"].is_string();
  if (!reads) return std::nullopt;
  return record_from(json, std::string(line));  // byte for byte: its hash is checked
}

HeadingsRead read_headings(const FileEnd& end) {
  HeadingsRead read;
  for (auto& made : of_each_line(lines_in(end), [&end](std::string_view line) {
         const auto record = record_in(line);
         std::optional<Heading> heading;
         if (!record) return heading;
         heading = heading_of(*record);
         heading->offset = end.offset + static_cast<std::uint64_t>(line.data() - end.text.data());
         return heading;
       })) {
    if (made) read.headings.push_back(std::move(*made));
    if (!made) ++read.damaged;
  }
  return read;
}

}  // namespace flashmoe::workflow
