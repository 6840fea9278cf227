// Exact decoding of the storage formats. Written from the format definitions and shared with nobody: a helper
// used by both the judge and the judged would let one bug cancel out.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>

#include "flashmoe/flashmoe.h"

namespace flashmoe::reference {

// IEEE 754 binary16: 1 sign, 5 exponent (bias 15), 10 fraction bits.
inline double decode_f16(uint16_t bits) {
  const double sign = (bits & 0x8000u) != 0 ? -1.0 : 1.0;
  const int exponent = (bits >> 10) & 0x1f;
  const int fraction = bits & 0x3ff;
  if (exponent == 0x1f) {
    return fraction != 0 ? std::numeric_limits<double>::quiet_NaN() : sign * std::numeric_limits<double>::infinity();
  }
  if (exponent == 0) {
    return sign * fraction * 0x1p-24;  // subnormal: fraction * 2^-10 * 2^-14
  }
  return sign * std::ldexp(1024 + fraction, exponent - 25);  // (1 + fraction / 2^10) * 2^(exponent - 15)
}

inline double decode_f32(uint32_t bits) {
  float value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

// bfloat16 is the upper half of a binary32.
inline double decode_bf16(uint16_t bits) {
  return decode_f32(static_cast<uint32_t>(bits) << 16);
}

// 1 sign, 4 exponent (bias 7), 3 fraction bits; all of exponent and fraction set is NaN, and there is no infinity.
inline double decode_e4m3(uint8_t bits) {
  const double sign = (bits & 0x80u) != 0 ? -1.0 : 1.0;
  const int exponent = (bits >> 3) & 0xf;
  const int fraction = bits & 0x7;
  if (exponent == 0xf && fraction == 0x7) {
    return std::numeric_limits<double>::quiet_NaN();
  }
  if (exponent == 0) {
    return sign * fraction * 0x1p-9;  // subnormal: fraction * 2^-3 * 2^-6
  }
  return sign * std::ldexp(8 + fraction, exponent - 10);  // (1 + fraction / 2^3) * 2^(exponent - 7)
}

// Element `index` of an array of `dtype`; the array needs no alignment.
inline double read_element(const void* array, fms_dtype dtype, int64_t index) {
  const char* bytes = static_cast<const char*>(array);
  if (dtype == FMS_F32) {
    uint32_t bits;
    std::memcpy(&bits, bytes + index * 4, sizeof bits);
    return decode_f32(bits);
  }
  uint16_t bits;
  std::memcpy(&bits, bytes + index * 2, sizeof bits);
  return dtype == FMS_F16 ? decode_f16(bits) : decode_bf16(bits);
}

}  // namespace flashmoe::reference
