#include "workflow/runner/element.hpp"

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

namespace flashmoe::workflow {
namespace {

template <class T>
T load_as(const std::byte* at) {
  T value;
  std::memcpy(&value, at, sizeof value);
  return value;
}

template <class T>
void store_as(std::byte* at, T value) {
  std::memcpy(at, &value, sizeof value);
}

double half_to_double(std::uint16_t bits) {
  const int exponent = (bits >> 10) & 31;
  const int fraction = bits & 1023;
  const double sign = (bits & 0x8000) != 0 ? -1.0 : 1.0;
  if (exponent == 31) return fraction != 0 ? std::numeric_limits<double>::quiet_NaN() : sign * INFINITY;
  if (exponent == 0) return sign * std::ldexp(fraction, -24);
  return sign * std::ldexp(1024 + fraction, exponent - 25);
}

// One rounding from double, so that no second rounding through float shifts a tie.
std::uint16_t double_to_half(double value) {
  const auto bits = std::bit_cast<std::uint64_t>(value);
  const auto sign = static_cast<std::uint16_t>((bits >> 48) & 0x8000);
  if (std::isnan(value)) return static_cast<std::uint16_t>(sign | 0x7E00);
  const double magnitude = std::fabs(value);
  if (magnitude >= 65520.0) return static_cast<std::uint16_t>(sign | 0x7C00);
  if (magnitude < 0x1p-14) {
    return static_cast<std::uint16_t>(sign | static_cast<std::uint16_t>(std::nearbyint(magnitude * 0x1p24)));
  }
  const auto mantissa = std::bit_cast<std::uint64_t>(magnitude);
  const std::uint64_t half_ulp = (std::uint64_t{1} << 41) - 1 + ((mantissa >> 42) & 1);
  const std::uint64_t rounded = (mantissa + half_ulp) >> 42;
  return static_cast<std::uint16_t>(sign | static_cast<std::uint16_t>(rounded - (std::uint64_t{1008} << 10)));
}

std::uint16_t double_to_bfloat(double value) {
  if (std::isnan(value)) return 0x7FC0;
  // Round to odd first: the second rounding is then the only one that counts.
  auto narrow = static_cast<float>(value);
  auto bits = std::bit_cast<std::uint32_t>(narrow);
  if (std::isfinite(narrow) && static_cast<double>(narrow) != value) {
    if (std::fabs(static_cast<double>(narrow)) > std::fabs(value)) --bits;
    bits |= 1;
  }
  if (std::isinf(narrow) && std::isfinite(value)) bits = (bits & 0x80000000U) | 0x7F7FFFFFU;
  bits += 0x7FFF + ((bits >> 16) & 1);
  return static_cast<std::uint16_t>(bits >> 16);
}

template <class T>
T saturate(double value) {
  if (std::isnan(value)) return 0;
  constexpr double low = static_cast<double>(std::numeric_limits<T>::min());
  constexpr double high = static_cast<double>(std::numeric_limits<T>::max());
  if (value <= low) return std::numeric_limits<T>::min();
  if (value >= high) return std::numeric_limits<T>::max();
  return static_cast<T>(std::nearbyint(value));
}

constexpr std::uint64_t poison_f64 = 0x7FFADADADADADADA;
constexpr std::uint32_t poison_f32 = 0x7FDADADA;
constexpr std::uint16_t poison_f16 = 0x7EDA;
constexpr std::uint16_t poison_bf16 = 0x7FDA;

template <class Convert>
void store_all(std::byte* at, std::span<const double> values, Convert convert) {
  using T = decltype(convert(0.0));
  for (std::size_t i = 0; i < values.size(); ++i) store_as(at + i * sizeof(T), convert(values[i]));
}

template <class T>
bool holds(std::span<const std::byte> bytes, T value) {
  std::size_t found = 0;
  for (std::size_t i = 0; i < bytes.size() / sizeof value; ++i)
    found += load_as<T>(bytes.data() + i * sizeof value) == value ? 1 : 0;
  return found != 0;
}

template <class T>
void fill(std::span<std::byte> bytes, T value) {
  for (std::size_t at = 0; at + sizeof value <= bytes.size(); at += sizeof value) store_as(bytes.data() + at, value);
}

}  // namespace

std::size_t bytes_per_element(cudadent_dtype dtype) {
  switch (dtype) {
    case CUDADENT_F64:
    case CUDADENT_I64:
      return 8;
    case CUDADENT_F32:
    case CUDADENT_I32:
      return 4;
    case CUDADENT_F16:
    case CUDADENT_BF16:
      return 2;
    case CUDADENT_U8:
      return 1;
  }
  return 1;
}

const char* name_of(cudadent_dtype dtype) {
  switch (dtype) {
    case CUDADENT_F64:
      return "f64";
    case CUDADENT_F32:
      return "f32";
    case CUDADENT_F16:
      return "f16";
    case CUDADENT_BF16:
      return "bf16";
    case CUDADENT_I32:
      return "i32";
    case CUDADENT_I64:
      return "i64";
    case CUDADENT_U8:
      return "u8";
  }
  return "unknown";
}

bool is_floating(cudadent_dtype dtype) {
  return dtype == CUDADENT_F64 || dtype == CUDADENT_F32 || dtype == CUDADENT_F16 || dtype == CUDADENT_BF16;
}

double load_element(const std::byte* at, cudadent_dtype dtype) {
  switch (dtype) {
    case CUDADENT_F64:
      return load_as<double>(at);
    case CUDADENT_F32:
      return static_cast<double>(load_as<float>(at));
    case CUDADENT_F16:
      return half_to_double(load_as<std::uint16_t>(at));
    case CUDADENT_BF16:
      return static_cast<double>(std::bit_cast<float>(static_cast<std::uint32_t>(load_as<std::uint16_t>(at)) << 16));
    case CUDADENT_I32:
      return static_cast<double>(load_as<std::int32_t>(at));
    case CUDADENT_I64:
      return static_cast<double>(load_as<std::int64_t>(at));
    case CUDADENT_U8:
      return static_cast<double>(load_as<std::uint8_t>(at));
  }
  return 0;
}

void store_elements(std::byte* at, cudadent_dtype dtype, std::span<const double> values) {
  switch (dtype) {
    case CUDADENT_F64:
      return store_all(at, values, [](double value) { return value; });
    case CUDADENT_F32:
      return store_all(at, values, [](double value) { return static_cast<float>(value); });
    case CUDADENT_F16:
      return store_all(at, values, double_to_half);
    case CUDADENT_BF16:
      return store_all(at, values, double_to_bfloat);
    case CUDADENT_I32:
      return store_all(at, values, saturate<std::int32_t>);
    case CUDADENT_I64:
      return store_all(at, values, saturate<std::int64_t>);
    case CUDADENT_U8:
      return store_all(at, values, saturate<std::uint8_t>);
  }
}

void store_element(std::byte* at, cudadent_dtype dtype, double value) {
  store_elements(at, dtype, std::span(&value, 1));
}

void poison(std::span<std::byte> bytes, cudadent_dtype dtype, std::uint64_t salt) {
  switch (dtype) {
    case CUDADENT_F64:
      return fill(bytes, poison_f64);
    case CUDADENT_F32:
      return fill(bytes, poison_f32);
    case CUDADENT_F16:
      return fill(bytes, poison_f16);
    case CUDADENT_BF16:
      return fill(bytes, poison_bf16);
    case CUDADENT_I32:
      return fill(bytes, static_cast<std::uint32_t>(salt));
    case CUDADENT_I64:
      return fill(bytes, salt);
    case CUDADENT_U8:
      return fill(bytes, static_cast<std::uint8_t>(salt));
  }
}

bool is_poison(const std::byte* at, cudadent_dtype dtype) {
  switch (dtype) {
    case CUDADENT_F64:
      return load_as<std::uint64_t>(at) == poison_f64;
    case CUDADENT_F32:
      return load_as<std::uint32_t>(at) == poison_f32;
    case CUDADENT_F16:
      return load_as<std::uint16_t>(at) == poison_f16;
    case CUDADENT_BF16:
      return load_as<std::uint16_t>(at) == poison_bf16;
    case CUDADENT_I32:
    case CUDADENT_I64:
    case CUDADENT_U8:
      return false;
  }
  return false;
}

bool any_poison(std::span<const std::byte> bytes, cudadent_dtype dtype) {
  switch (dtype) {
    case CUDADENT_F64:
      return holds(bytes, poison_f64);
    case CUDADENT_F32:
      return holds(bytes, poison_f32);
    case CUDADENT_F16:
      return holds(bytes, poison_f16);
    case CUDADENT_BF16:
      return holds(bytes, poison_bf16);
    case CUDADENT_I32:
    case CUDADENT_I64:
    case CUDADENT_U8:
      return false;
  }
  return false;
}

double smallest_denormal(cudadent_dtype dtype) {
  switch (dtype) {
    case CUDADENT_F64:
      return 0x1p-1074;
    case CUDADENT_F32:
      return 0x1p-149;
    case CUDADENT_F16:
      return 0x1p-24;
    default:
      return 0x1p-133;
  }
}

}  // namespace flashmoe::workflow
