// Small things about texts.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace flashmoe {

// Without blanks, tabs and line ends around it.
[[nodiscard]] inline std::string trimmed(std::string_view text) {
  constexpr std::string_view blank = " \t\r\n\v\f";
  const auto begin = text.find_first_not_of(blank);
  if (begin == std::string_view::npos) return {};
  return std::string(text.substr(begin, text.find_last_not_of(blank) - begin + 1));
}

// The parts of a list of paths, as PATH is one; empty parts are left out.
[[nodiscard]] inline std::vector<std::string> colon_separated(std::string_view list) {
  std::vector<std::string> parts;
  for (std::size_t begin = 0; begin <= list.size();) {
    const std::size_t end = std::min(list.find(':', begin), list.size());
    if (end > begin) parts.emplace_back(list.substr(begin, end - begin));
    begin = end + 1;
  }
  return parts;
}

// For a terminal, where one reads it.
[[nodiscard]] inline std::string bold(const std::string& text, bool may_be) {
  return may_be ? "\033[1m" + text + "\033[0m" : text;
}

// Of what is not blank the last line: where programs say why they ended.
[[nodiscard]] inline std::string last_line(std::string_view text) {
  const std::string all = trimmed(text);
  return all.substr(all.rfind('\n') + 1);
}

// The text as one word of a shell's command line.
[[nodiscard]] inline std::string shell_word(std::string_view text) {
  constexpr std::string_view plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-+=.,:/@%^";
  if (!text.empty() && text.find_first_not_of(plain) == std::string_view::npos) return std::string(text);
  std::string quoted = "'";
  for (const char c : text) quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return quoted + "'";
}

// Every `from`, which is not empty, by `to`, in one pass from the left.
[[nodiscard]] inline std::string replaced_all(std::string_view text, std::string_view from, std::string_view to) {
  std::string result;
  for (std::size_t at = text.find(from); at != std::string_view::npos; at = text.find(from)) {
    result.append(text.substr(0, at)).append(to);
    text.remove_prefix(at + from.size());
  }
  return result.append(text);
}

// ---- characters of UTF-8 --------------------------------------------------------------------------------------------

// A byte inside of a character, not its first.
[[nodiscard]] inline bool is_inside_character(char c) {
  return (static_cast<unsigned char>(c) & 0xC0U) == 0x80U;
}

// How much of the text has at most `most` bytes and ends between two characters.
[[nodiscard]] inline std::size_t end_of_characters(std::string_view text, std::size_t most) {
  if (text.size() <= most) return text.size();
  while (most > 0 && is_inside_character(text[most])) --most;
  return most;
}

struct Character {
  std::uint32_t code = 0;
  std::size_t bytes = 0;  // 0: what stands here is no UTF-8
};

// Of a text that is not empty.
[[nodiscard]] inline Character first_character(std::string_view text) {
  const std::uint32_t first = static_cast<unsigned char>(text[0]);
  if (first < 0x80) return {first, 1};
  const std::size_t bytes = first >= 0xF0 ? 4 : first >= 0xE0 ? 3 : 2;
  if (first < 0xC2 || first > 0xF4 || text.size() < bytes) return {};
  std::uint32_t code = first & (0x7FU >> bytes);
  for (std::size_t i = 1; i < bytes; ++i) {
    if (!is_inside_character(text[i])) return {};
    code = code << 6U | (static_cast<unsigned char>(text[i]) & 0x3FU);
  }
  constexpr std::array<std::uint32_t, 5> least{0, 0, 0x80, 0x800, 0x10000};
  const bool is_surrogate = code >= 0xD800 && code <= 0xDFFF;
  if (code < least[bytes] || code > 0x10FFFF || is_surrogate) return {};
  return {code, bytes};
}

// Controls of both sets; marks of direction and joining, fillers, variation selectors, tags, what Unicode keeps for
// nobody: nobody sees them; terminals obey them, and models read them.
[[nodiscard]] inline bool is_hidden(std::uint32_t code) {
  using Range = std::pair<std::uint32_t, std::uint32_t>;
  constexpr std::array<Range, 17> ranges{
      Range{0x0, 0x1F}, {0x7F, 0x9F},     {0xAD, 0xAD},     {0x34F, 0x34F},   {0x61C, 0x61C},    {0x115F, 0x1160},
      {0x17B4, 0x17B5}, {0x180B, 0x180F}, {0x200B, 0x200F}, {0x2028, 0x202E}, {0x2060, 0x206F},  {0x3164, 0x3164},
      {0xFE00, 0xFE0F}, {0xFEFF, 0xFEFF}, {0xFFA0, 0xFFA0}, {0xFFF0, 0xFFFB}, {0xE0000, 0xE0FFF}};
  return (code & 0xFFFEU) == 0xFFFEU || std::any_of(ranges.begin(), ranges.end(), [&](const Range& range) {
           return code >= range.first && code <= range.second;
         });
}

// What a terminal may be shown of a text that somebody else wrote: what could move the cursor, rewrite the line above
// or turn the direction of writing, and what is no UTF-8, is a question mark.
[[nodiscard]] inline std::string printable(std::string_view text) {
  std::string shown;
  shown.reserve(text.size());
  while (!text.empty()) {
    const Character character = first_character(text);
    const std::size_t bytes = std::max<std::size_t>(character.bytes, 1);
    const bool is_shown = character.bytes > 0 && !is_hidden(character.code);
    shown += is_shown ? text.substr(0, bytes) : "?";
    text.remove_prefix(bytes);
  }
  return shown;
}

// Tokens of a language model. No tokenizer is known here, so none is trusted: a token has at least three bytes, and a
// word at most 1.4 tokens; whichever says more.
[[nodiscard]] inline std::size_t most_tokens_of(std::string_view text) {
  std::size_t words = 0;
  bool in_word = false;
  for (const char c : text) {
    const bool is_blank = c == ' ' || (c >= '\t' && c <= '\r');
    words += !is_blank && !in_word ? 1 : 0;
    in_word = !is_blank;
  }
  return static_cast<std::size_t>(
      std::ceil(std::max(static_cast<double>(text.size()) / 3, 1.4 * static_cast<double>(words))));
}

}  // namespace flashmoe
