// Whole records as JSON.
#pragma once

#include "workflow/journal/json.hpp"
#include "workflow/journal/record.hpp"

namespace flashmoe::workflow {

inline constexpr int record_version = 1;

// Head and body as the file has them, but for the id, which is made of this.
[[nodiscard]] Json complete_json(const Record& record);
// Lenient: what is missing stays as a new record has it.
[[nodiscard]] Record record_from(const Json& json);
// The same of a line that it was parsed from.
[[nodiscard]] Record record_from(const Json& json, std::string line);

}  // namespace flashmoe::workflow
