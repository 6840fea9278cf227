#include "workflow/mcp/foreign_text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <utility>

namespace flashmoe::workflow::mcp {
namespace {

constexpr std::string_view open_mark = "«";
constexpr std::string_view close_mark = "»";
constexpr std::string_view cut_mark = "...";

struct Character {
  std::uint32_t code = 0;
  std::size_t bytes = 0;  // 0: what stands here is no UTF-8
};

Character character_at(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const std::uint32_t first = byte(0);
  if (first < 0x80) return {first, 1};
  const std::size_t bytes = first >= 0xF0 ? 4 : first >= 0xE0 ? 3 : 2;
  if (first < 0xC2 || first > 0xF4 || text.size() < bytes) return {};
  std::uint32_t code = first & (0x7FU >> bytes);
  for (std::size_t i = 1; i < bytes; ++i) {
    if ((byte(i) & 0xC0U) != 0x80U) return {};
    code = code << 6U | (byte(i) & 0x3FU);
  }
  constexpr std::array<std::uint32_t, 5> least{0, 0, 0x80, 0x800, 0x10000};
  const bool is_surrogate = code >= 0xD800 && code <= 0xDFFF;
  if (code < least[bytes] || code > 0x10FFFF || is_surrogate) return {};
  return {code, bytes};
}

// Controls of both sets; marks of direction and joining, fillers, variation selectors, tags: nobody sees them, and
// models read them.
bool is_hidden(std::uint32_t code) {
  constexpr std::array<std::pair<std::uint32_t, std::uint32_t>, 17> ranges{{{0x0, 0x1F},
                                                                            {0x7F, 0x9F},
                                                                            {0xAD, 0xAD},
                                                                            {0x34F, 0x34F},
                                                                            {0x61C, 0x61C},
                                                                            {0x115F, 0x1160},
                                                                            {0x17B4, 0x17B5},
                                                                            {0x180B, 0x180F},
                                                                            {0x200B, 0x200F},
                                                                            {0x2028, 0x202E},
                                                                            {0x2060, 0x206F},
                                                                            {0x3164, 0x3164},
                                                                            {0xFE00, 0xFE0F},
                                                                            {0xFEFF, 0xFEFF},
                                                                            {0xFFA0, 0xFFA0},
                                                                            {0xFFF0, 0xFFFB},
                                                                            {0xE0000, 0xE0FFF}}};
  return std::any_of(ranges.begin(), ranges.end(),
                     [&](const auto& range) { return code >= range.first && code <= range.second; });
}

std::string shown(std::string_view text, const Character& character) {
  if (character.bytes == 0) return fmt::format("\\x{:02x}", static_cast<unsigned char>(text[0]));
  if (!is_hidden(character.code)) return std::string(text.substr(0, character.bytes));
  if (character.code == '\n') return "\\n";
  if (character.code == '\t') return "\\t";
  if (character.code < 0x80) return fmt::format("\\x{:02x}", character.code);
  return fmt::format("\\u{{{:x}}}", character.code);
}

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

std::string visible(std::string_view text, std::size_t most_bytes) {
  std::string out;
  std::size_t fits = 0;  // how much of `out` leaves room for the mark of a cut
  while (!text.empty()) {
    const Character character = character_at(text);
    const std::string next = shown(text, character);
    if (out.size() + next.size() > most_bytes) {
      out.resize(fits);
      return out.append(cut_mark.substr(0, most_bytes));
    }
    out += next;
    if (out.size() + cut_mark.size() <= most_bytes) fits = out.size();
    text.remove_prefix(std::max<std::size_t>(character.bytes, 1));
  }
  return out;
}

std::string quoted(std::string_view text, std::size_t most_bytes) {
  std::string inside = visible(text, most_bytes - std::min(most_bytes, open_mark.size() + close_mark.size()));
  for (const auto& [mark, instead] : {std::pair{open_mark, "<<"}, std::pair{close_mark, ">>"}}) {
    for (std::size_t at = inside.find(mark); at != std::string::npos; at = inside.find(mark, at)) {
      inside.replace(at, mark.size(), instead);
    }
  }
  return std::string(open_mark) + inside + std::string(close_mark);
}

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
    if (!is_a_name(text)) json = quoted(text, text.size() + open_mark.size() + close_mark.size());
  } else if (json.is_array()) {
    for (Json& inner : json) quote_sentences(inner);
  } else if (json.is_object()) {
    for (auto& [key, value] : json.items()) {
      if (!is_of_the_tool(key) || value.is_structured()) quote_sentences(value);
    }
  }
}

}  // namespace flashmoe::workflow::mcp
