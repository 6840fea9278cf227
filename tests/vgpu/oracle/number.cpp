#include "vgpu/oracle/number.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>
#include <string>

namespace flashmoe::vgpu::oracle {

namespace {

constexpr int extra_places = 130;

Natural rounded_quotient_of_power(const Natural& magnitude, int dropped, bool negative, Round round) {
  Natural kept = magnitude >> dropped;
  const bool half = magnitude.bit(dropped - 1);
  const bool below_half = magnitude.any_below(dropped - 1);
  bool up = false;
  switch (round) {
    case Round::nearest_even:
      up = half && (below_half || kept.bit(0));
      break;
    case Round::nearest_away:
      up = half;
      break;
    case Round::zero:
      break;
    case Round::down:
      up = negative && (half || below_half);
      break;
    case Round::up:
      up = !negative && (half || below_half);
      break;
  }
  if (up) kept = kept + Natural(1);
  return kept;
}

Bits sign_bit(const Format& format) {
  return Bits{1} << (format.bits - 1);
}

}  // namespace

Format format_of(std::string_view type) {
  if (type == "f16") return {5, 10, 16, 0, true, 0x7fff};
  if (type == "bf16") return {8, 7, 16, 0, true, 0x7fff};
  if (type == "f32") return {8, 23, 32, 0, true, 0x7fffffff};
  if (type == "f64") return {11, 52, 64, 0, true, 0x7fffffffffffffff};
  if (type == "tf32") return {8, 10, 32, 13, true, 0x7fffe000};
  if (type == "e4m3") return {4, 3, 8, 0, false, 0x7f};
  if (type == "e5m2") return {5, 2, 8, 0, true, 0x7f};
  throw std::runtime_error("the oracle knows no floating-point type ." + std::string(type));
}

Number not_a_number() {
  return {.kind = Number::Kind::nan};
}
Number infinity(bool negative) {
  return {.kind = Number::Kind::infinite, .negative = negative};
}
Number integer(bool negative, Bits magnitude) {
  return {.negative = negative, .magnitude = Natural(magnitude)};
}

Number negate(Number a) {
  a.negative = !a.negative;
  return a;
}

Number decode(Bits bits, const Format& format) {
  const bool negative = (bits & sign_bit(format)) != 0;
  bits >>= format.shift;
  const Bits fraction_mask = (Bits{1} << format.fraction_bits) - 1;
  const Bits fraction = bits & fraction_mask;
  const int top = (1 << format.exponent_bits) - 1;
  const int biased = static_cast<int>(bits >> format.fraction_bits) & top;
  if (biased == top && format.has_infinity) return fraction == 0 ? infinity(negative) : not_a_number();
  if (biased == top && fraction == fraction_mask) return not_a_number();
  const bool normal = biased != 0;
  return {.negative = negative,
          .magnitude = Natural(fraction | (normal ? Bits{1} << format.fraction_bits : 0)),
          .exponent = (normal ? biased : 1) - format.bias() - format.fraction_bits};
}

Number greatest(const Format& format) {
  const int top = (1 << format.exponent_bits) - 1;
  const Bits infinity_or_nan = (Bits(top) << format.fraction_bits);
  const Bits all_ones = infinity_or_nan | ((Bits{1} << format.fraction_bits) - 1);
  return decode(((format.has_infinity ? infinity_or_nan : all_ones) - 1) << format.shift, format);
}

Bits encode(const Number& value, const Format& format, Round round) {
  if (value.is_nan()) return format.canonical_nan;
  const Bits sign = value.negative ? sign_bit(format) : 0;
  const int top = (1 << format.exponent_bits) - 1;
  const Bits infinite = format.has_infinity ? Bits(top) << (format.fraction_bits + format.shift) : format.canonical_nan;
  if (value.is_infinite()) return sign | infinite;
  if (value.is_zero()) return sign;

  // The place of the last bit that is kept: one fraction below the leading bit, but not below the least subnormal.
  const int least = 1 - format.bias() - format.fraction_bits;
  const int last = std::max(value.magnitude.length() + value.exponent - 1 - format.fraction_bits, least);
  Natural kept = value.exponent >= last
                     ? value.magnitude << (value.exponent - last)
                     : rounded_quotient_of_power(value.magnitude, last - value.exponent, value.negative, round);
  if (kept.is_zero()) return sign;
  const Number rounded{.negative = false, .magnitude = kept, .exponent = last};
  const Number most = greatest(format);
  if (order(rounded, most) > 0) {
    const bool to_infinity = round == Round::nearest_even || round == Round::nearest_away ||
                             (round == Round::up && !value.negative) || (round == Round::down && value.negative);
    return to_infinity ? sign | infinite : sign | encode(most, format, Round::zero);
  }
  if (kept.length() <= format.fraction_bits) return sign | kept.low() << format.shift;  // subnormal
  const int biased = last + kept.length() - 1 + format.bias();
  const Bits fraction =
      (kept >> (kept.length() - 1 - format.fraction_bits)).low() & ((Bits{1} << format.fraction_bits) - 1);
  return sign | (Bits(biased) << format.fraction_bits | fraction) << format.shift;
}

Number add(const Number& a, const Number& b, Round round) {
  if (a.is_nan() || b.is_nan()) return not_a_number();
  if (a.is_infinite() && b.is_infinite() && a.negative != b.negative) return not_a_number();
  if (a.is_infinite()) return a;
  if (b.is_infinite()) return b;
  const int exponent = std::min(a.exponent, b.exponent);
  const Natural left = a.magnitude << (a.exponent - exponent);
  const Natural right = b.magnitude << (b.exponent - exponent);
  if (a.negative == b.negative) return {.negative = a.negative, .magnitude = left + right, .exponent = exponent};
  const int larger = compare(left, right);
  if (larger == 0) return {.negative = round == Round::down};
  return larger > 0 ? Number{.negative = a.negative, .magnitude = left - right, .exponent = exponent}
                    : Number{.negative = b.negative, .magnitude = right - left, .exponent = exponent};
}

Number multiply(const Number& a, const Number& b) {
  if (a.is_nan() || b.is_nan()) return not_a_number();
  const bool negative = a.negative != b.negative;
  if (a.is_infinite() || b.is_infinite()) return a.is_zero() || b.is_zero() ? not_a_number() : infinity(negative);
  return {.negative = negative, .magnitude = a.magnitude * b.magnitude, .exponent = a.exponent + b.exponent};
}

Number divide(const Number& a, const Number& b) {
  if (a.is_nan() || b.is_nan()) return not_a_number();
  const bool negative = a.negative != b.negative;
  if (a.is_infinite()) return b.is_infinite() ? not_a_number() : infinity(negative);
  if (b.is_zero()) return a.is_zero() ? not_a_number() : infinity(negative);
  if (b.is_infinite() || a.is_zero()) return {.negative = negative};
  const int shift = extra_places + std::max(0, b.magnitude.length() - a.magnitude.length());
  const Division division = divide(a.magnitude << shift, b.magnitude);
  const Natural sticky(division.remainder.is_zero() ? 0 : 1);
  return {.negative = negative,
          .magnitude = (division.quotient << 1) + sticky,
          .exponent = a.exponent - b.exponent - shift - 1};
}

Number square_root(const Number& a) {
  if (a.is_nan() || (a.negative && !a.is_zero())) return not_a_number();
  if (a.is_infinite() || a.is_zero()) return a;
  const int shift = 2 * extra_places + (a.exponent % 2 != 0 ? 1 : 0);
  const Natural widened = a.magnitude << shift;
  const Natural root = square_root(widened);
  const Natural sticky(compare(root * root, widened) == 0 ? 0 : 1);
  return {.negative = false, .magnitude = (root << 1) + sticky, .exponent = (a.exponent - shift) / 2 - 1};
}

Number round_to_integer(const Number& a, Round round) {
  if (a.kind != Number::Kind::finite || a.exponent >= 0) return a;
  return {.negative = a.negative,
          .magnitude = rounded_quotient_of_power(a.magnitude, -a.exponent, a.negative, round),
          .exponent = 0};
}

bool is_subnormal(Bits bits, const Format& format) {
  const Number value = decode(bits, format);
  return value.kind == Number::Kind::finite && !value.is_zero() && value.magnitude.length() <= format.fraction_bits;
}

Bits flush_subnormal(Bits bits, const Format& format) {
  return is_subnormal(bits, format) ? bits & sign_bit(format) : bits;
}

int order(const Number& a, const Number& b) {
  const auto sign = [](const Number& n) { return n.is_zero() ? 0 : n.negative ? -1 : 1; };
  if (sign(a) != sign(b)) return sign(a) < sign(b) ? -1 : 1;
  if (sign(a) == 0) return 0;
  if (a.is_infinite() || b.is_infinite()) {
    const int magnitude = int{a.is_infinite()} - int{b.is_infinite()};
    return sign(a) * magnitude;
  }
  const auto leading = [](const Number& n) { return n.magnitude.length() + n.exponent; };
  if (leading(a) != leading(b)) return leading(a) < leading(b) ? -sign(a) : sign(a);
  const int exponent = std::min(a.exponent, b.exponent);
  return sign(a) * compare(a.magnitude << (a.exponent - exponent), b.magnitude << (b.exponent - exponent));
}

long double approximate_value(const Number& a) {
  if (a.is_nan()) return std::numeric_limits<long double>::quiet_NaN();
  if (a.is_infinite())
    return a.negative ? -std::numeric_limits<long double>::infinity() : std::numeric_limits<long double>::infinity();
  const int dropped = std::max(0, a.magnitude.length() - 64);
  const auto leading = static_cast<long double>(static_cast<std::uint64_t>((a.magnitude >> dropped).low()));
  const long double value = std::ldexp(leading, a.exponent + dropped);
  return a.negative ? -value : value;
}

Number number_from(long double value) {
  if (std::isnan(value)) return not_a_number();
  if (std::isinf(value)) return infinity(value < 0);
  int exponent = 0;
  const long double fraction = std::frexp(std::fabs(value), &exponent);
  return {.negative = std::signbit(value),
          .magnitude = Natural(static_cast<std::uint64_t>(std::ldexp(fraction, 64))),
          .exponent = exponent - 64};
}

}  // namespace flashmoe::vgpu::oracle
