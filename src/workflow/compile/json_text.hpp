// A text from JSON of unknown origin: empty when it is not there or is something else.
#pragma once

#include <string>

#include "support/json.hpp"

namespace flashmoe::workflow {

[[nodiscard]] inline std::string text_in(const Json& json, const char* key) {
  if (!json.is_object()) return {};
  const auto found = json.find(key);
  return found != json.end() && found->is_string() ? found->get<std::string>() : std::string();
}

[[nodiscard]] inline int number_in(const Json& json, const char* key) {
  if (!json.is_object()) return 0;
  const auto found = json.find(key);
  return found != json.end() && found->is_number_integer() ? found->get<int>() : 0;
}

}  // namespace flashmoe::workflow
