// What all floating-point ops share: flushing, saturation, the canonical NaN, and f16/bf16 as numbers.
#pragma once

#include "vgpu/exec/ops/lanes.hpp"

namespace flashmoe::vgpu::exec::ops::VGPU_VARIANT {
namespace {

VGPU_INLINE std::uint32_t bits_of(float x) {
  return __builtin_bit_cast(std::uint32_t, x);
}
VGPU_INLINE float float_of(std::uint32_t bits) {
  return __builtin_bit_cast(float, bits);
}
VGPU_INLINE std::uint64_t bits_of(double x) {
  return __builtin_bit_cast(std::uint64_t, x);
}
VGPU_INLINE double double_of(std::uint64_t bits) {
  return __builtin_bit_cast(double, bits);
}

// A device's arithmetic answers every NaN with this one, whatever came in; so the host's choice never shows.
inline constexpr std::uint32_t nan_f32 = 0x7fffffffu;
inline constexpr std::uint64_t nan_f64 = 0x7ff8000000000000u;
inline constexpr std::uint16_t nan_f16 = 0x7fffu;  // of bf16 too
inline constexpr std::uint32_t infinity_f32 = 0x7f800000u;
inline constexpr std::uint32_t sign_f32 = 0x80000000u;

VGPU_INLINE float canonical(float x) {
  return float_of(x != x ? nan_f32 : bits_of(x));
}
VGPU_INLINE double canonical(double x) {
  return double_of(x != x ? nan_f64 : bits_of(x));
}

// .ftz: a subnormal becomes a zero of its sign.
template <bool Ftz>
VGPU_INLINE float flush(float x) {
  if constexpr (!Ftz) return x;
  const std::uint32_t bits = bits_of(x);
  return float_of((bits & infinity_f32) == 0 ? bits & sign_f32 : bits);
}

// .sat: into [0, 1], NaN becomes +0.
template <bool Sat, class T>
VGPU_INLINE T saturate(T x) {
  if constexpr (!Sat) return x;
  const T low = x > T(0) ? x : T(0);
  return low < T(1) ? low : T(1);
}

template <bool Ftz, bool Sat>
VGPU_INLINE float finish(float result) {
  return saturate<Sat>(flush<Ftz>(canonical(result)));
}

// -0 is below +0. One NaN loses against a number unless .NaN asks for it; two are the canonical NaN (9.7.3.11).
template <bool Max, bool Nan, bool XorSign>
VGPU_INLINE float extreme(float x, float y) {
  const std::uint32_t sign = (bits_of(x) ^ bits_of(y)) & sign_f32;
  if constexpr (XorSign) {
    x = float_of(bits_of(x) & ~sign_f32);
    y = float_of(bits_of(y) & ~sign_f32);
  }
  // Equal numbers differ in the sign of zero at most.
  const std::uint32_t equal = Max ? bits_of(x) & bits_of(y) : bits_of(x) | bits_of(y);
  const bool first = Max ? x > y : x < y;
  const bool no_x = x != x, no_y = y != y;
  std::uint32_t result = x == y ? equal : bits_of(y);
  result = (first | no_y) ? bits_of(x) : result;
  result = (Nan ? no_x | no_y : no_x & no_y) ? nan_f32 : result;
  if constexpr (XorSign) result = (result & 0x7fffffffu) > infinity_f32 ? result : result | sign;
  return float_of(result);
}

VGPU_INLINE float to_float(F16 x) {
  const std::uint32_t magnitude = x.bits & 0x7fffu;
  const std::uint32_t sign = (x.bits & 0x8000u) << 16;
  const float subnormal = static_cast<float>(static_cast<std::int32_t>(magnitude)) * 0x1p-24f;
  const std::uint32_t rebias = magnitude >= 0x7c00u ? 224u << 23 : 112u << 23;
  const std::uint32_t normal = (magnitude << 13) + rebias;
  return float_of((magnitude < 0x400u ? bits_of(subnormal) : normal) | sign);
}
VGPU_INLINE float to_float(BF16 x) {
  return float_of(static_cast<std::uint32_t>(x.bits) << 16);
}

// Round to nearest even.
template <class Half>
VGPU_INLINE Half round_to(float x);

template <>
VGPU_INLINE F16 round_to<F16>(float x) {
  const std::uint32_t bits = bits_of(x);
  const std::uint32_t magnitude = bits & 0x7fffffffu;
  // Adding 1/2 leaves 24 bits below the point, which is where a subnormal f16 ends: the addition rounds.
  const std::uint32_t subnormal = bits_of(float_of(magnitude) + 0.5f) - 0x3f000000u;
  const std::uint32_t rebiased = magnitude - (112u << 23);
  const std::uint32_t normal = (rebiased + 0xfffu + (rebiased >> 13 & 1u)) >> 13;
  std::uint32_t result = magnitude < 0x38800000u ? subnormal : normal;
  result = magnitude >= 0x47800000u ? 0x7c00u : result;
  result |= bits >> 16 & 0x8000u;
  return {static_cast<std::uint16_t>(magnitude > infinity_f32 ? nan_f16 : result)};
}

template <>
VGPU_INLINE BF16 round_to<BF16>(float x) {
  const std::uint32_t bits = bits_of(x);
  const std::uint32_t rounded = (bits + 0x7fffu + (bits >> 16 & 1u)) >> 16;
  return {static_cast<std::uint16_t>((bits & 0x7fffffffu) > infinity_f32 ? nan_f16 : rounded)};
}

// .relu: negative values and -0 become +0, NaN stays the canonical NaN.
template <bool Relu>
VGPU_INLINE float rectify(float x) {
  if constexpr (!Relu) return x;
  return x <= 0 ? 0.0f : x;
}

}  // namespace
}  // namespace flashmoe::vgpu::exec::ops::VGPU_VARIANT
