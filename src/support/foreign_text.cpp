#include "support/foreign_text.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>

#include "support/text.hpp"

namespace flashmoe {
namespace {

constexpr std::string_view open_mark = "«";
constexpr std::string_view close_mark = "»";
constexpr std::string_view cut_mark = "...";

std::string in_hex(std::uint32_t number) {
  std::array<char, 8> digits{};
  return {digits.data(), std::to_chars(digits.data(), digits.data() + digits.size(), number, 16).ptr};
}

std::string by_number(std::uint32_t byte) {
  return (byte < 0x10 ? "\\x0" : "\\x") + in_hex(byte);
}

std::string shown(std::string_view text, const Character& character) {
  if (character.bytes == 0) return by_number(static_cast<unsigned char>(text[0]));
  if (!is_hidden(character.code)) return std::string(text.substr(0, character.bytes));
  if (character.code == '\n') return "\\n";
  if (character.code == '\t') return "\\t";
  if (character.code < 0x80) return by_number(character.code);
  return "\\u{" + in_hex(character.code) + "}";
}

}  // namespace

std::string visible(std::string_view text, std::size_t most_bytes) {
  std::string out;
  std::size_t fits = 0;  // how much of `out` leaves room for the mark of a cut
  while (!text.empty()) {
    const Character character = first_character(text);
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

std::string in_marks(std::string_view text, std::size_t most_bytes) {
  std::string inside = visible(text, most_bytes - std::min(most_bytes, open_mark.size() + close_mark.size()));
  inside = replaced_all(replaced_all(inside, open_mark, "<<"), close_mark, ">>");
  return std::string(open_mark) + inside + std::string(close_mark);
}

}  // namespace flashmoe
