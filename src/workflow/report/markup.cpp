#include "workflow/report/markup.hpp"

#include <algorithm>

#include "support/text.hpp"

namespace flashmoe::workflow {
namespace {

constexpr std::string_view replacement = "\xEF\xBF\xBD";

// Calls `add` with every character as it may be shown.
template <class Add>
void each_shown(std::string_view text, const Add& add) {
  while (!text.empty()) {
    const Character character = first_character(text);
    const std::size_t bytes = std::max<std::size_t>(character.bytes, 1);
    const bool is_blank = character.code == '\t' || character.code == '\n';
    const bool is_shown = character.bytes > 0 && !is_hidden(character.code);
    add(is_blank ? " " : is_shown ? text.substr(0, bytes) : replacement);
    text.remove_prefix(bytes);
  }
}

}  // namespace

std::string markup_text(std::string_view text) {
  std::string result;
  result.reserve(text.size());
  each_shown(text, [&](std::string_view character) {
    const char c = character[0];
    if (c == '&') {
      result += "&amp;";
    } else if (c == '<') {
      result += "&lt;";
    } else if (c == '>') {
      result += "&gt;";
    } else if (c == '"') {
      result += "&quot;";
    } else if (c == '\'') {
      result += "&#39;";
    } else {
      result += character;
    }
  });
  return result;
}

std::string markdown_text(std::string_view text) {
  constexpr std::string_view marks = "\\`*<|";
  constexpr std::string_view behind_a_link = "([:";  // what makes one of words in brackets
  std::string result;
  each_shown(text, [&](std::string_view character) {
    const char c = character[0];
    const bool is_link = behind_a_link.find(c) != std::string_view::npos && result.ends_with(']');
    // Readers make links of bare addresses, too.
    const bool is_address =
        (c == ':' && (result.ends_with("http") || result.ends_with("https"))) || (c == '.' && result.ends_with("www"));
    if (marks.find(c) != std::string_view::npos || is_link || is_address) result += '\\';
    result += character;
  });
  return result;
}

std::string shortened(std::string_view text, std::size_t most) {
  std::size_t characters = 0;
  std::size_t end = 0;  // behind the last character that leaves room for the ellipsis
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (is_inside_character(text[i])) continue;
    if (++characters == most) end = i;
    if (characters > most) return trimmed(text.substr(0, end)) + "…";
  }
  return std::string(text);
}

std::size_t length_of(std::string_view text) {
  std::size_t characters = 0;
  for (const char c : text) characters += is_inside_character(c) ? 0 : 1;
  return characters;
}

}  // namespace flashmoe::workflow
