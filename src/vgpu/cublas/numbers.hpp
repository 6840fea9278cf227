// Elements of matrices in memory, and as the numbers that are computed with.
#pragma once

#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>

#include "vgpu/cublas/cublas_abi.hpp"

namespace flashmoe::vgpu::cublas {

struct Half {
  std::uint16_t bits = 0;
};
struct Bfloat16 {
  std::uint16_t bits = 0;
};

inline float number(float x) {
  return x;
}
inline double number(double x) {
  return x;
}
inline double number(std::int8_t x) {
  return x;
}
inline double number(std::int32_t x) {
  return x;
}
inline float number(Bfloat16 x) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(x.bits) << 16U);
}
inline float number(Half x) {
  // The exponent of fp32 is 112 larger; the product is exact for subnormal numbers too.
  const std::uint32_t magnitude = static_cast<std::uint32_t>(x.bits & 0x7fffU) << 13U;
  float value = std::bit_cast<float>(magnitude) * 0x1p112F;
  if ((x.bits & 0x7c00U) == 0x7c00U) value = std::bit_cast<float>(magnitude | 0x7f800000U);
  return std::bit_cast<float>(std::bit_cast<std::uint32_t>(value) | static_cast<std::uint32_t>(x.bits & 0x8000U)
                                                                        << 16U);
}

// To the nearest, ties to even.
inline void store(float x, Bfloat16& to) {
  const auto bits = std::bit_cast<std::uint32_t>(x);
  to.bits =
      static_cast<std::uint16_t>(std::isnan(x) ? bits >> 16U | 0x40U : (bits + 0x7fffU + (bits >> 16U & 1U)) >> 16U);
}
inline void store(float x, Half& to) {
  const auto bits = std::bit_cast<std::uint32_t>(x);
  const std::uint32_t sign = bits >> 16U & 0x8000U, magnitude = bits & 0x7fffffffU;
  std::uint32_t rounded = 0;
  if (magnitude > 0x7f800000U)
    rounded = 0x7e00U;
  else if (magnitude >= 0x47800000U)  // 65536
    rounded = 0x7c00U;
  else if (magnitude < 0x38800000U)  // below the smallest normal one: 0.5 has its last bit where subnormals have theirs
    rounded = std::bit_cast<std::uint32_t>(std::bit_cast<float>(magnitude) + 0.5F) - 0x3f000000U;
  else
    rounded = (magnitude - (112U << 23U) + 0xfffU + (magnitude >> 13U & 1U)) >> 13U;
  to.bits = static_cast<std::uint16_t>(sign | rounded);
}
// Into an element of any type that results have; integers wrap as theirs do.
template <class T, class To>
void put(T value, To& to) {
  if constexpr (std::is_same_v<To, Half> || std::is_same_v<To, Bfloat16>)
    store(static_cast<float>(value), to);
  else if constexpr (std::is_integral_v<To>)
    to = static_cast<To>(static_cast<std::int64_t>(value));
  else
    to = static_cast<To>(value);
}

// Bytes of an element of a cudaDataType; 0: none that is computed with here.
inline std::size_t bytes_of(int type) {
  switch (type) {
    case CUDA_R_64F:
      return 8;
    case CUDA_R_32F:
    case CUDA_R_32I:
      return 4;
    case CUDA_R_16F:
    case CUDA_R_16BF:
      return 2;
    case CUDA_R_8I:
      return 1;
    default:
      return 0;
  }
}

// Calls body with a null pointer to the type's elements.
template <class Body>
void with_type(int type, const Body& body) {
  switch (type) {
    case CUDA_R_64F:
      return body(static_cast<double*>(nullptr));
    case CUDA_R_32F:
      return body(static_cast<float*>(nullptr));
    case CUDA_R_16F:
      return body(static_cast<Half*>(nullptr));
    case CUDA_R_16BF:
      return body(static_cast<Bfloat16*>(nullptr));
    case CUDA_R_32I:
      return body(static_cast<std::int32_t*>(nullptr));
    case CUDA_R_8I:
      return body(static_cast<std::int8_t*>(nullptr));
    default:
      return;
  }
}

// A scalar of the type; NaN of a type that is none.
inline double read_scalar(int type, const void* at) {
  double value = std::numeric_limits<double>::quiet_NaN();
  with_type(type, [&](auto* tag) {
    std::remove_pointer_t<decltype(tag)> held{};
    std::memcpy(&held, at, sizeof held);
    value = static_cast<double>(number(held));
  });
  return value;
}

inline void write_scalar(int type, double value, void* at) {
  with_type(type, [&](auto* tag) {
    std::remove_pointer_t<decltype(tag)> held{};
    put(value, held);
    std::memcpy(at, &held, sizeof held);
  });
}

}  // namespace flashmoe::vgpu::cublas
