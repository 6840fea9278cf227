#include "support/json_text.hpp"

#include <fstream>

namespace flashmoe {
namespace {

// Deeper than anything cudadent writes. A value is copied, printed and destroyed by recursion: a file may not choose
// how deep.
constexpr int deepest_json = 64;

bool is_too_deep(std::string_view text) {
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
      if (++depth > deepest_json) return true;
    } else if (c == ']' || c == '}') {
      --depth;
    }
  }
  return false;
}

}  // namespace

Json parse_json(std::string_view text) {
  return Json::parse(text, nullptr, false);
}

Json parse_json_file(const std::string& path) {
  std::ifstream file(path);
  return Json::parse(file, nullptr, false);
}

Json bounded_json(std::string_view text) {
  return is_too_deep(text) ? Json(Json::value_t::discarded) : parse_json(text);
}

std::string one_line(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::string indented(const Json& json) {
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace flashmoe
