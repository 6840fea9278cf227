#include "vgpu/ptx/cursor.hpp"

#include <fmt/format.h>

#include <charconv>

namespace flashmoe::vgpu::ptx {

std::optional<std::uint64_t> integer_value(std::string_view text) {
  if (text.ends_with('U')) text.remove_suffix(1);
  int base = 10;
  if (text.size() > 1 && text[0] == '0') {
    const bool hexadecimal = text[1] == 'x' || text[1] == 'X', binary = text[1] == 'b' || text[1] == 'B';
    base = hexadecimal ? 16 : binary ? 2 : 8;
    text.remove_prefix(hexadecimal || binary ? 2 : 1);
  }
  std::uint64_t value = 0;
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), value, base);
  if (problem != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return value;
}

std::string shown(std::string_view text, std::size_t most) {
  std::string out;
  for (const char c : text.substr(0, most)) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '\t') {
      out += ' ';
    } else if (byte < 0x20 || byte >= 0x7F) {
      out += fmt::format("\\x{:02X}", byte);
    } else {
      out += c;
    }
  }
  if (text.size() > most) out += "...";
  return out;
}

void Cursor::advance() {
  token_ = lexer_.next();
  if (token_.kind == Token::Kind::broken)
    fail(token_.at, fmt::format("'{}' {}", shown(token_.text, 48), token_.problem));
}

Token Cursor::take() {
  const Token taken = token_;
  if (!failed()) advance();
  return taken;
}

bool Cursor::accept(std::string_view text) {
  if (!is(text)) return false;
  take();
  return true;
}

void Cursor::expect(std::string_view text) {
  if (!accept(text)) fail_expected(fmt::format("'{}'", text));
}

std::string_view Cursor::identifier(std::string_view what) {
  if (is(Token::Kind::identifier)) return take().text;
  fail_expected(what);
  return {};
}

std::int64_t Cursor::number(std::string_view what, std::int64_t most) {
  if (!is(Token::Kind::integer)) {
    fail_expected(what);
    return 0;
  }
  const Token token = take();
  const auto value = integer_value(token.text);
  if (value && *value <= static_cast<std::uint64_t>(most)) return static_cast<std::int64_t>(*value);
  fail(token.at, fmt::format("{} is {}, allowed are 0 to {}", what, shown(token.text, 48), most));
  return 0;
}

std::string_view Cursor::quoted(std::string_view what) {
  if (is(Token::Kind::string)) {
    const Token token = take();
    return token.text.substr(1, token.text.size() - 2);
  }
  fail_expected(what);
  return {};
}

void Cursor::fail_expected(std::string_view what) {
  const std::string found =
      token_.kind == Token::Kind::end ? "the end of the text" : fmt::format("'{}'", shown(token_.text, 48));
  fail(token_.at, fmt::format("expected {}, found {}", what, found));
}

void Cursor::fail(Location at, std::string message) {
  if (failed()) return;
  if (const std::string line = shown(lexer_.line_of(at), 120); !line.empty())
    message += fmt::format(" in \"{}\"", line);
  error_ = Diagnostic{.message = std::move(message), .file = name_, .line = at.line, .column = at.column};
  token_ = Token{.at = at};
}

}  // namespace flashmoe::vgpu::ptx
