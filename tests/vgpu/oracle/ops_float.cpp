// Floating-point arithmetic: PTX ISA 9.7.3 (f32, f64), 9.7.4 (half precision). One value at a time; a packed
// instruction is the same for each half.
#include <algorithm>
#include <cmath>
#include <functional>
#include <numbers>

#include "vgpu/oracle/step.hpp"

namespace flashmoe::vgpu::oracle {

namespace {

struct Scalar {  // one number of an instruction: how to read, calculate and leave it
  Step& s;
  std::string_view type{};
  Format format{};
  bool ftz = false;

  [[nodiscard]] Bits in(Bits bits) const { return ftz ? flush_subnormal(bits, format) : bits; }
  [[nodiscard]] Bits out(const Number& exact, Round round) const {
    Bits bits = encode(exact, format, round);
    if (ftz) bits = flush_subnormal(bits, format);
    return clamped(bits);
  }
  // .sat: [0, 1], NaN becomes +0. .relu: not below 0, NaN stays canonical.
  [[nodiscard]] Bits clamped(Bits bits) const {
    const Number value = decode(bits, format);
    if (s.has("sat")) {
      if (value.is_nan() || value.negative || value.is_zero()) return 0;
      const Number one = integer(false, 1);
      return order(value, one) > 0 ? encode(one, format, Round::zero) : bits;
    }
    if (s.has("relu") && !value.is_nan() && value.negative) return 0;
    return bits;
  }
};

Bits with_sign(Bits bits, const Format& format, bool negative) {
  const Bits sign = Bits{1} << (format.bits - 1);
  return negative ? bits | sign : bits & ~sign;
}
bool sign_of(Bits bits, const Format& format) {
  return (bits >> (format.bits - 1) & 1) != 0;
}

Bits extreme(const Scalar& n, Bits a, Bits b, bool want_max) {
  const Number x = decode(a, n.format), y = decode(b, n.format);
  if (x.is_nan() || y.is_nan()) {
    if (n.s.has("NaN") || (x.is_nan() && y.is_nan())) return n.format.canonical_nan;
    return x.is_nan() ? b : a;
  }
  int larger = order(x, y);
  if (larger == 0) larger = (x.negative ? 0 : 1) - (y.negative ? 0 : 1);  // +0 is greater than -0
  return (larger > 0) == want_max ? a : b;
}

Bits minimum_or_maximum(const Scalar& n, const std::vector<Bits>& in) {
  const bool want_max = n.s.instruction.opcode == "max";
  if (n.s.has("xorsign")) {
    const bool negative = sign_of(in[0], n.format) != sign_of(in[1], n.format);
    const Bits value =
        extreme(n, with_sign(n.in(in[0]), n.format, false), with_sign(n.in(in[1]), n.format, false), want_max);
    return decode(value, n.format).is_nan() ? n.format.canonical_nan : with_sign(value, n.format, negative);
  }
  Bits value = extreme(n, n.in(in[0]), n.in(in[1]), want_max);
  if (in.size() > 2) value = extreme(n, value, n.in(in[2]), want_max);
  return value;
}

// The functions the manual gives an error bound for: the nearest number to the true value, infinities and NaN exactly
// as its tables say. (ex2, lg2, sin, cos, tanh, rsqrt, and the .approx forms of rcp, sqrt, div)
Number approximate(const std::string_view opcode, const Number& x) {
  const long double value = approximate_value(x);
  if (opcode == "ex2") return number_from(std::exp2(value));
  if (opcode == "tanh") return number_from(std::tanh(value));
  if (opcode == "sin") return number_from(std::sin(value));
  if (opcode == "cos") return number_from(std::cos(value));
  if (opcode == "lg2") {
    if (x.is_zero()) return infinity(true);
    return number_from(std::log2(value));
  }
  if (opcode == "rsqrt") {
    if (x.is_zero()) return infinity(x.negative);
    return divide(integer(false, 1), square_root(x));
  }
  throw std::runtime_error("oracle: no function " + std::string(opcode));
}

// rcp.approx.ftz.f64 and rsqrt.approx.ftz.f64 look at the upper word only and leave the lower one zero (9.7.3.14).
Bits upper_word_only(const Scalar& n, Bits bits) {
  const Bits upper = mask_of(64) - mask_of(32);
  const Number x = decode(n.in(bits & upper), n.format);
  const Number result =
      n.s.instruction.opcode == "rcp" ? divide(integer(false, 1), x) : approximate(n.s.instruction.opcode, x);
  return n.out(result, Round::zero) & upper;
}

Bits calculate(const Scalar& n, const std::vector<Bits>& in) {
  const std::string_view opcode = n.s.instruction.opcode;
  if (n.type == "f64" && n.s.has("approx") && n.s.has("ftz")) return upper_word_only(n, in[0]);
  const Round round = n.s.round();
  if (opcode == "min" || opcode == "max") return minimum_or_maximum(n, in);
  if (opcode == "abs") return with_sign(n.in(in[0]), n.format, false);
  if (opcode == "neg") return with_sign(n.in(in[0]), n.format, !sign_of(in[0], n.format));
  if (opcode == "copysign") return with_sign(in[1], n.format, sign_of(in[0], n.format));

  std::vector<Number> x;
  for (const Bits bits : in) x.push_back(decode(n.in(bits), n.format));
  if (opcode == "add") return n.out(add(x[0], x[1], round), round);
  if (opcode == "sub") return n.out(add(x[0], negate(x[1]), round), round);
  if (opcode == "mul") return n.out(multiply(x[0], x[1]), round);
  if (opcode == "fma" || opcode == "mad") return n.out(add(multiply(x[0], x[1]), x[2], round), round);
  if (opcode == "rcp") return n.out(divide(integer(false, 1), x[0]), round);
  if (opcode == "sqrt") return n.out(square_root(x[0]), round);
  if (opcode == "div") {
    // div.approx with a divisor above 2^126 gives zero, and NaN for an infinite dividend (PTX ISA 9.7.3.8).
    const Number limit{.negative = false, .magnitude = Natural(1), .exponent = 126};
    Number divisor = x[1];
    divisor.negative = false;
    if (n.s.has("approx") && divisor.kind == Number::Kind::finite && order(divisor, limit) > 0 && !x[0].is_nan()) {
      if (x[0].is_infinite()) return n.format.canonical_nan;
      return n.out({.negative = x[0].negative != x[1].negative}, round);
    }
    return n.out(divide(x[0], x[1]), round);
  }
  return n.out(approximate(opcode, x[0]), round);
}

void test_property(Step& s) {
  const std::string_view type = s.type();
  const Format format = format_of(type);
  const Bits bits = s.read(1, type);
  const Number x = decode(bits, format);
  const bool finite = x.kind == Number::Kind::finite;
  bool holds = false;
  if (s.has("finite")) holds = finite;
  if (s.has("infinite")) holds = x.is_infinite();
  if (s.has("number")) holds = !x.is_nan();
  if (s.has("notanumber")) holds = x.is_nan();
  if (s.has("normal")) holds = finite && !is_subnormal(bits, format);
  if (s.has("subnormal")) holds = is_subnormal(bits, format);
  s.write(0, holds ? 1 : 0);
}

}  // namespace

bool float_op(Step& s) {
  static const std::vector<std::string> mine = {"add",  "sub", "mul", "fma",  "mad",  "div",      "rcp",
                                                "sqrt", "min", "max", "abs",  "neg",  "copysign", "ex2",
                                                "lg2",  "sin", "cos", "tanh", "rsqrt"};
  const std::string_view opcode = s.instruction.opcode;
  if (opcode == "testp") {
    test_property(s);
    return true;
  }
  if (std::find(mine.begin(), mine.end(), opcode) == mine.end()) return false;
  const std::string_view whole = s.type();
  const bool packed = whole.ends_with("x2");
  const std::string_view type = packed ? whole.substr(0, whole.size() - 2) : whole;
  const Scalar n{s, type, format_of(type), s.has("ftz")};
  Bits result = 0;
  for (int part = 0; part < (packed ? 2 : 1); ++part) {
    std::vector<Bits> in;
    for (std::size_t i = 1; i < s.operands(); ++i)
      in.push_back(s.read(i, packed ? "b32" : type) >> (16 * part) & mask_of(n.format.bits));
    result |= calculate(n, in) << (16 * part);
  }
  s.write(0, result);
  return true;
}

}  // namespace flashmoe::vgpu::oracle
