// PTX ISA 4.1 (source format), 4.3 (statements), 4.4 (identifiers), 4.5 (constants).
#include "vgpu/ptx/lexer.hpp"

#include <algorithm>
#include <array>
#include <cstdint>

namespace flashmoe::vgpu::ptx {
namespace {

constexpr int kBefore = 80;              // characters of a line before the place that a message is about
constexpr std::size_t kMostShown = 120;  // and of the line altogether

enum : std::uint8_t { kDigit = 1, kHex = 2, kFollow = 4, kStart = 8 };

// One table look-up a character: the lexer sees every byte of files that are mostly debug strings.
constexpr std::array<std::uint8_t, 256> classes() {
  std::array<std::uint8_t, 256> table{};
  for (int c = '0'; c <= '9'; ++c) table[static_cast<std::size_t>(c)] = kDigit | kHex | kFollow;
  for (std::size_t c = 'a'; c <= 'z'; ++c) {
    const std::size_t lower = c, upper = c - 'a' + 'A';
    table[lower] = table[upper] = static_cast<std::uint8_t>(kFollow | kStart | (c <= 'f' ? kHex : 0));
  }
  table['_'] = table['$'] = kFollow | kStart;
  return table;
}
constexpr auto kClass = classes();

bool is(char c, std::uint8_t wanted) {
  return (kClass[static_cast<unsigned char>(c)] & wanted) != 0;
}

bool two_characters(char first, char second) {
  switch (first) {
    case '<':
      return second == '<' || second == '=';
    case '>':
      return second == '>' || second == '=';
    case '=':
    case '!':
      return second == '=';
    case '&':
      return second == '&';
    case '|':
      return second == '|';
    default:
      return false;
  }
}

}  // namespace

bool Lexer::skip_blanks() {
  while (position_ < text_.size()) {
    const char c = text_[position_];
    if (c == '\n') {
      ++position_;
      ++line_;
      line_start_ = position_;
    } else if (c == ' ' || c == '\t' || c == '\r' || c == '\f' || c == '\v') {
      ++position_;
    } else if (c == '/' && at(position_ + 1) == '/') {
      position_ = std::min(text_.find('\n', position_), text_.size());
    } else if (c == '/' && at(position_ + 1) == '*') {
      const std::size_t end = text_.find("*/", position_ + 2);
      if (end == std::string_view::npos) return false;
      for (std::size_t newline = text_.find('\n', position_); newline < end; newline = text_.find('\n', newline + 1)) {
        ++line_;
        line_start_ = newline + 1;
      }
      position_ = end + 2;
    } else {
      break;
    }
  }
  return true;
}

Token Lexer::make(Token::Kind kind, std::size_t length) {
  Token token;
  token.kind = kind;
  token.text = text_.substr(position_, length);
  token.at = {line_, static_cast<int>(position_ - line_start_) + 1};
  token.glued = position_ == token_end_ && position_ != 0;
  position_ += token.text.size();
  token_end_ = position_;
  return token;
}

Token Lexer::broken(std::size_t length, const char* problem) {
  Token token = make(Token::Kind::broken, length);
  token.problem = problem;
  return token;
}

Token Lexer::number() {
  const char second = at(position_ + 1);
  std::size_t length = 1;
  const auto run = [&](std::size_t from, std::uint8_t wanted) {
    std::size_t end = from;
    while (is(at(position_ + end), wanted)) ++end;
    return end;
  };
  const auto whole = [&](Token::Kind kind, std::size_t end) {
    return is(at(position_ + end), kFollow) ? broken(run(end, kFollow), "is not a number") : make(kind, end);
  };
  if (at(position_) == '0' && (second == 'f' || second == 'F' || second == 'd' || second == 'D')) {
    const bool twofold = second == 'd' || second == 'D';
    length = run(2, kHex);
    if (length != (twofold ? 18U : 10U))
      return broken(run(length, kFollow),
                    twofold ? "is not 0d and 16 hexadecimal digits" : "is not 0f and 8 hexadecimal digits");
    return whole(twofold ? Token::Kind::twofold : Token::Kind::single, length);
  }
  if (at(position_) == '0' && (second == 'x' || second == 'X' || second == 'b' || second == 'B')) {
    length = run(2, second == 'x' || second == 'X' ? kHex : kDigit);
    if (length == 2) return broken(length, "has no digits");
    return whole(Token::Kind::integer, length + (at(position_ + length) == 'U' ? 1 : 0));
  }
  length = run(1, kDigit);
  bool decimal = false;
  // "0." is how inline assembly gets the constant 0.f.
  if (const char after = at(position_ + length + 1);
      at(position_ + length) == '.' && (!is(after, kStart) || after == 'e' || after == 'E')) {
    decimal = true;
    length = run(length + 1, kDigit);
  }
  if (const char e = at(position_ + length); e == 'e' || e == 'E') {
    const char sign = at(position_ + length + 1);
    const std::size_t digits = length + (sign == '+' || sign == '-' ? 2 : 1);
    if (is(at(position_ + digits), kDigit)) {
      decimal = true;
      length = run(digits, kDigit);
    }
  }
  if (!decimal && at(position_ + length) == 'U') ++length;
  return whole(decimal ? Token::Kind::decimal : Token::Kind::integer, length);
}

Token Lexer::string() {
  for (std::size_t end = position_ + 1; end < text_.size(); ++end) {
    if (text_[end] == '\n') break;
    if (text_[end] == '\\' && end + 1 < text_.size() && text_[end + 1] != '\n') {
      ++end;
    } else if (text_[end] == '"') {
      return make(Token::Kind::string, end + 1 - position_);
    }
  }
  return broken(1, "opens a string that does not end on its line");
}

Token Lexer::next() {
  if (!skip_blanks()) return broken(2, "opens a comment that does not end");
  if (position_ >= text_.size()) return make(Token::Kind::end, 0);
  const char c = text_[position_];
  std::size_t end = position_ + 1;
  if (is(c, kDigit)) return number();
  if (is(c, kStart) || (c == '%' && is(at(end), kFollow))) {
    while (is(at(end), kFollow)) ++end;
    const bool placeholder = c == '_' && end == position_ + 1;
    return make(placeholder ? Token::Kind::placeholder : Token::Kind::identifier, end - position_);
  }
  if (c == '.') {
    while (is(at(end), kFollow) || (at(end) == ':' && at(end + 1) == ':' && is(at(end + 2), kFollow)))
      end += at(end) == ':' ? 2 : 1;
    if (end == position_ + 1) return broken(1, "is not followed by a name");
    return make(Token::Kind::dotted, end - position_);
  }
  if (c == '"') return string();
  if (std::string_view("{}()[]<>,;:=+-*/%@!|&^~?").find(c) != std::string_view::npos)
    return make(Token::Kind::symbol, two_characters(c, at(end)) ? 2 : 1);
  return broken(1, "is not a character of PTX");
}

std::string_view Lexer::line_of(Location location) const {
  std::size_t start = 0;
  for (int line = 1; line < location.line; ++line) {
    const std::size_t newline = text_.find('\n', start);
    if (newline == std::string_view::npos) return {};
    start = newline + 1;
  }
  const std::size_t end = std::min(text_.find_first_of("\r\n", start), text_.size());
  // Of a long line only what stands around the place.
  if (location.column > kBefore) start = std::min(end, start + static_cast<std::size_t>(location.column - kBefore));
  start = std::min(text_.find_first_not_of(" \t", start), end);
  return text_.substr(start, std::min(end - start, kMostShown));
}

}  // namespace flashmoe::vgpu::ptx
