// JSON from text and as text. The library's parser and printer are compiled in json_text.cpp alone: in every file that
// reads or writes JSON they would be half of its compile.
#pragma once

#include <string>
#include <string_view>

#include "support/json.hpp"

namespace flashmoe {

// What is no JSON is `is_discarded()`, and so neither object nor array; never a throw.
[[nodiscard]] Json parse_json(std::string_view text);
// The same of a file; one that does not read is no JSON.
[[nodiscard]] Json parse_json_file(const std::string& path);

// Bytes that are no UTF-8 (a compiler's message in another encoding) are replaced, never a throw.
[[nodiscard]] std::string one_line(const Json& json);
// With a newline at the end.
[[nodiscard]] std::string indented(const Json& json);

// JSON of unknown origin; discarded when it is none, or nested too deeply.
[[nodiscard]] Json bounded_json(std::string_view text);

}  // namespace flashmoe
