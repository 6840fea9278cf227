// What every answer in JSON has in common, and how one is made short.
#pragma once

#include <cstddef>
#include <string>

#include "workflow/journal/json.hpp"

namespace flashmoe::workflow {

// Of the shape of all answers; docs/cudadent.answers.schema.json is this one.
inline constexpr int answer_schema_version = 1;
// --json=short is never longer, its newline included.
inline constexpr std::size_t most_short_bytes = 4096;

struct Answer {
  std::string command{};  // "gate"
  int exit_code = 0;      // the process's own
  std::string code{};     // why it does not hold (codes.def); empty: it does
  std::string next{};     // the exact command to type
  bool is_short = false;
};

// The answer's own fields, then the body's.
[[nodiscard]] std::string written(const Answer& answer, const Json& body);

// The answer in at most so many bytes on one line: long texts are cut first, then the ends of lists, then whole fields
// from behind, since what matters most stands first. "left_out" counts what lists lost.
void shorten(Json& answer, std::size_t most_bytes);

// The fields of these names that are there, in this order.
[[nodiscard]] Json picked(const Json& from, std::initializer_list<const char*> keys);

}  // namespace flashmoe::workflow
