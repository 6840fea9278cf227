#include "workflow/output/answer.hpp"

#include <algorithm>
#include <array>
#include <string_view>

#include "support/json_text.hpp"
#include "support/text.hpp"
#include "workflow/verdict/codes.hpp"

namespace flashmoe::workflow {
namespace {

constexpr std::array kept_whole{"schema_version", "command", "exit_code", "code", "next", "outcome", "verdict", "id"};
constexpr std::size_t long_text = 300;
constexpr std::size_t short_text = 60;
constexpr std::size_t most_next_bytes = 1024;

std::size_t size_of(const Json& json) {
  return one_line(json).size() + 1;
}

// Ends between two characters.
void cut(std::string& text, std::size_t most) {
  if (text.size() <= most) return;
  text.resize(end_of_characters(text, most - 3));
  text += "...";
}

void cut_texts(Json& json, std::size_t most) {
  if (json.is_string()) {
    cut(json.get_ref<std::string&>(), most);
  } else if (json.is_structured()) {
    for (Json& inner : json) cut_texts(inner, most);
  }
}

bool is_kept_whole(std::string_view key) {
  return std::find(kept_whole.begin(), kept_whole.end(), key) != kept_whole.end();
}

// The list that takes most room, however deep; nullptr: there is none with an element.
Json* largest_list(Json& json, std::size_t& largest) {
  Json* found = nullptr;
  if (!json.is_structured()) return nullptr;
  if (json.is_array() && !json.empty() && size_of(json) > largest) {
    largest = size_of(json);
    found = &json;
  }
  for (Json& inner : json) {
    // A list of one large thing is cut inside of it.
    std::size_t inside = json.is_array() && json.size() == 1 ? 0 : largest;
    if (Json* deeper = largest_list(inner, inside)) {
      found = deeper;
      largest = std::max(largest, inside);
    }
  }
  return found;
}

}  // namespace

void shorten(Json& json, std::size_t most_bytes) {
  for (const std::size_t most : {long_text, short_text}) {
    if (size_of(json) <= most_bytes) return;
    for (auto& [key, value] : json.items()) {
      if (!is_kept_whole(key)) cut_texts(value, most);
    }
    std::size_t left_out = 0;
    // Room for the word that says so.
    while (size_of(json) > most_bytes - 24) {
      std::size_t largest = 0;
      Json* list = largest_list(json, largest);
      if (list == nullptr || largest < 64) break;
      // By halves while it is far too long: a journal may have thousands of records.
      const std::size_t drop = size_of(json) > 2 * most_bytes ? (list->size() + 1) / 2 : 1;
      list->erase(list->end() - static_cast<std::ptrdiff_t>(drop), list->end());
      left_out += drop;
    }
    if (left_out > 0) json["left_out"] = json.value("left_out", std::size_t{0}) + left_out;
  }
  while (size_of(json) > most_bytes) {
    std::string last;
    for (const auto& [key, value] : json.items()) {
      if (!is_kept_whole(key)) last = key;
    }
    if (last.empty()) return;
    json.erase(last);
  }
}

std::string written(const Answer& answer, const Json& body) {
  Json json = {{"schema_version", answer_schema_version}, {"command", answer.command}, {"exit_code", answer.exit_code}};
  json["code"] = answer.code.empty() ? Json(nullptr) : Json(answer.code);
  json["next"] = answer.is_short && answer.next.size() > most_next_bytes ? row_of(answer.code).next : answer.next;
  for (const auto& [key, value] : body.items()) {
    if (!json.contains(key)) json[key] = value;
  }
  if (!answer.is_short) return indented(json);
  shorten(json, most_short_bytes);
  return one_line(json) + "\n";
}

Json picked(const Json& from, std::initializer_list<const char*> keys) {
  Json some = Json::object();
  for (const char* key : keys) {
    if (const auto found = from.find(key); found != from.end()) some[key] = *found;
  }
  return some;
}

}  // namespace flashmoe::workflow
