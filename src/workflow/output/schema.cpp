// The table of keys as JSON Schema (draft 2020-12), for editors and validators.
#include "support/json_text.hpp"
#include "workflow/output/output.hpp"
#include "workflow/project/keys.hpp"
#include "workflow/project/patterns.hpp"

namespace flashmoe::workflow {
namespace {

using T = KeyType;
constexpr double inf = std::numeric_limits<double>::infinity();

Json schema_of(const KeyNode& node);

Json with_limits(Json schema, const KeySpec& spec) {
  if (spec.min > -inf) schema["minimum"] = spec.min;
  if (spec.max < inf) schema["maximum"] = spec.max;
  if (!spec.allowed.empty()) {
    schema["enum"] = Json::array();
    for (const auto& allowed : spec.allowed) schema["enum"].push_back(std::string(allowed));
  }
  return schema;
}

Json list_of_items(Json items) {
  return {{"type", "array"}, {"items", std::move(items)}};
}

Json table_of(const KeyNode& node) {
  Json schema{{"type", "object"}};
  if (const KeyNode* any = node.any_name()) {
    schema["propertyNames"] = {{"pattern", name_pattern}};
    schema["additionalProperties"] = schema_of(*any);
    if (node.spec->required && node.name != "*") schema["minProperties"] = 1;
    return schema;
  }
  schema["properties"] = Json::object();
  Json required = Json::array();
  for (const KeyNode& child : node.children) {
    schema["properties"][child.name] = schema_of(child);
    if (child.spec->required) required.push_back(child.name);
  }
  if (!required.empty()) schema["required"] = std::move(required);
  schema["additionalProperties"] = false;
  return schema;
}

Json expression_schema() {
  return {{"type", Json::array({"string", "integer"})}};
}

Json value_of(const KeyNode& node) {
  const KeySpec& spec = *node.spec;
  switch (spec.type) {
    case T::group:
    case T::named:
      return table_of(node);
    case T::group_list: {
      Json schema = list_of_items(table_of(*node.element()));
      if (spec.required) schema["minItems"] = 1;
      return schema;
    }
    case T::text:
      return with_limits({{"type", "string"}}, spec);
    case T::text_list:
      return list_of_items(with_limits({{"type", "string"}}, spec));
    case T::boolean:
      return {{"type", "boolean"}};
    case T::integer:
      return with_limits({{"type", "integer"}}, spec);
    case T::number:
      return with_limits({{"type", "number"}}, spec);
    case T::number_list:
      return list_of_items(with_limits({{"type", "number"}}, spec));
    case T::scalar:
      return {{"type", Json::array({"number", "boolean"})}};
    case T::scalar_list:
      return list_of_items({{"type", Json::array({"number", "boolean"})}});
    case T::expression:
      return expression_schema();
    case T::expressions:
      return {{"anyOf", Json::array({expression_schema(), list_of_items(expression_schema())})}};
    case T::callable:
      return {{"type", "string"}, {"pattern", callable_pattern}};
    case T::tensor:
      return {{"type", "string"}, {"pattern", tensor_pattern}};
  }
  return {};
}

// The default is TOML text; the ones in the table are JSON as well.
Json schema_of(const KeyNode& node) {
  const KeySpec& spec = *node.spec;
  const bool is_table = spec.type == T::group || spec.type == T::named || spec.type == T::group_list;
  Json schema = value_of(node);
  if (!is_table && !node.children.empty()) schema = {{"anyOf", Json::array({schema, table_of(node)})}};
  Json described = Json::object();
  if (!spec.description.empty()) described["description"] = std::string(spec.description);
  described.update(schema);
  if (!spec.default_text.empty()) described["default"] = parse_json(spec.default_text);
  return described;
}

}  // namespace

std::string schema_json() {
  Json schema{{"$schema", "https://json-schema.org/draft/2020-12/schema"}, {"title", "cudadent.toml"}};
  schema.update(schema_of(key_tree()));
  return indented(schema);
}

}  // namespace flashmoe::workflow
