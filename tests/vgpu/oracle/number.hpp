// Floating-point numbers as exact values: decode, calculate without rounding, encode with one rounding at the end
// (IEEE 754, which PTX ISA 9.7.3 to 9.7.5 refer to).
#pragma once

#include <string_view>

#include "vgpu/oracle/natural.hpp"

namespace flashmoe::vgpu::oracle {

struct Format {
  int exponent_bits = 8, fraction_bits = 23;
  int bits = 32;             // of the register's part that holds it
  int shift = 0;             // unused bits below the fraction: tf32 is a float whose last 13 bits do not count
  bool has_infinity = true;  // e4m3 has none, and one NaN: all ones
  Bits canonical_nan = 0x7fffffff;
  [[nodiscard]] int bias() const { return (1 << (exponent_bits - 1)) - 1; }
};
// f16, bf16, f32, f64, tf32, e4m3, e5m2
[[nodiscard]] Format format_of(std::string_view type);

enum class Round { nearest_even, nearest_away, zero, down, up };

// (-1)^negative * magnitude * 2^exponent
struct Number {
  enum class Kind { finite, infinite, nan } kind = Kind::finite;
  bool negative = false;
  Natural magnitude{};
  int exponent = 0;
  [[nodiscard]] bool is_zero() const { return kind == Kind::finite && magnitude.is_zero(); }
  [[nodiscard]] bool is_nan() const { return kind == Kind::nan; }
  [[nodiscard]] bool is_infinite() const { return kind == Kind::infinite; }
};
[[nodiscard]] Number not_a_number();
[[nodiscard]] Number infinity(bool negative);
[[nodiscard]] Number integer(bool negative, Bits magnitude);
[[nodiscard]] Number negate(Number a);

[[nodiscard]] Number decode(Bits bits, const Format& format);
// Overflow goes to infinity or to the greatest finite number, as the rounding says.
[[nodiscard]] Bits encode(const Number& value, const Format& format, Round round);
[[nodiscard]] Number greatest(const Format& format);

// Exact results. `round` only decides the sign of a sum that cancels to zero.
[[nodiscard]] Number add(const Number& a, const Number& b, Round round);
[[nodiscard]] Number multiply(const Number& a, const Number& b);
// Results with 130 places more than any format has, the last of which stands for all that follow: rounding them is
// rounding the exact result.
[[nodiscard]] Number divide(const Number& a, const Number& b);
[[nodiscard]] Number square_root(const Number& a);

[[nodiscard]] Number round_to_integer(const Number& a, Round round);
// Is the encoding a subnormal number?
[[nodiscard]] bool is_subnormal(Bits bits, const Format& format);
[[nodiscard]] Bits flush_subnormal(Bits bits, const Format& format);  // to zero of the same sign
// -1, 0, 1; neither may be NaN.
[[nodiscard]] int order(const Number& a, const Number& b);

[[nodiscard]] long double approximate_value(const Number& a);
[[nodiscard]] Number number_from(long double value);

}  // namespace flashmoe::vgpu::oracle
