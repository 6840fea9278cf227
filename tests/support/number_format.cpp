#include "support/number_format.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "kernels/reference/number_formats.hpp"

namespace flashmoe::testing {
namespace {

struct Format {
  int fraction_bits;
  int min_exponent;  // of the smallest normal
  int max_exponent;
};

Format format_of(fms_dtype dtype) {
  switch (dtype) {
    case FMS_F16:
      return {10, -14, 15};
    case FMS_BF16:
      return {7, -126, 127};
    case FMS_F32:
      break;
  }
  return {23, -126, 127};
}

}  // namespace

size_t element_bytes(fms_dtype dtype) {
  return dtype == FMS_F32 ? 4 : 2;
}

const char* dtype_name(fms_dtype dtype) {
  return dtype == FMS_F16 ? "fp16" : dtype == FMS_BF16 ? "bf16" : dtype == FMS_F32 ? "fp32" : "unknown dtype";
}

double unit_roundoff(fms_dtype dtype) {
  return std::ldexp(1.0, -format_of(dtype).fraction_bits - 1);
}

double spacing_at(fms_dtype dtype, double value) {
  const Format format = format_of(dtype);
  const int exponent = value == 0 || !std::isfinite(value) ? format.min_exponent : std::ilogb(value);
  return std::ldexp(1.0, std::max(exponent, format.min_exponent) - format.fraction_bits);
}

double round_to(fms_dtype dtype, double value) {
  if (!std::isfinite(value)) {
    return value;
  }
  const Format format = format_of(dtype);
  const double spacing = spacing_at(dtype, value);
  const double rounded = std::nearbyint(value / spacing) * spacing;
  const double beyond_largest = std::ldexp(1.0, format.max_exponent + 1);
  return std::abs(rounded) >= beyond_largest ? std::copysign(std::numeric_limits<double>::infinity(), value) : rounded;
}

void store(void* array, fms_dtype dtype, int64_t index, double value) {
  char* bytes = static_cast<char*>(array);
  const double rounded = round_to(dtype, value);
  if (dtype != FMS_F16) {
    const float as_float = static_cast<float>(rounded);  // exact: every bf16 is a float
    uint32_t bits;
    std::memcpy(&bits, &as_float, sizeof bits);
    if (dtype == FMS_F32) {
      std::memcpy(bytes + index * 4, &bits, 4);
    } else {
      const auto upper_half = static_cast<uint16_t>(bits >> 16);
      std::memcpy(bytes + index * 2, &upper_half, 2);
    }
    return;
  }
  const double magnitude = std::abs(rounded);
  int bits;
  if (std::isnan(rounded)) {
    bits = 0x7e00;
  } else if (std::isinf(rounded)) {
    bits = 0x7c00;
  } else if (magnitude < 0x1p-14) {
    bits = static_cast<int>(magnitude * 0x1p24);
  } else {
    const int exponent = std::ilogb(magnitude);
    bits = ((exponent + 15) << 10) + static_cast<int>(std::ldexp(magnitude, 10 - exponent)) - 1024;
  }
  const auto with_sign = static_cast<uint16_t>(bits | (std::signbit(rounded) ? 0x8000 : 0));
  std::memcpy(bytes + index * 2, &with_sign, 2);
}

double load(const void* array, fms_dtype dtype, int64_t index) {
  return reference::read_element(array, dtype, index);
}

}  // namespace flashmoe::testing
