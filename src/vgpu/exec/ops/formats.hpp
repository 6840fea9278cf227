// Floating-point formats as data, and the one place where a number is rounded into any of them, in any direction.
#pragma once

#include "vgpu/exec/ops/floats.hpp"

namespace flashmoe::vgpu::exec::ops::VGPU_VARIANT {
namespace {

struct Format {
  int fraction_bits;
  int bias;
  std::uint64_t largest;   // pattern of the largest finite number
  std::uint64_t infinity;  // or, where there is none, what stands for it: NaN
  std::uint64_t nan;
  int sign_bit;
};

inline constexpr Format format_f16{10, 15, 0x7bff, 0x7c00, 0x7fff, 15};
inline constexpr Format format_bf16{7, 127, 0x7f7f, 0x7f80, 0x7fff, 15};
inline constexpr Format format_tf32{10,      127,     0x3fbff,
                                    0x3fc00, 0x3ffff, 18};  // of 19 bits; stored in the upper ones of 32
inline constexpr Format format_f32{23, 127, 0x7f7fffff, infinity_f32, nan_f32, 31};
inline constexpr Format format_f64{52, 1023, 0x7fefffffffffffff, 0x7ff0000000000000, nan_f64, 63};
inline constexpr Format format_e4m3{3, 7, 0x7e, 0x7f, 0x7f, 7};
inline constexpr Format format_e5m2{2, 15, 0x7b, 0x7c, 0x7f, 7};

// +-magnitude 2^exponent.
struct Exact {
  bool negative = false;
  std::uint64_t magnitude = 0;
  int exponent = 0;
};

inline bool rounds_up(Rounding rounding, bool negative, bool odd, std::uint64_t rest, std::uint64_t half) {
  switch (rounding) {
    case Rounding::rz:
      return false;
    case Rounding::rm:
      return negative && rest != 0;
    case Rounding::rp:
      return !negative && rest != 0;
    case Rounding::rna:
      return rest >= half;
    default:
      return rest > half || (rest == half && odd);
  }
}

// Beyond the largest: infinity, unless the direction leads back to finite numbers or .satfinite asks for them.
inline std::uint64_t overflow(const Format& format, Rounding rounding, bool negative, bool satfinite) {
  const bool inward =
      rounding == Rounding::rz || (rounding == Rounding::rm && !negative) || (rounding == Rounding::rp && negative);
  return satfinite || inward ? format.largest : format.infinity;
}

inline std::uint64_t round_into(const Format& format, const Exact& x, Rounding rounding, bool satfinite) {
  const std::uint64_t sign = (x.negative ? std::uint64_t{1} : std::uint64_t{0}) << format.sign_bit;
  if (x.magnitude == 0) return sign;
  const int leading = 63 - __builtin_clzll(x.magnitude);
  const int smallest = 1 - format.bias;  // exponent of the smallest normal number
  const int exponent = x.exponent + leading > smallest ? x.exponent + leading : smallest;
  const int drop = exponent - format.fraction_bits - x.exponent;  // bits below the last one that is kept
  std::uint64_t kept = 0, rest = 0, half = 1;
  if (drop <= 0) {
    kept = x.magnitude << -drop;  // NOLINT(clang-analyzer-core.*): by at most fraction_bits, since leading >= 0
  } else if (drop <= 64) {
    kept = drop == 64 ? 0 : x.magnitude >> drop;
    rest = drop == 64 ? x.magnitude : x.magnitude & ((std::uint64_t{1} << drop) - 1);
    half = std::uint64_t{1} << (drop - 1);
  } else {
    rest = 1;  // something, and less than half
    half = 2;
  }
  if (rounds_up(rounding, x.negative, (kept & 1u) != 0, rest, half)) ++kept;
  // The leading one of a normal number adds itself to the exponent field, and so does a carry out of the fraction.
  const std::uint64_t bits = kept + (static_cast<std::uint64_t>(exponent - smallest) << format.fraction_bits);
  return sign | (bits > format.largest ? overflow(format, rounding, x.negative, satfinite) : bits);
}

// A finite double, taken apart.
inline Exact exact_of(double x) {
  const std::uint64_t bits = bits_of(x);
  const auto field = static_cast<int>(bits >> 52 & 0x7ffu);
  const std::uint64_t fraction = bits & 0xfffffffffffffu;
  Exact result;
  result.negative = bits >> 63 != 0;
  result.magnitude = field == 0 ? fraction : fraction | std::uint64_t{1} << 52;
  result.exponent = (field == 0 ? 1 : field) - 1075;
  return result;
}

inline std::uint64_t round_into(const Format& format, double x, Rounding rounding, bool satfinite) {
  if (x != x) return format.nan;
  if (__builtin_isinf(x)) {
    const std::uint64_t sign = (x < 0 ? std::uint64_t{1} : std::uint64_t{0}) << format.sign_bit;
    return sign | (satfinite ? format.largest : format.infinity);
  }
  return round_into(format, exact_of(x), rounding, satfinite);
}

}  // namespace
}  // namespace flashmoe::vgpu::exec::ops::VGPU_VARIANT
