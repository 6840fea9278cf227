// What people read off records: one line each, and a commit to come back to.
#pragma once

#include <optional>
#include <string>

#include "support/result.hpp"

namespace flashmoe::workflow {

struct Gain;
struct Heading;
struct Record;

// "+5.21 % [+3.10 %, +7.40 %] softmax: HEAD~1 -> ." for a comparison, the gates and their outcomes for a gate run.
[[nodiscard]] std::string detail_of(const Record& record);
// A fixed-width line; `list_header` is the line above the first.
[[nodiscard]] std::string list_header();
[[nodiscard]] std::string list_line(const Heading& heading);
[[nodiscard]] std::string list_line(const Record& record);

// A gain as people read it: "+5.21 %"; one that is not finite is "unbounded".
[[nodiscard]] std::string gain_text(const std::optional<double>& gain);
// "+5.21 % [+3.10 %, +7.40 %]"
[[nodiscard]] std::string gain_text(const Gain& gain);

// A commit to come back to: what held, where, and the command that showed it. Refused for a record that does not hold
// or that was made on a changed tree.
[[nodiscard]] Result<Record> known_good_of(const Record& record);

}  // namespace flashmoe::workflow
