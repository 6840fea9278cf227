// IEEE 754 binary16 by its definition: 1 sign, 5 exponent (bias 15) and 10 fraction bits.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

inline double decode_f16(std::uint16_t bits) {
  const double sign = (bits & 0x8000) != 0 ? -1.0 : 1.0;
  const int exponent = (bits >> 10) & 0x1f;
  const int fraction = bits & 0x3ff;
  if (exponent == 0x1f) {
    return fraction != 0 ? std::numeric_limits<double>::quiet_NaN() : sign * std::numeric_limits<double>::infinity();
  }
  return sign * (exponent == 0 ? std::ldexp(fraction, -24) : std::ldexp(1024 + fraction, exponent - 25));
}

// Nearest, ties to even.
inline std::uint16_t encode_f16(double value) {
  if (std::isnan(value)) return 0x7e00;
  const std::uint16_t sign = std::signbit(value) ? 0x8000 : 0;
  const double magnitude = std::abs(value);
  if (magnitude >= 65520) return sign | 0x7c00;  // half way beyond the largest finite, and infinity
  if (magnitude == 0) return sign;
  const int exponent = std::max(std::ilogb(magnitude), -14);  // -14: the subnormals' too
  const auto units =
      std::nearbyint(std::ldexp(magnitude, 10 - exponent));  // of 2^(exponent - 10); 1024 is the implicit bit
  return static_cast<std::uint16_t>(sign | (((exponent + 14) << 10) + static_cast<int>(units)));
}
