// Reading JSON of unknown origin: a field that is missing or of another type is empty, never a throw.
#pragma once

#include <string>

#include "support/json.hpp"

namespace flashmoe {

// nullptr: `json` is no object, or has no such field.
[[nodiscard]] const Json* field_in(const Json& json, const char* key);
[[nodiscard]] std::string text_in(const Json& json, const char* key);
[[nodiscard]] double number_in(const Json& json, const char* key);
[[nodiscard]] int integer_in(const Json& json, const char* key);
[[nodiscard]] bool flag_in(const Json& json, const char* key);
// The elements of an array; an empty array when there is none.
[[nodiscard]] const Json& list_in(const Json& json, const char* key);

}  // namespace flashmoe
