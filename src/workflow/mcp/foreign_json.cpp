#include "workflow/mcp/foreign_json.hpp"

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include "support/foreign_text.hpp"

namespace flashmoe::workflow::mcp {
namespace {

bool is_of_the_tool(std::string_view key) {
  constexpr std::array keys{"next", "verdict", "outcome", "command", "code", "kind", "standing", "time", "confinement"};
  return std::find(keys.begin(), keys.end(), key) != keys.end();
}

// A device, a file, a number: too little to tell anybody what to do.
bool is_a_name(std::string_view text) {
  constexpr std::size_t longest_name = 80;
  const auto fits = [](char c) { return c > ' ' && c <= '~' && c != '\\'; };
  return text.size() <= longest_name && std::all_of(text.begin(), text.end(), fits);
}

}  // namespace

void make_visible(Json& json, std::size_t most_bytes_each) {
  if (json.is_string()) json = visible(json.get_ref<const std::string&>(), most_bytes_each);
  if (json.is_array()) {
    for (Json& inner : json) make_visible(inner, most_bytes_each);
  }
  if (!json.is_object()) return;
  Json renamed = Json::object();
  for (auto& [key, value] : json.items()) {
    make_visible(value, most_bytes_each);
    renamed[visible(key, most_bytes_each)] = std::move(value);
  }
  json = std::move(renamed);
}

void quote_sentences(Json& json) {
  if (json.is_string()) {
    const auto& text = json.get_ref<const std::string&>();
    if (!is_a_name(text)) json = in_marks(text);
  } else if (json.is_array()) {
    for (Json& inner : json) quote_sentences(inner);
  } else if (json.is_object()) {
    for (auto& [key, value] : json.items()) {
      if (!is_of_the_tool(key) || value.is_structured()) quote_sentences(value);
    }
  }
}

}  // namespace flashmoe::workflow::mcp
