// Reading JSON of unknown origin: a field that is missing or of another type is empty, never a throw.
#pragma once

#include <string>

#include "support/json.hpp"

namespace flashmoe {

// nullptr: `json` is no object, or has no such field.
[[nodiscard]] inline const Json* field_in(const Json& json, const char* key) {
  if (!json.is_object()) return nullptr;
  const auto found = json.find(key);
  return found != json.end() ? &*found : nullptr;
}

[[nodiscard]] inline std::string text_in(const Json& json, const char* key) {
  const Json* found = field_in(json, key);
  return found != nullptr && found->is_string() ? found->get<std::string>() : std::string();
}

[[nodiscard]] inline double number_in(const Json& json, const char* key) {
  const Json* found = field_in(json, key);
  return found != nullptr && found->is_number() ? found->get<double>() : 0;
}

[[nodiscard]] inline int integer_in(const Json& json, const char* key) {
  const Json* found = field_in(json, key);
  return found != nullptr && found->is_number_integer() ? found->get<int>() : 0;
}

[[nodiscard]] inline bool flag_in(const Json& json, const char* key) {
  const Json* found = field_in(json, key);
  return found != nullptr && found->is_boolean() && found->get<bool>();
}

// The elements of an array; an empty array when there is none.
[[nodiscard]] inline const Json& list_in(const Json& json, const char* key) {
  static const Json none = Json::array();
  const Json* found = field_in(json, key);
  return found != nullptr && found->is_array() ? *found : none;
}

}  // namespace flashmoe
