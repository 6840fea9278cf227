// PTX ISA 4.5.4 to 4.5.6. Operators bind as in C; what is signed and what is not follows the table "Constant Expression
// Evaluation Rules".
#include "vgpu/ptx/expression.hpp"

#include <fmt/format.h>

#include <bit>
#include <charconv>
#include <limits>
#include <string_view>

namespace flashmoe::vgpu::ptx {
namespace {

constexpr int kDeepest = 64;         // nested parentheses and prefix operators
constexpr int kTermPrecedence = 10;  // of * / %

struct Value {
  bool is_floating = false;
  bool is_unsigned = false;
  std::uint64_t bits = 0;
  double number = 0;

  [[nodiscard]] bool truth() const { return is_floating ? number != 0 : bits != 0; }
  [[nodiscard]] double as_double() const {
    if (is_floating) return number;
    return is_unsigned ? static_cast<double>(bits) : static_cast<double>(static_cast<std::int64_t>(bits));
  }
};

Value integer(std::uint64_t bits, bool is_unsigned) {
  return {.is_unsigned = is_unsigned, .bits = bits};
}
Value truth(bool holds) {
  return integer(holds ? 1 : 0, false);
}
Value floating(double number) {
  return {.is_floating = true, .number = number};
}

int precedence(const Token& token) {
  if (token.kind != Token::Kind::symbol) return 0;
  const std::string_view op = token.text;
  if (op == "*" || op == "/" || op == "%") return kTermPrecedence;
  if (op == "+" || op == "-") return 9;
  if (op == "<<" || op == ">>") return 8;
  if (op == "<" || op == ">" || op == "<=" || op == ">=") return 7;
  if (op == "==" || op == "!=") return 6;
  if (op == "&") return 5;
  if (op == "^") return 4;
  if (op == "|") return 3;
  if (op == "&&") return 2;
  if (op == "||") return 1;
  return 0;
}

class Evaluator {
 public:
  explicit Evaluator(Cursor& cursor) : cursor_(cursor) {}

  Value conditional(int depth) {
    const Value condition = binary(1, depth);
    if (!cursor_.accept("?")) return condition;
    ++operators_;
    if (too_deep(depth)) return {};
    const Value yes = conditional(depth + 1);
    cursor_.expect(":");
    const Value no = conditional(depth + 1);
    Value chosen = condition.truth() ? yes : no;
    if (yes.is_floating || no.is_floating) return floating(chosen.as_double());
    chosen.is_unsigned = yes.is_unsigned || no.is_unsigned;
    return chosen;
  }

  Value binary(int least, int depth) {
    Value left = unary(depth);
    while (precedence(cursor_.peek()) >= least) {
      const Token op = cursor_.take();
      ++operators_;
      const Value right = binary(precedence(op) + 1, depth);
      left = combine(op, left, right);
    }
    return left;
  }

  [[nodiscard]] int literals() const { return literals_; }
  [[nodiscard]] int operators() const { return operators_; }
  [[nodiscard]] const Token& last_literal() const { return last_literal_; }
  [[nodiscard]] bool saw_single() const { return saw_single_; }

 private:
  bool too_deep(int depth) {
    if (depth < kDeepest) return false;
    cursor_.fail(cursor_.peek().at, fmt::format("a constant expression nests deeper than {} levels", kDeepest));
    return true;
  }

  Value unary(int depth) {
    if (too_deep(depth)) return {};
    if (begins_literal(cursor_.peek()) && cursor_.peek().kind != Token::Kind::symbol) return literal();
    ++operators_;
    if (cursor_.accept("+")) return unary(depth + 1);
    if (cursor_.accept("-")) {
      const Value value = unary(depth + 1);
      return value.is_floating ? floating(-value.number) : integer(0 - value.bits, value.is_unsigned);
    }
    if (cursor_.accept("!")) return truth(!unary(depth + 1).truth());
    if (cursor_.is("~")) {
      const Token op = cursor_.take();
      const Value value = unary(depth + 1);
      if (value.is_floating) cursor_.fail(op.at, "'~' needs an integer");
      return integer(~value.bits, value.is_unsigned);
    }
    if (cursor_.accept("(")) return parenthesis(depth + 1);
    cursor_.fail_expected("a constant");
    return {};
  }

  Value parenthesis(int depth) {
    const bool to_signed = cursor_.is(".s64"), to_unsigned = cursor_.is(".u64");
    if (to_signed || to_unsigned) {
      const Token type = cursor_.take();
      cursor_.expect(")");
      Value value = unary(depth);
      if (value.is_floating) cursor_.fail(type.at, "a cast of a floating-point constant is not PTX");
      value.is_unsigned = to_unsigned;
      return value;
    }
    const Value value = conditional(depth);
    cursor_.expect(")");
    return value;
  }

  Value literal() {
    const Token token = cursor_.take();
    last_literal_ = token;
    ++literals_;
    switch (token.kind) {
      case Token::Kind::integer: {
        const auto value = integer_value(token.text);
        if (!value) {
          cursor_.fail(token.at, fmt::format("'{}' is not an integer of 64 bits", shown(token.text, 48)));
          return {};
        }
        return integer(*value, token.text.ends_with('U') || *value > std::numeric_limits<std::int64_t>::max());
      }
      case Token::Kind::decimal: {
        double number = 0;
        const auto [end, problem] = std::from_chars(token.text.data(), token.text.data() + token.text.size(), number);
        if (problem != std::errc{} || end != token.text.data() + token.text.size())
          cursor_.fail(token.at, fmt::format("'{}' does not fit a double", shown(token.text, 48)));
        return floating(number);
      }
      case Token::Kind::twofold: {
        std::uint64_t bits = 0;
        std::from_chars(token.text.data() + 2, token.text.data() + token.text.size(), bits, 16);
        return floating(std::bit_cast<double>(bits));
      }
      default:
        saw_single_ = true;
        return {};
    }
  }

  Value combine(const Token& op, const Value& left, const Value& right) {
    if (op.is("&&")) return truth(left.truth() && right.truth());
    if (op.is("||")) return truth(left.truth() || right.truth());
    return left.is_floating || right.is_floating ? of_doubles(op, left.as_double(), right.as_double())
                                                 : of_integers(op, left, right);
  }

  Value of_doubles(const Token& op, double left, double right) {
    if (op.is("+")) return floating(left + right);
    if (op.is("-")) return floating(left - right);
    if (op.is("*")) return floating(left * right);
    if (op.is("/") && right != 0) return floating(left / right);
    if (op.is("<")) return truth(left < right);
    if (op.is(">")) return truth(left > right);
    if (op.is("<=")) return truth(left <= right);
    if (op.is(">=")) return truth(left >= right);
    if (op.is("==")) return truth(left == right);
    if (op.is("!=")) return truth(left != right);
    cursor_.fail(op.at, op.is("/") ? "a constant is divided by zero"
                                   : fmt::format("'{}' needs integers on both sides", op.text));
    return {};
  }

  Value of_integers(const Token& op, const Value& left, const Value& right) {
    const std::uint64_t a = left.bits, b = right.bits;
    const bool either = left.is_unsigned || right.is_unsigned;
    if (op.is("+")) return integer(a + b, either);
    if (op.is("-")) return integer(a - b, either);
    if (op.is("*")) return integer(a * b, either);
    if (op.is("/") || op.is("%")) return quotient(op, left, right);
    // Shifts read the amount as unsigned; all bits leave at 64 and more.
    if (op.is("<<")) return integer(b < 64 ? a << b : 0, left.is_unsigned);
    if (op.is(">>")) {
      if (left.is_unsigned) return integer(b < 64 ? a >> b : 0, true);
      return integer(static_cast<std::uint64_t>(static_cast<std::int64_t>(a) >> (b < 64 ? b : 63)), false);
    }
    if (op.is("==")) return truth(a == b);
    if (op.is("!=")) return truth(a != b);
    if (op.is("&")) return integer(a & b, either);
    if (op.is("^")) return integer(a ^ b, either);
    if (op.is("|")) return integer(a | b, either);
    const auto s = static_cast<std::int64_t>(a), t = static_cast<std::int64_t>(b);
    const bool less = either ? a < b : s < t;
    if (op.is("<")) return truth(less);
    if (op.is(">=")) return truth(!less);
    if (op.is(">")) return truth(!less && a != b);
    return truth(less || a == b);
  }

  Value quotient(const Token& op, const Value& left, const Value& right) {
    const bool remainder = op.is("%");
    if (right.bits == 0) {
      cursor_.fail(op.at, "a constant is divided by zero");
      return {};
    }
    if (left.is_unsigned || right.is_unsigned)
      return integer(remainder ? left.bits % right.bits : left.bits / right.bits, true);
    const auto a = static_cast<std::int64_t>(left.bits), b = static_cast<std::int64_t>(right.bits);
    // The most negative number over -1 does not fit; its bits are those of the plain negation.
    if (b == -1) return integer(remainder ? 0 : 0 - left.bits, false);
    return integer(static_cast<std::uint64_t>(remainder ? a % b : a / b), false);
  }

  Cursor& cursor_;
  int literals_ = 0;
  int operators_ = 0;
  Token last_literal_{};
  bool saw_single_ = false;
};

std::string canonical(const Value& value) {
  if (value.is_floating) return fmt::format("0d{:016X}", std::bit_cast<std::uint64_t>(value.number));
  if (value.is_unsigned) return fmt::format("{}U", value.bits);
  return fmt::format("{}", static_cast<std::int64_t>(value.bits));
}

// 0f constants stand alone: they take no part in expressions (4.5.2).
Constant single(const Token& token, bool minus) {
  std::uint64_t bits = 0;
  std::from_chars(token.text.data() + 2, token.text.data() + token.text.size(), bits, 16);
  return {.kind = Constant::Kind::single,
          .bits = minus ? bits ^ 0x80000000U : bits,
          .text = fmt::format("{}{}", minus ? "-" : "", token.text)};
}

}  // namespace

bool begins_literal(const Token& token) {
  switch (token.kind) {
    case Token::Kind::integer:
    case Token::Kind::decimal:
    case Token::Kind::single:
    case Token::Kind::twofold:
      return true;
    default:
      return token.is("+") || token.is("~");
  }
}

Constant parse_constant(Cursor& cursor, Extent extent) {
  Evaluator evaluator(cursor);
  const bool minus = cursor.is("-");
  const Value value = extent == Extent::whole ? evaluator.conditional(0) : evaluator.binary(kTermPrecedence, 0);
  // "5" and "-5" keep their text: nothing but a literal and perhaps the one minus was read.
  const bool plain = evaluator.literals() == 1 && evaluator.operators() == (minus ? 1 : 0);
  const Token& literal = evaluator.last_literal();
  if (evaluator.saw_single()) {
    if (!plain) cursor.fail(literal.at, "a 0f constant takes no part in an expression");
    return single(literal, minus);
  }
  return {.kind = value.is_floating ? Constant::Kind::floating : Constant::Kind::integer,
          .bits = value.is_floating ? std::bit_cast<std::uint64_t>(value.number) : value.bits,
          .text = plain ? fmt::format("{}{}", minus ? "-" : "", literal.text) : canonical(value)};
}

}  // namespace flashmoe::vgpu::ptx
