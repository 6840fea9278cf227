// Tensor core products on fragments in registers.
//
// mma.m16n8k16, A row-major, B column-major. With g = lane / 4 and t = lane % 4 a lane holds
//   A (16 x 16)  a[0]: row g,     columns 2t, 2t+1        a[2]: row g,     columns 2t+8, 2t+9
//                a[1]: row g + 8, columns 2t, 2t+1        a[3]: row g + 8, columns 2t+8, 2t+9
//   B (16 x 8)   b[0]: rows 2t, 2t+1 of column g          b[1]: rows 2t+8, 2t+9 of column g
//   C (16 x 8)   c[0], c[1]: row g, columns 2t, 2t+1      c[2], c[3]: row g + 8
// so the scores of one product are, packed to 16 bits, the A fragment of the next.
#pragma once

#include "kernels/cuda/atoms/types.cuh"

namespace flashmoe::cuda {

// d = a b + c; c may be d.
template <class T>
FMS_DEVICE void mma_16x8x16(float (&d)[4], const uint32 (&a)[4], uint32 b0, uint32 b1, const float (&c)[4]);

template <>
FMS_DEVICE void mma_16x8x16<Half>(float (&d)[4], const uint32 (&a)[4], uint32 b0, uint32 b1, const float (&c)[4]) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%10,%11,%12,%13};"
      : "=f"(d[0]), "=f"(d[1]), "=f"(d[2]), "=f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1), "f"(c[0]), "f"(c[1]), "f"(c[2]), "f"(c[3]));
}

template <>
FMS_DEVICE void mma_16x8x16<BFloat16>(float (&d)[4], const uint32 (&a)[4], uint32 b0, uint32 b1, const float (&c)[4]) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%10,%11,%12,%13};"
      : "=f"(d[0]), "=f"(d[1]), "=f"(d[2]), "=f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1), "f"(c[0]), "f"(c[1]), "f"(c[2]), "f"(c[3]));
}

template <class T>
FMS_DEVICE void mma_16x8x16(float (&d)[4], const uint32 (&a)[4], uint32 b0, uint32 b1) {
  const float zero[4] = {};
  mma_16x8x16<T>(d, a, b0, b1, zero);
}

// Two floats as one register of 16-bit values, `low` in the low half: neighbours of a fragment.
template <class T>
FMS_DEVICE uint32 pack(float low, float high);

template <>
FMS_DEVICE uint32 pack<Half>(float low, float high) {
  uint32 packed;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(packed) : "f"(high), "f"(low));
  return packed;
}

template <>
FMS_DEVICE uint32 pack<BFloat16>(float low, float high) {
  uint32 packed;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(packed) : "f"(high), "f"(low));
  return packed;
}

template <class T>
FMS_DEVICE float to_float(unsigned short bits);

template <>
FMS_DEVICE float to_float<Half>(unsigned short bits) {
  float value;
  asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(bits));
  return value;
}

template <>
FMS_DEVICE float to_float<BFloat16>(unsigned short bits) {
  return __int_as_float(static_cast<int>(bits) << 16);
}

// Of a pair, the low half first.
template <class T>
FMS_DEVICE float2 to_floats(uint32 pair);

template <>
FMS_DEVICE float2 to_floats<Half>(uint32 pair) {
  float2 values;
  asm("{.reg .f16 low, high; mov.b32 {low, high}, %2; cvt.f32.f16 %0, low; cvt.f32.f16 %1, high;}"
      : "=f"(values.x), "=f"(values.y)
      : "r"(pair));
  return values;
}

template <>
FMS_DEVICE float2 to_floats<BFloat16>(uint32 pair) {
  return {__int_as_float(static_cast<int>(pair << 16)), __int_as_float(static_cast<int>(pair & 0xffff0000u))};
}

// All ones in each half of a pair that is NaN or infinite, else zeros.
template <class T>
FMS_DEVICE uint32 wild_halves(uint32 pair) {
  constexpr uint32 exponent = T::exponent_mask;
  const uint32 low = (pair & exponent) == exponent ? 0xffffu : 0u;
  const uint32 high = (pair >> 16 & exponent) == exponent ? 0xffff0000u : 0u;
  return low | high;
}

// met + 0 * pair, half by half: from 0 on it stays 0 until a half is NaN or infinite, and is NaN from then on.
template <class T>
FMS_DEVICE uint32 add_zero_times(uint32 met, uint32 pair);

template <>
FMS_DEVICE uint32 add_zero_times<Half>(uint32 met, uint32 pair) {
  uint32 sum;
  asm("fma.rn.f16x2 %0, %1, %2, %3;" : "=r"(sum) : "r"(pair), "r"(0), "r"(met));
  return sum;
}

template <>
FMS_DEVICE uint32 add_zero_times<BFloat16>(uint32 met, uint32 pair) {
  uint32 sum;
  asm("fma.rn.bf16x2 %0, %1, %2, %3;" : "=r"(sum) : "r"(pair), "r"(0), "r"(met));
  return sum;
}

}  // namespace flashmoe::cuda
