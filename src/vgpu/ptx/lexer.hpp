// Text -> tokens, one at a time. Tokens are views into the text; nothing is copied before the parser asks for it.
#pragma once

#include <string_view>

#include "vgpu/ptx/ast.hpp"

namespace flashmoe::vgpu::ptx {

struct Token {
  enum class Kind {
    end,
    identifier,   // ld, %r1, $L__BB0_1, sm_89; never "_"
    placeholder,  // _
    dotted,       // .global, .L2::128B, .1d: with its dot
    integer,      // 12, 0x1F, 017, 0b101, each with or without U
    decimal,      // 1.5, 2e-3
    single,       // 0f3F800000
    twofold,      // 0d3FF0000000000000
    string,       // with its quotes
    symbol,       // one or two characters of punctuation
    broken,       // `text` is what does not lex, `problem` says why
  };
  Kind kind = Kind::end;
  std::string_view text{};
  const char* problem = nullptr;
  Location at{};
  bool glued = false;  // nothing between this token and the one before: %tid.x is one name, "%tid .x" is not

  [[nodiscard]] bool is(std::string_view wanted) const { return text == wanted && kind != Kind::string; }
};

class Lexer {
 public:
  explicit Lexer(std::string_view text) : text_(text) {}
  [[nodiscard]] Token next();
  // The line of the text that holds `at`, without leading blanks, shortened for a message.
  [[nodiscard]] std::string_view line_of(Location at) const;

 private:
  // False when a block comment does not end.
  bool skip_blanks();
  Token make(Token::Kind kind, std::size_t length);
  Token broken(std::size_t length, const char* problem);
  Token number();
  Token string();
  [[nodiscard]] char at(std::size_t position) const { return position < text_.size() ? text_[position] : '\0'; }

  std::string_view text_;
  std::size_t position_ = 0;
  std::size_t line_start_ = 0;
  std::size_t token_end_ = 0;
  int line_ = 1;
};

}  // namespace flashmoe::vgpu::ptx
