// Formats and rounding for the tests, written from their definition: a number is an integer times a power of two, and
// rounding looks at what is left of it. 113-bit arithmetic holds every sum of products of halves exactly.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace flashmoe::vgpu::exec::ops {

__extension__ typedef __float128 Quad;  // NOLINT(modernize-use-using): __extension__ wants a declaration

struct ReferenceFormat {
  int precision;  // with the leading one
  int smallest;   // exponent of the smallest normal number
  int largest;    // exponent of the largest number
  int bits;       // all of them
};
inline constexpr ReferenceFormat reference_f16{11, -14, 15, 16}, reference_bf16{8, -126, 127, 16},
    reference_f32{24, -126, 127, 32}, reference_tf32{11, -126, 127, 19}, reference_e5m2{3, -14, 15, 8},
    reference_e4m3{4, -6, 8, 8};

inline Quad power_of_two(int exponent) {
  constexpr int reach = 1200;
  static const std::vector<Quad> powers = [] {
    std::vector<Quad> result(2 * reach + 1, Quad(1));
    for (int i = 1; i <= reach; ++i) {
      result[reach + i] = result[reach + i - 1] * 2;
      result[reach - i] = result[reach - i + 1] / 2;
    }
    return result;
  }();
  return powers.at(static_cast<std::size_t>(reach + exponent));
}

inline bool is_nan(Quad x) {
  return x != x;
}

// The value of a pattern; e4m3 (its exponent reaches 8, one more than symmetric) has NaN only at all ones.
inline Quad decode(std::uint64_t bits, const ReferenceFormat& f) {
  const int fraction_bits = f.precision - 1, exponent_bits = f.bits - f.precision;
  const bool negative = (bits >> (f.bits - 1) & 1u) != 0;
  const auto fraction = static_cast<std::uint32_t>(bits & ((1ull << fraction_bits) - 1));
  const auto field = static_cast<int>(bits >> fraction_bits & ((1ull << exponent_bits) - 1));
  const bool top = field == (1 << exponent_bits) - 1;
  Quad value = 0;
  if (f.bits == 8 && f.precision == 4 ? top && fraction == 7 : top && fraction != 0) {
    return Quad(0) / Quad(0);
  }
  if (top && !(f.bits == 8 && f.precision == 4)) {
    value = Quad(1) / Quad(0);
  } else if (field == 0) {
    value = Quad(fraction) * power_of_two(f.smallest - fraction_bits);
  } else {
    value = Quad(fraction + (1u << fraction_bits)) * power_of_two(f.smallest + field - 1 - fraction_bits);
  }
  return negative ? -value : value;
}

enum class Toward { nearest_even, nearest_away, zero, down, up };

// The pattern nearest to x in the given direction; overflow is all ones in the exponent.
inline std::uint64_t encode(Quad x, bool negative, const ReferenceFormat& f, Toward toward) {
  const int fraction_bits = f.precision - 1;
  const std::uint64_t sign = static_cast<std::uint64_t>(negative) << (f.bits - 1);
  const std::uint64_t infinity = ((1ull << (f.bits - f.precision)) - 1) << fraction_bits;
  if (is_nan(x)) return (1ull << (f.bits - 1)) - 1;
  Quad magnitude = x < 0 ? -x : x;
  if (magnitude == 0) return sign;
  if (magnitude == magnitude / 2) return sign | infinity;
  if (magnitude > power_of_two(f.largest + 2)) magnitude = power_of_two(f.largest + 2);
  int exponent = magnitude < Quad(0x1p-1000) ? f.smallest : std::ilogb(static_cast<double>(magnitude));
  if (exponent >= -1000 && magnitude < power_of_two(exponent)) --exponent;  // the double was rounded up
  if (exponent < f.smallest) exponent = f.smallest;
  const Quad scaled = magnitude * power_of_two(fraction_bits - exponent);  // in units of the last place
  auto whole = static_cast<std::uint64_t>(scaled);
  const Quad rest = scaled - Quad(whole);
  const bool up = toward == Toward::nearest_even   ? rest > Quad(0.5) || (rest == Quad(0.5) && (whole & 1u) != 0)
                  : toward == Toward::nearest_away ? rest >= Quad(0.5)
                  : toward == Toward::down         ? negative && rest > 0
                  : toward == Toward::up           ? !negative && rest > 0
                                                   : false;
  if (up) ++whole;
  if (whole == 2ull << fraction_bits) {
    whole /= 2;
    ++exponent;
  }
  const bool normal = whole >= 1ull << fraction_bits;
  if (exponent > f.largest) {
    const bool stays =
        toward == Toward::zero || (toward == Toward::down && !negative) || (toward == Toward::up && negative);
    return sign | (stays ? infinity - 1 : infinity);
  }
  const std::uint64_t field = normal ? static_cast<std::uint64_t>(exponent - f.smallest + 1) << fraction_bits : 0;
  return sign | field | (whole & ((1ull << fraction_bits) - 1));
}

inline bool sign_of(std::uint64_t bits, const ReferenceFormat& f) {
  return (bits >> (f.bits - 1) & 1u) != 0;
}

}  // namespace flashmoe::vgpu::exec::ops
