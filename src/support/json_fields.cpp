#include "support/json_fields.hpp"

namespace flashmoe {

const Json* field_in(const Json& json, const char* key) {
  if (!json.is_object()) return nullptr;
  const auto found = json.find(key);
  return found != json.end() ? &*found : nullptr;
}

std::string text_in(const Json& json, const char* key) {
  const Json* found = field_in(json, key);
  return found != nullptr && found->is_string() ? found->get<std::string>() : std::string();
}

double number_in(const Json& json, const char* key) {
  const Json* found = field_in(json, key);
  return found != nullptr && found->is_number() ? found->get<double>() : 0;
}

int integer_in(const Json& json, const char* key) {
  const Json* found = field_in(json, key);
  return found != nullptr && found->is_number_integer() ? found->get<int>() : 0;
}

bool flag_in(const Json& json, const char* key) {
  const Json* found = field_in(json, key);
  return found != nullptr && found->is_boolean() && found->get<bool>();
}

const Json& list_in(const Json& json, const char* key) {
  static const Json none = Json::array();
  const Json* found = field_in(json, key);
  return found != nullptr && found->is_array() ? *found : none;
}

}  // namespace flashmoe
