// setp, set, selp, slct: PTX ISA 9.7.5 to 9.7.7.
#include "vgpu/oracle/step.hpp"

namespace flashmoe::vgpu::oracle {

namespace {

bool is_float(std::string_view type) {
  return type[0] == 'f' || type.starts_with("bf");
}

std::string_view comparison_of(const Step& s) {
  for (const std::string& word : s.instruction.modifiers)
    for (const char* name : {"eq", "ne", "lt", "le", "gt", "ge", "lo", "ls", "hi", "hs", "equ", "neu", "ltu", "leu",
                             "gtu", "geu", "num", "nan"})
      if (word == name) return word;
  s.unknown("no comparison");
}

bool holds(std::string_view comparison, int order_of_a_and_b) {
  const std::string_view two = comparison.substr(0, 2);
  const int o = order_of_a_and_b;
  if (two == "eq") return o == 0;
  if (two == "ne") return o != 0;
  if (two == "lt" || two == "lo") return o < 0;
  if (two == "le" || two == "ls") return o <= 0;
  if (two == "gt" || two == "hi") return o > 0;
  return o >= 0;  // ge, hs
}

bool compare_values(const Step& s, std::string_view type, Bits a, Bits b) {
  const std::string_view comparison = comparison_of(s);
  if (is_float(type)) {
    const Format format = format_of(type);
    if (s.has("ftz")) {
      a = flush_subnormal(a, format);
      b = flush_subnormal(b, format);
    }
    const Number x = decode(a, format), y = decode(b, format);
    const bool unordered = x.is_nan() || y.is_nan();
    if (comparison == "num") return !unordered;
    if (comparison == "nan") return unordered;
    if (unordered) return comparison.ends_with('u') && comparison.size() == 3;
    return holds(comparison, order(x, y));
  }
  const int bits = type_bits(type);
  if (type[0] == 's') {
    const Signed x = sign_extend(a, bits), y = sign_extend(b, bits);
    return holds(comparison, x < y ? -1 : x > y ? 1 : 0);
  }
  return holds(comparison, a < b ? -1 : a > b ? 1 : 0);
}

// With .and, .or or .xor the last operand is a predicate that is joined to the result.
bool joined(const Step& s, bool value, bool c) {
  if (s.has("and")) return value && c;
  if (s.has("or")) return value || c;
  if (s.has("xor")) return value != c;
  return value;
}
bool joins(const Step& s) {
  return s.has("and") || s.has("or") || s.has("xor");
}

void set_predicate(Step& s) {
  const std::string_view type = s.type();
  const bool c = joins(s) && s.predicate(3);
  const bool pair = s.operand(0).kind == ptx::Operand::Kind::predicate_pair;
  if (type.ends_with("x2")) {
    // p is the comparison of the low halves, q that of the high ones.
    const std::string_view half = type.substr(0, type.size() - 2);
    const Bits a = s.read(1, "b32"), b = s.read(2, "b32");
    s.write(s.operand(0).parts.at(0), joined(s, compare_values(s, half, a & 0xffff, b & 0xffff), c));
    s.write(s.operand(0).parts.at(1), joined(s, compare_values(s, half, a >> 16, b >> 16), c));
    return;
  }
  const bool value = compare_values(s, type, s.read(1, type), s.read(2, type));
  if (!pair) {
    s.write(0, joined(s, value, c));
    return;
  }
  s.write(s.operand(0).parts.at(0), joined(s, value, c));
  s.write(s.operand(0).parts.at(1), joined(s, !value, c));
}

Bits truth(std::string_view type, bool value) {
  if (!value) return 0;
  return is_float(type) ? encode(integer(false, 1), format_of(type), Round::zero) : mask_of(type_bits(type));
}

void set_value(Step& s) {
  const std::string_view result = s.type(0), type = s.type(1);
  const bool c = joins(s) && s.predicate(3);
  if (type.ends_with("x2")) {
    const std::string_view half = type.substr(0, type.size() - 2);
    const std::string_view result_half = result.ends_with("x2") ? result.substr(0, result.size() - 2) : "u16";
    const Bits a = s.read(1, "b32"), b = s.read(2, "b32");
    const Bits low = truth(result_half, joined(s, compare_values(s, half, a & 0xffff, b & 0xffff), c));
    const Bits high = truth(result_half, joined(s, compare_values(s, half, a >> 16, b >> 16), c));
    s.write(0, high << 16 | low);
    return;
  }
  s.write(0, truth(result, joined(s, compare_values(s, type, s.read(1, type), s.read(2, type)), c)));
}

}  // namespace

bool compare_op(Step& s) {
  const std::string_view opcode = s.instruction.opcode;
  if (opcode == "setp") {
    set_predicate(s);
  } else if (opcode == "set") {
    set_value(s);
  } else if (opcode == "selp") {
    s.write(0, s.read(s.predicate(3) ? 1 : 2, s.type()));
  } else if (opcode == "slct") {
    const std::string_view type = s.type(0), by = s.type(1);
    Bits c = s.read(3, by);
    bool first = false;
    if (by == "s32") {
      first = sign_extend(c, 32) >= 0;
    } else {
      const Format format = format_of(by);
      if (s.has("ftz")) c = flush_subnormal(c, format);
      const Number x = decode(c, format);
      first = !x.is_nan() && (x.is_zero() || !x.negative);
    }
    s.write(0, s.read(first ? 1 : 2, type));
  } else {
    return false;
  }
  return true;
}

}  // namespace flashmoe::vgpu::oracle
