// Small things about texts.
#pragma once

#include <algorithm>
#include <string>
#include <string_view>
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

// What a terminal may be shown of a text that somebody else wrote: control characters, which could move the cursor or
// rewrite the line above, are a question mark.
[[nodiscard]] inline std::string printable(std::string_view text) {
  std::string shown;
  shown.reserve(text.size());
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    // U+0080 to U+009F in UTF-8: the second set of control characters.
    const bool second_set = byte == 0xC2 && i + 1 < text.size() && static_cast<unsigned char>(text[i + 1]) < 0xA0;
    if (second_set) ++i;
    shown += second_set || byte < 0x20 || byte == 0x7F ? '?' : text[i];
  }
  return shown;
}

}  // namespace flashmoe
