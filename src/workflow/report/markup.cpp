#include "workflow/report/markup.hpp"

#include <cstdint>
#include <optional>

#include "support/text.hpp"

namespace flashmoe::workflow {
namespace {

constexpr const char* replacement = "\xEF\xBF\xBD";

struct Character {
  std::uint32_t code = 0;
  std::size_t bytes = 1;
};

bool is_continuation(char c) {
  return (static_cast<unsigned char>(c) & 0xC0) == 0x80;
}

// The character at the beginning of a text that is not empty; nullopt: no UTF-8.
std::optional<Character> first_of(std::string_view text) {
  const auto lead = static_cast<unsigned char>(text[0]);
  if (lead < 0x80) return Character{lead, 1};
  const std::size_t bytes = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : 2;
  if (lead < 0xC2 || lead > 0xF4 || text.size() < bytes) return std::nullopt;
  std::uint32_t code = lead & (0xFFU >> (bytes + 1));
  for (std::size_t i = 1; i < bytes; ++i) {
    if (!is_continuation(text[i])) return std::nullopt;
    code = code << 6 | (static_cast<unsigned char>(text[i]) & 0x3FU);
  }
  constexpr std::uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
  const bool is_surrogate = code >= 0xD800 && code <= 0xDFFF;
  if (code < least[bytes] || is_surrogate || code > 0x10FFFF) return std::nullopt;
  return Character{code, bytes};
}

// Control characters, which XML forbids; marks that turn the direction of writing; what Unicode keeps for nobody.
bool is_hidden(std::uint32_t code) {
  const bool is_control = code < 0x20 || (code >= 0x7F && code < 0xA0);
  const bool turns = code == 0x061C || code == 0x200E || code == 0x200F || (code >= 0x202A && code <= 0x202E) ||
                     (code >= 0x2066 && code <= 0x2069);
  const bool is_nobodys = (code & 0xFFFE) == 0xFFFE || code == 0xFEFF;
  return is_control || turns || is_nobodys;
}

// Calls `add` with every character as it may be shown.
template <class Add>
void each_shown(std::string_view text, const Add& add) {
  while (!text.empty()) {
    const auto character = first_of(text);
    const std::size_t bytes = character ? character->bytes : 1;
    const bool is_blank = character && (character->code == '\t' || character->code == '\n');
    if (is_blank) {
      add(" ");
    } else {
      add(character && !is_hidden(character->code) ? text.substr(0, bytes) : replacement);
    }
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
    if (marks.find(c) != std::string_view::npos || is_link) result += '\\';
    result += character;
  });
  return result;
}

std::string shortened(std::string_view text, std::size_t most) {
  std::size_t characters = 0;
  std::size_t end = 0;  // behind the last character that leaves room for the ellipsis
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (is_continuation(text[i])) continue;
    if (++characters == most) end = i;
    if (characters > most) return trimmed(text.substr(0, end)) + "…";
  }
  return std::string(text);
}

std::size_t length_of(std::string_view text) {
  std::size_t characters = 0;
  for (const char c : text) characters += is_continuation(c) ? 0 : 1;
  return characters;
}

}  // namespace flashmoe::workflow
