// JSON as text. Bytes that are no UTF-8 (a compiler's message in another encoding) are replaced, never a throw.
#pragma once

#include <string>
#include <string_view>

#include "support/json.hpp"

namespace flashmoe {

[[nodiscard]] inline std::string one_line(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

[[nodiscard]] inline std::string indented(const Json& json) {
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

// Deeper than anything cudadent writes. A value is copied, printed and destroyed by recursion: a file may not choose
// how deep.
inline constexpr int deepest_json = 64;

// JSON of unknown origin; discarded when it is none, or nested too deeply.
[[nodiscard]] inline Json bounded_json(std::string_view text) {
  int depth = 0;
  bool in_string = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string) {
      if (c == '\\') ++i;
      if (c == '"') in_string = false;
    } else if (c == '"') {
      in_string = true;
    } else if (c == '[' || c == '{') {
      if (++depth > deepest_json) return Json(Json::value_t::discarded);
    } else if (c == ']' || c == '}') {
      --depth;
    }
  }
  return Json::parse(text, nullptr, false);
}

}  // namespace flashmoe
