// Reading records that somebody may have edited: a field that is missing or of another type is empty, never a throw.
#pragma once

#include <fmt/format.h>

#include <string>

#include "support/json.hpp"

namespace flashmoe::workflow {

[[nodiscard]] inline Json field(const Json& object, const char* key) {
  return object.is_object() ? object.value(key, Json()) : Json();
}

[[nodiscard]] inline std::string text_of(const Json& value) {
  return value.is_string() ? value.get<std::string>() : std::string();
}
[[nodiscard]] inline std::string text_of(const Json& object, const char* key) {
  return text_of(field(object, key));
}

[[nodiscard]] inline double number_of(const Json& value, double otherwise = 0) {
  return value.is_number() ? value.get<double>() : otherwise;
}
[[nodiscard]] inline double number_of(const Json& object, const char* key) {
  return number_of(field(object, key));
}

// A gain as people read it; a bound that is not finite has no number in a record.
[[nodiscard]] inline std::string gain_text(const Json& gain) {
  return gain.is_number() ? fmt::format("{:+.2f} %", 100 * gain.get<double>()) : "unbounded";
}

}  // namespace flashmoe::workflow
