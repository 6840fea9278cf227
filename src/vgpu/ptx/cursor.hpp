// The parser's place in the tokens. The first error sticks: after it every token is the end of the text, so that all
// loops run out by themselves and only the outermost caller has to ask.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "support/result.hpp"
#include "vgpu/ptx/lexer.hpp"

namespace flashmoe::vgpu::ptx {

class Cursor {
 public:
  Cursor(std::string_view text, std::string name) : lexer_(text), name_(std::move(name)) { advance(); }

  [[nodiscard]] const Token& peek() const { return token_; }
  // The token after the present one. Reads it again when it is taken: for the few places that have to look that far.
  [[nodiscard]] Token peek_after() const { return Lexer(lexer_).next(); }
  [[nodiscard]] bool at_end() const { return token_.kind == Token::Kind::end; }
  [[nodiscard]] bool is(std::string_view text) const { return token_.is(text); }
  [[nodiscard]] bool is(Token::Kind kind) const { return token_.kind == kind; }

  Token take();
  // Takes the token if it is `text`.
  bool accept(std::string_view text);
  // Takes it, or fails with "expected ... , found ...".
  void expect(std::string_view text);
  // An identifier; `what` names it in the error ("a register's name").
  std::string_view identifier(std::string_view what);
  // A decimal, hexadecimal, ... integer from 0 to `most`.
  std::int64_t number(std::string_view what, std::int64_t most);
  // The inside of a string as written, escapes kept.
  std::string_view quoted(std::string_view what);

  // "expected <what>, found <token>" at the present token.
  void fail_expected(std::string_view what);
  void fail(Location at, std::string message);
  [[nodiscard]] bool failed() const { return error_.has_value(); }
  [[nodiscard]] const Diagnostic& error() const { return *error_; }

 private:
  void advance();

  Lexer lexer_;
  std::string name_;
  Token token_{};
  std::optional<Diagnostic> error_{};
};

// The value of an integer literal of any base, with or without U; nothing if it needs more than 64 bits or has a digit
// that its base has not.
[[nodiscard]] std::optional<std::uint64_t> integer_value(std::string_view text);

// Bytes that a terminal can show, shortened: what stands in messages.
[[nodiscard]] std::string shown(std::string_view text, std::size_t most);

}  // namespace flashmoe::vgpu::ptx
