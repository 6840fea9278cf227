#include "vgpu/ptx/operands.hpp"

#include <fmt/format.h>

#include "vgpu/ptx/expression.hpp"

namespace flashmoe::vgpu::ptx {
namespace {

constexpr int kDeepest = 8;  // lists within addresses within lists

Operand constant_operand(Cursor& cursor) {
  Operand operand;
  operand.at = cursor.peek().at;
  Constant constant = parse_constant(cursor);
  switch (constant.kind) {
    case Constant::Kind::integer:
      operand.kind = Operand::Kind::integer;
      break;
    case Constant::Kind::floating:
      operand.kind = Operand::Kind::floating;
      break;
    case Constant::Kind::single:
      operand.kind = Operand::Kind::single;
      break;
  }
  operand.bits = constant.bits;
  operand.text = std::move(constant.text);
  return operand;
}

// A name with the component glued to it: %tid.x, %v.b0.
std::string name_with_component(Cursor& cursor) {
  std::string name(cursor.identifier("a name"));
  while (cursor.is(Token::Kind::dotted) && cursor.peek().glued) name += cursor.take().text;
  return name;
}

// The summands after a name or within an address: +4, -8, +-16, +(2*4).
std::int64_t summands(Cursor& cursor) {
  std::uint64_t sum = 0;
  while (cursor.is("+") || cursor.is("-")) {
    const bool minus = cursor.take().is("-");
    const Token first = cursor.peek();
    const Constant constant = parse_constant(cursor, Extent::term);
    if (constant.kind != Constant::Kind::integer) cursor.fail(first.at, "an offset has to be an integer");
    sum += minus ? 0 - constant.bits : constant.bits;
  }
  return static_cast<std::int64_t>(sum);
}

class OperandParser {
 public:
  explicit OperandParser(Cursor& cursor) : cursor_(cursor) {}

  Operand operand(bool lists, int depth) {
    if (depth > kDeepest) {
      cursor_.fail(cursor_.peek().at, fmt::format("operands nest deeper than {} levels", kDeepest));
      return {};
    }
    const Token& token = cursor_.peek();
    if (token.kind == Token::Kind::identifier) return named();
    if (token.kind == Token::Kind::placeholder) return placeholder();
    if (token.is("[")) return address(depth);
    if (token.is("{")) return sequence("{", "}", Operand::Kind::vector, depth);
    if (token.is("(") && lists) return sequence("(", ")", Operand::Kind::list, depth);
    if (token.is("!") || token.is("-")) return prefixed();
    if (begins_literal(token) || token.is("(")) return constant_operand(cursor_);
    cursor_.fail_expected("an operand");
    return {};
  }

 private:
  Operand named() {
    Operand operand;
    operand.at = cursor_.peek().at;
    operand.name = name_with_component(cursor_);
    if (cursor_.is("+") || cursor_.is("-")) operand.offset = summands(cursor_);
    return cursor_.is("|") ? pair(std::move(operand)) : operand;
  }

  Operand placeholder() {
    Operand operand;
    operand.kind = Operand::Kind::placeholder;
    operand.at = cursor_.take().at;
    return cursor_.is("|") ? pair(std::move(operand)) : operand;
  }

  // p|q: the second destination of setp, shfl and match.
  Operand pair(Operand first) {
    Operand both;
    both.kind = Operand::Kind::predicate_pair;
    both.at = first.at;
    cursor_.expect("|");
    Operand second;
    second.at = cursor_.peek().at;
    if (cursor_.accept("_")) {
      second.kind = Operand::Kind::placeholder;
    } else {
      second.name = name_with_component(cursor_);
    }
    both.parts.push_back(std::move(first));
    both.parts.push_back(std::move(second));
    return both;
  }

  // !p and -r are a name with a sign; !0 and -5 are constants. The token after tells.
  Operand prefixed() {
    const Token sign = cursor_.peek();
    if (cursor_.peek_after().kind != Token::Kind::identifier) return constant_operand(cursor_);
    cursor_.take();
    Operand operand;
    operand.at = sign.at;
    operand.negated = sign.is("!");
    operand.minus = sign.is("-");
    operand.name = name_with_component(cursor_);
    return operand;
  }

  Operand address(int depth) {
    Operand operand;
    operand.kind = Operand::Kind::address;
    operand.at = cursor_.peek().at;
    cursor_.expect("[");
    if (cursor_.is(Token::Kind::identifier)) {
      operand.name = name_with_component(cursor_);
      operand.offset = summands(cursor_);
    } else {
      const Token first = cursor_.peek();
      const Constant constant = parse_constant(cursor_);
      if (constant.kind != Constant::Kind::integer) cursor_.fail(first.at, "an address has to be an integer");
      operand.offset = static_cast<std::int64_t>(constant.bits);
    }
    while (cursor_.accept(",")) operand.parts.push_back(this->operand(false, depth + 1));
    cursor_.expect("]");
    return operand;
  }

  Operand sequence(std::string_view open, std::string_view close, Operand::Kind kind, int depth) {
    Operand operand;
    operand.kind = kind;
    operand.at = cursor_.peek().at;
    cursor_.expect(open);
    if (!cursor_.is(close)) {
      do {
        operand.parts.push_back(this->operand(false, depth + 1));
      } while (cursor_.accept(","));
    }
    cursor_.expect(close);
    return operand;
  }

  Cursor& cursor_;
};

// symbol, symbol+4, generic(symbol)+4, generic(symbol+4)
Operand symbol(Cursor& cursor) {
  Operand operand;
  operand.at = cursor.peek().at;
  operand.name = cursor.identifier("a symbol");
  if (operand.name == "generic" && cursor.accept("(")) {
    operand.generic = true;
    operand.name = cursor.identifier("a symbol");
    operand.offset = summands(cursor);
    cursor.expect(")");
  }
  // In unsigned arithmetic: offsets wrap like addresses.
  operand.offset = static_cast<std::int64_t>(static_cast<std::uint64_t>(operand.offset) +
                                             static_cast<std::uint64_t>(summands(cursor)));
  return operand;
}

}  // namespace

Operand integer_operand(std::uint64_t value, Location at) {
  Operand operand;
  operand.kind = Operand::Kind::integer;
  operand.bits = value;
  operand.text = fmt::format("{}", value);
  operand.at = at;
  return operand;
}

Operand parse_operand(Cursor& cursor, bool in_call) {
  return OperandParser(cursor).operand(in_call, 0);
}

Operand parse_initial_value(Cursor& cursor) {
  if (cursor.is(Token::Kind::identifier)) return symbol(cursor);
  const Token first = cursor.peek();
  Operand value = constant_operand(cursor);
  if (value.kind != Operand::Kind::integer || !cursor.accept("(")) return value;
  Operand masked = symbol(cursor);
  cursor.expect(")");
  masked.bits = value.bits;
  masked.at = first.at;
  if (masked.bits == 0) cursor.fail(first.at, "the mask of a symbol is 0");
  return masked;
}

}  // namespace flashmoe::vgpu::ptx
