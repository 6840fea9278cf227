#include "support/json_text.hpp"

#include <fstream>

namespace flashmoe {

Json parse_json(std::string_view text) {
  return Json::parse(text, nullptr, false);
}

Json parse_json_file(const std::string& path) {
  std::ifstream file(path);
  return Json::parse(file, nullptr, false);
}

std::string one_line(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::string indented(const Json& json) {
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace flashmoe
