// The vector policy of the AVX2 translation unit (AVX2, FMA, F16C). See simd/avx512.hpp for what the members mean and
// why the namespace is unnamed.
#pragma once

#include <immintrin.h>

#include <cstdint>
#include <cstring>

#include "kernels/cpu/exp2_poly.hpp"
#include "kernels/cpu/types.hpp"

namespace flashmoe::cpu {
namespace {

struct Avx2 {
  static constexpr int width = 8;
  static constexpr int tile_vectors = 2;  // 2 query vectors x 6 keys = 12 accumulators + 2 + 1 operands of 16 registers
  static constexpr int tile_keys = 6;
  using F = __m256;
  using I = __m256i;

  static F zero() { return _mm256_setzero_ps(); }
  static F set1(float x) { return _mm256_set1_ps(x); }
  static F load(const float* p) { return _mm256_loadu_ps(p); }
  static void store(float* p, F x) { _mm256_storeu_ps(p, x); }
  static I load_int(const int32_t* p) { return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)); }
  static F add(F a, F b) { return _mm256_add_ps(a, b); }
  static F sub(F a, F b) { return _mm256_sub_ps(a, b); }
  static F mul(F a, F b) { return _mm256_mul_ps(a, b); }
  static F div(F a, F b) { return _mm256_div_ps(a, b); }
  static F fma(F a, F b, F c) { return _mm256_fmadd_ps(a, b, c); }
  static F fms(F a, F b, F c) { return _mm256_fmsub_ps(a, b, c); }
  static F max(F x, F keep) { return _mm256_max_ps(x, keep); }
  static F min(F x, F keep) { return _mm256_min_ps(x, keep); }
  static F bounded_if_finite(F x, float most) {
    const F is_finite = _mm256_cmp_ps(_mm256_andnot_ps(set1(-0.0F), x), set1(3.402823466e38F), _CMP_LE_OQ);
    return _mm256_blendv_ps(x, _mm256_max_ps(_mm256_min_ps(x, set1(most)), set1(-most)), is_finite);
  }
  static F copysign(F magnitude, F sign) { return _mm256_or_ps(magnitude, _mm256_and_ps(sign, set1(-0.0F))); }
  static F where_less(F a, F b, F then, F otherwise) {
    return _mm256_blendv_ps(otherwise, then, _mm256_cmp_ps(a, b, _CMP_LT_OQ));
  }
  static bool any_greater(F a, F b) { return _mm256_movemask_ps(_mm256_cmp_ps(a, b, _CMP_GT_OQ)) != 0; }
  static float sum(F x) {
    const __m128 four = _mm_add_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps(x, 1));
    const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
  }
  static float largest(F x) {
    const __m128 four = _mm_max_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps(x, 1));
    const __m128 two = _mm_max_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_max_ss(two, _mm_movehdup_ps(two)));
  }
  static F zero_if_minus_inf(F x) { return _mm256_and_ps(x, _mm256_cmp_ps(x, set1(-__builtin_inff()), _CMP_NEQ_UQ)); }
  static uint64_t nonzero_bytes(const uint8_t* p) {
    const auto zeros_of = [](const uint8_t* at) {
      const __m256i bytes = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(at));
      return static_cast<uint32_t>(_mm256_movemask_epi8(_mm256_cmpeq_epi8(bytes, _mm256_setzero_si256())));
    };
    return ~(zeros_of(p) | static_cast<uint64_t>(zeros_of(p + 32)) << 32);
  }
  static F keep_bits(F x, uint32_t bits) {
    const __m256i of_lanes = _mm256_setr_epi32(1, 2, 4, 8, 16, 32, 64, 128);
    return keep_if_any(x, _mm256_and_si256(_mm256_set1_epi32(static_cast<int>(bits)), of_lanes));
  }
  static F keep_bytes(F x, F bytes, int which) {
    const __m256i looked_at = _mm256_set1_epi32(static_cast<int>(0xffU << (8 * which)));
    return keep_if_any(x, _mm256_and_si256(_mm256_castps_si256(bytes), looked_at));
  }
  static F mask_outside(F x, int32_t j, I lo, I hi) {
    const __m256i key = _mm256_set1_epi32(j);
    const __m256i visible = _mm256_andnot_si256(_mm256_cmpgt_epi32(lo, key), _mm256_cmpgt_epi32(hi, key));
    return _mm256_blendv_ps(set1(-__builtin_inff()), x, _mm256_castsi256_ps(visible));
  }

  // 2^x for x up to 127, also -inf (0) and NaN. Clamped at -127, where the exponent field is 0 and so is the result;
  // the operand order of max keeps NaN.
  template <int Degree>
  static F exp2(F x) {
    const F clamped = _mm256_max_ps(set1(-127.0F), x);
    const F whole = _mm256_floor_ps(clamped);
    const F f = sub(clamped, whole);
    F p = set1(Exp2Poly<Degree>::c[Degree - 1]);
    for (int i = Degree - 2; i >= 0; --i) p = fma(p, f, set1(Exp2Poly<Degree>::c[i]));
    const __m256i biased = _mm256_add_epi32(_mm256_cvttps_epi32(whole), _mm256_set1_epi32(127));
    return mul(fma(p, f, set1(1.0F)), _mm256_castsi256_ps(_mm256_slli_epi32(biased, 23)));
  }

  static F load_as(const float* p) { return load(p); }
  static F load_as(const Half* p) { return _mm256_cvtph_ps(load_8x16(p)); }
  static F load_as(const Bf16* p) {
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(load_8x16(p)), 16));
  }
  static F load_as(const E4m3* p) {  // see Avx512
    const __m256i wide = _mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p)));
    const __m256i magnitude = _mm256_and_si256(wide, _mm256_set1_epi32(0x7f));
    const __m256i is_denormal = _mm256_cmpgt_epi32(_mm256_set1_epi32(8), magnitude);
    const __m256i bits = _mm256_add_epi32(_mm256_slli_epi32(magnitude, 20), _mm256_set1_epi32(120 << 23));
    const __m256i raised = _mm256_add_epi32(bits, _mm256_and_si256(is_denormal, _mm256_set1_epi32(1 << 23)));
    const F x = sub(_mm256_castsi256_ps(raised), _mm256_and_ps(_mm256_castsi256_ps(is_denormal), set1(0x1p-6F)));
    const F is_nan = _mm256_castsi256_ps(_mm256_cmpeq_epi32(magnitude, _mm256_set1_epi32(0x7f)));
    return copysign(_mm256_blendv_ps(x, set1(__builtin_nanf("")), is_nan),
                    _mm256_castsi256_ps(_mm256_slli_epi32(wide, 24)));
  }
  template <class T>
  static F load_as(const T* p, int n) {
    T padded[width] = {};
    std::memcpy(static_cast<void*>(padded), p, static_cast<std::size_t>(n) * sizeof(T));
    return load_as(padded);
  }

  static void store_as(float* p, F x) { store(p, x); }
  static void store_as(Half* p, F x) { store_8x16(p, _mm256_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT)); }
  static void store_as(Bf16* p, F x) {
    const __m256i bits = _mm256_castps_si256(x);
    const __m256i odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
    const __m256i rounded = _mm256_add_epi32(bits, _mm256_add_epi32(odd, _mm256_set1_epi32(0x7fff)));
    const __m256i quiet = _mm256_or_si256(bits, _mm256_set1_epi32(0x00400000));
    const F chosen =
        _mm256_blendv_ps(_mm256_castsi256_ps(rounded), _mm256_castsi256_ps(quiet), _mm256_cmp_ps(x, x, _CMP_UNORD_Q));
    const __m256i high = _mm256_srli_epi32(_mm256_castps_si256(chosen), 16);
    store_8x16(p, _mm_packus_epi32(_mm256_castsi256_si128(high), _mm256_extracti128_si256(high, 1)));
  }
  template <class T>
  static void store_as(T* p, F x, int n) {
    T padded[width];
    store_as(padded, x);
    std::memcpy(static_cast<void*>(p), padded, static_cast<std::size_t>(n) * sizeof(T));
  }

  template <class T>
  static void load_pair(const T* p, F& a, F& b) {
    if constexpr (__is_same(T, Bf16)) {
      split_bits(load_bits(p), a, b);
    } else {
      a = load_as(p);
      b = load_as(p + width);
    }
  }
  static F load_bits(const void* p) { return _mm256_castsi256_ps(_mm256_loadu_si256(static_cast<const __m256i*>(p))); }
  static void split_bits(F bits, F& first, F& second) {
    first = _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_castps_si256(bits), 16));
    second = _mm256_castsi256_ps(
        _mm256_and_si256(_mm256_castps_si256(bits), _mm256_set1_epi32(static_cast<int>(0xffff0000U))));
  }
  template <class T>
  static void unpair(F& a, F& b) {
    if constexpr (__is_same(T, Bf16)) {
      const F low = _mm256_unpacklo_ps(a, b);
      const F high = _mm256_unpackhi_ps(a, b);
      a = _mm256_permute2f128_ps(low, high, 0x20);
      b = _mm256_permute2f128_ps(low, high, 0x31);
    }
  }

  static void transpose(F (&r)[width]) {
    F t[8];
    for (int i = 0; i < 4; ++i) {
      t[2 * i] = _mm256_unpacklo_ps(r[2 * i], r[2 * i + 1]);
      t[2 * i + 1] = _mm256_unpackhi_ps(r[2 * i], r[2 * i + 1]);
    }
    F u[8];
    for (int i = 0; i < 2; ++i) {
      u[4 * i] = _mm256_shuffle_ps(t[4 * i], t[4 * i + 2], 0x44);
      u[4 * i + 1] = _mm256_shuffle_ps(t[4 * i], t[4 * i + 2], 0xee);
      u[4 * i + 2] = _mm256_shuffle_ps(t[4 * i + 1], t[4 * i + 3], 0x44);
      u[4 * i + 3] = _mm256_shuffle_ps(t[4 * i + 1], t[4 * i + 3], 0xee);
    }
    for (int i = 0; i < 4; ++i) {
      r[i] = _mm256_permute2f128_ps(u[i], u[i + 4], 0x20);
      r[i + 4] = _mm256_permute2f128_ps(u[i], u[i + 4], 0x31);
    }
  }
  static F sums(F (&r)[width]) {
    transpose(r);
    for (int step = 4; step > 0; step /= 2) {
      for (int i = 0; i < step; ++i) r[i] = add(r[i], r[i + step]);
    }
    return r[0];
  }
  // Into L2, which has three times as many misses in flight as L1: a tenth faster where memory is the limit.
  static void prefetch(const void* p) { _mm_prefetch(static_cast<const char*>(p), _MM_HINT_T1); }

 private:
  static F keep_if_any(F x, I bits) {
    const F is_zero = _mm256_castsi256_ps(_mm256_cmpeq_epi32(bits, _mm256_setzero_si256()));
    return _mm256_blendv_ps(x, set1(-__builtin_inff()), is_zero);
  }
  static __m128i load_8x16(const void* p) { return _mm_loadu_si128(static_cast<const __m128i*>(p)); }
  static void store_8x16(void* p, __m128i x) { _mm_storeu_si128(static_cast<__m128i*>(p), x); }
};

}  // namespace
}  // namespace flashmoe::cpu
