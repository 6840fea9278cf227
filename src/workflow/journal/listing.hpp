// What people read off records: one line each, and two side by side. Everything is JSON first; the text is made of it,
// so that --json says the same.
#pragma once

#include <string>

#include "support/json.hpp"
#include "support/result.hpp"

namespace flashmoe::workflow {

// "+5.21 % [+3.10 %, +7.40 %] softmax: HEAD~1 -> ." for a comparison, the gates and their outcomes for a gate run.
[[nodiscard]] std::string detail_of(const Json& record);
// A fixed-width line; `list_header` is the line above the first.
[[nodiscard]] std::string list_header();
[[nodiscard]] std::string list_line(const Json& record);

// {"a": id, "b": id, "same": count, "differs": [{"key", "a", "b", "ratio"}]}: every single value of the two records,
// samples and times of writing aside.
[[nodiscard]] Json side_by_side(const Json& a, const Json& b);
[[nodiscard]] std::string side_by_side_text(const Json& difference);

// A commit to come back to: what held, where, and the command that showed it. Refused for a record that does not hold
// or that was made on a changed tree.
[[nodiscard]] Result<Json> known_good_of(const Json& record);

}  // namespace flashmoe::workflow
