// The vector policy of the AVX-512 translation units (F, BW, DQ, VL). Every ISA has a policy with these members; the
// kernels are templates over it. In an unnamed namespace because each translation unit is compiled with other flags:
// a merged inline function would carry AVX-512 code to machines without it.
#pragma once

#include <immintrin.h>

#include <cstdint>

#include "kernels/cpu/exp2_poly.hpp"
#include "kernels/cpu/types.hpp"

namespace flashmoe::cpu {
namespace {

// 16x16 transpose of 32-bit elements in registers: 64 shuffles, all on port 5.
inline __attribute__((always_inline)) void transpose_16x16(__m512i (&r)[16]) {
  __m512i t[16];
  for (int i = 0; i < 8; ++i) {
    t[2 * i] = _mm512_unpacklo_epi32(r[2 * i], r[2 * i + 1]);
    t[2 * i + 1] = _mm512_unpackhi_epi32(r[2 * i], r[2 * i + 1]);
  }
  for (int i = 0; i < 4; ++i) {
    r[4 * i] = _mm512_unpacklo_epi64(t[4 * i], t[4 * i + 2]);
    r[4 * i + 1] = _mm512_unpackhi_epi64(t[4 * i], t[4 * i + 2]);
    r[4 * i + 2] = _mm512_unpacklo_epi64(t[4 * i + 1], t[4 * i + 3]);
    r[4 * i + 3] = _mm512_unpackhi_epi64(t[4 * i + 1], t[4 * i + 3]);
  }
  for (int half = 0; half < 2; ++half) {
    for (int i = 0; i < 4; ++i) {
      t[8 * half + i] = _mm512_shuffle_i32x4(r[8 * half + i], r[8 * half + i + 4], 0x88);
      t[8 * half + i + 4] = _mm512_shuffle_i32x4(r[8 * half + i], r[8 * half + i + 4], 0xdd);
    }
  }
  for (int i = 0; i < 8; ++i) {
    r[i] = _mm512_shuffle_i32x4(t[i], t[i + 8], 0x88);
    r[i + 8] = _mm512_shuffle_i32x4(t[i], t[i + 8], 0xdd);
  }
}

struct Avx512 {
  static constexpr int width = 16;
  static constexpr int tile_vectors = 3;  // 3 query vectors x 8 keys = 24 accumulators, 3 + 1 operands: 28 registers
  static constexpr int tile_keys = 8;
  using F = __m512;
  using I = __m512i;

  static F zero() { return _mm512_setzero_ps(); }
  static F set1(float x) { return _mm512_set1_ps(x); }
  static F load(const float* p) { return _mm512_loadu_ps(p); }
  static void store(float* p, F x) { _mm512_storeu_ps(p, x); }
  static I load_int(const int32_t* p) { return _mm512_loadu_si512(p); }
  static F add(F a, F b) { return _mm512_add_ps(a, b); }
  static F sub(F a, F b) { return _mm512_sub_ps(a, b); }
  static F mul(F a, F b) { return _mm512_mul_ps(a, b); }
  static F div(F a, F b) { return _mm512_div_ps(a, b); }
  static F fma(F a, F b, F c) { return _mm512_fmadd_ps(a, b, c); }
  static F fms(F a, F b, F c) { return _mm512_fmsub_ps(a, b, c); }
  // Returns `keep` where x is NaN, so that a running maximum survives NaN scores.
  static F max(F x, F keep) { return _mm512_max_ps(x, keep); }
  static F min(F x, F keep) { return _mm512_min_ps(x, keep); }
  // Bounded to +-most, except infinities and NaN.
  static F bounded_if_finite(F x, float most) {
    constexpr int infinities_and_nan = 0x99, smaller_magnitude_sign_of_first = 0x02;
    const __mmask16 finite = static_cast<__mmask16>(~_mm512_fpclass_ps_mask(x, infinities_and_nan));
    return _mm512_mask_range_ps(x, finite, x, set1(most), smaller_magnitude_sign_of_first);
  }
  static F copysign(F magnitude, F sign) {
    return _mm512_or_ps(magnitude, _mm512_and_ps(sign, set1(-0.0F)));  // magnitude >= 0
  }
  static F where_less(F a, F b, F then, F otherwise) {
    return _mm512_mask_mov_ps(otherwise, _mm512_cmp_ps_mask(a, b, _CMP_LT_OQ), then);
  }
  static bool any_greater(F a, F b) { return _mm512_cmp_ps_mask(a, b, _CMP_GT_OQ) != 0; }
  static bool all_greater(F a, F b) { return _mm512_cmp_ps_mask(a, b, _CMP_GT_OQ) == 0xffff; }
  static float sum(F x) { return _mm512_reduce_add_ps(x); }
  static float largest(F x) { return _mm512_reduce_max_ps(x); }
  // x where it is not -inf, else 0.
  static F zero_if_minus_inf(F x) {
    return _mm512_maskz_mov_ps(_mm512_cmp_ps_mask(x, set1(-__builtin_inff()), _CMP_NEQ_UQ), x);
  }
  // Bit i: whether byte i of 64 is not 0.
  static uint64_t nonzero_bytes(const uint8_t* p) {
    const __m512i bytes = _mm512_loadu_si512(p);
    return _mm512_test_epi8_mask(bytes, bytes);
  }
  // x where the lane's bit, or byte `which` of its four, is not 0, else -inf.
  static F keep_bits(F x, uint32_t bits) {
    return _mm512_mask_mov_ps(set1(-__builtin_inff()), static_cast<__mmask16>(bits), x);
  }
  static F keep_bytes(F x, F bytes, int which) {
    const __m512i looked_at = _mm512_set1_epi32(static_cast<int>(0xffU << (8 * which)));
    return keep_bits(x, _mm512_test_epi32_mask(_mm512_castps_si512(bytes), looked_at));
  }
  // x where lo <= j < hi in that lane, else -inf.
  static F mask_outside(F x, int32_t j, I lo, I hi) {
    const __m512i key = _mm512_set1_epi32(j);
    const __mmask16 visible = _mm512_cmple_epi32_mask(lo, key) & _mm512_cmpgt_epi32_mask(hi, key);
    return _mm512_mask_mov_ps(set1(-__builtin_inff()), visible, x);
  }

  // 2^x for x up to 127, also -inf (0) and NaN. vreduceps yields x - floor(x), and 0 for -inf; vscalefps scales by
  // floor(x).
  template <int Degree>
  static F exp2(F x) {
    const F f = _mm512_reduce_ps(x, 0x09);
    F p = set1(Exp2Poly<Degree>::c[Degree - 1]);
    for (int i = Degree - 2; i >= 0; --i) p = fma(p, f, set1(Exp2Poly<Degree>::c[i]));
    return _mm512_scalef_ps(fma(p, f, set1(1.0F)), x);
  }

  static F load_as(const float* p) { return load(p); }
  static F load_as(const Half* p) { return _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p))); }
  static F load_as(const Bf16* p) { return widen(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p))); }
  static F load_as(const E4m3* p) { return widen_e4m3(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p))); }
  static F load_as(const E4m3* p, int n) { return widen_e4m3(_mm_maskz_loadu_epi8(first(n), p)); }
  // The first n < 16 elements, the rest 0; memory behind them is not touched.
  static F load_as(const float* p, int n) { return _mm512_maskz_loadu_ps(first(n), p); }
  static F load_as(const Half* p, int n) { return _mm512_cvtph_ps(_mm256_maskz_loadu_epi16(first(n), p)); }
  static F load_as(const Bf16* p, int n) { return widen(_mm256_maskz_loadu_epi16(first(n), p)); }

  static void store_as(float* p, F x) { store(p, x); }
  static void store_as(Half* p, F x) { _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), to_half(x)); }
  static void store_as(Bf16* p, F x) { _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), to_bf16(x)); }
  static void store_as(float* p, F x, int n) { _mm512_mask_storeu_ps(p, first(n), x); }
  static void store_as(Half* p, F x, int n) { _mm256_mask_storeu_epi16(p, first(n), to_half(x)); }
  static void store_as(Bf16* p, F x, int n) { _mm256_mask_storeu_epi16(p, first(n), to_bf16(x)); }

  // Even and odd elements of 32.
  static void store_interleaved(Bf16* p, F even, F odd) { store_words(p, to_bf16_bits(even), to_bf16_bits(odd)); }
  static void store_interleaved(Half* p, F even, F odd) {
    store_words(p, _mm512_cvtepu16_epi32(to_half(even)), _mm512_cvtepu16_epi32(to_half(odd)));
  }

  // 32 elements as two vectors in whatever order is cheapest; unpair puts results in order again. For bf16 a shift and
  // a mask give the even and the odd elements without the port-5 widening.
  static void load_pair(const float* p, F& a, F& b) {
    a = load(p);
    b = load(p + 16);
  }
  static void load_pair(const Half* p, F& a, F& b) {
    a = load_as(p);
    b = load_as(p + 16);
  }
  static void load_pair(const Bf16* p, F& a, F& b) { split_bits(load_bits(p), a, b); }
  // 32 of them as they lie in memory, to be moved about in pairs; and the first and the second of each pair.
  static F load_bits(const void* p) { return _mm512_castsi512_ps(_mm512_loadu_si512(p)); }
  static void split_bits(F bits, F& first, F& second) {
    first = _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_castps_si512(bits), 16));
    second = _mm512_castsi512_ps(
        _mm512_and_si512(_mm512_castps_si512(bits), _mm512_set1_epi32(static_cast<int>(0xffff0000U))));
  }
  template <class T>
  static void unpair(F& a, F& b) {
    if constexpr (__is_same(T, Bf16)) {
      const __m512i low = _mm512_setr_epi32(0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
      const __m512i high = _mm512_setr_epi32(8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31);
      const F even = a;
      a = _mm512_permutex2var_ps(even, low, b);
      b = _mm512_permutex2var_ps(even, high, b);
    }
  }

  static void transpose(F (&r)[width]) {
    __m512i bits[16];
    for (int i = 0; i < 16; ++i) bits[i] = _mm512_castps_si512(r[i]);
    transpose_16x16(bits);
    for (int i = 0; i < 16; ++i) r[i] = _mm512_castsi512_ps(bits[i]);
  }

  // The horizontal sums of 16 vectors, as one vector.
  // Each round adds halves of two vectors into one: 30 shuffles, where a transpose takes 64.
  static F sums(F (&r)[width]) {
    F pairs[8];
    for (int i = 0; i < 8; ++i) {  // r[i] and r[i + 8], every other element
      pairs[i] = add(_mm512_unpacklo_ps(r[i], r[i + 8]), _mm512_unpackhi_ps(r[i], r[i + 8]));
    }
    F fours[4];
    for (int i = 0; i < 4; ++i) {  // lanes of four: r[i], r[i + 8], r[i + 4], r[i + 12]
      const __m512d a = _mm512_castps_pd(pairs[i]);
      const __m512d b = _mm512_castps_pd(pairs[i + 4]);
      fours[i] = add(_mm512_castpd_ps(_mm512_unpacklo_pd(a, b)), _mm512_castpd_ps(_mm512_unpackhi_pd(a, b)));
    }
    F eights[2];
    for (int i = 0; i < 2; ++i) {
      eights[i] =
          add(_mm512_shuffle_f32x4(fours[i], fours[i + 2], 0x88), _mm512_shuffle_f32x4(fours[i], fours[i + 2], 0xdd));
    }
    const F all =
        add(_mm512_shuffle_f32x4(eights[0], eights[1], 0x88), _mm512_shuffle_f32x4(eights[0], eights[1], 0xdd));
    // Blocks of four hold the sums of r[b], r[b + 8], r[b + 4], r[b + 12], with b = 0, 2, 1, 3.
    const __m512i in_order = _mm512_setr_epi32(0, 8, 4, 12, 2, 10, 6, 14, 1, 9, 5, 13, 3, 11, 7, 15);
    return _mm512_permutexvar_ps(in_order, all);
  }

  // 32 values of 8 bits as 16 bits, which hold them exactly.
  template <class T>
  static void widen32(const E4m3* from, T* to) {
    constexpr int fraction_bits = __is_same(T, Half) ? 10 : 7, exponent_bias = __is_same(T, Half) ? 15 : 127;
    static constexpr DenormalsOfE4m3 denormals(fraction_bits, exponent_bias);
    const __m512i wide = _mm512_cvtepu8_epi16(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(from)));
    const __m512i magnitude = _mm512_and_si512(wide, _mm512_set1_epi16(0x7f));
    __m512i bits = _mm512_add_epi16(_mm512_slli_epi16(magnitude, fraction_bits - 3),
                                    _mm512_set1_epi16((exponent_bias - 7) << fraction_bits));
    bits = _mm512_mask_permutexvar_epi16(bits, _mm512_cmplt_epu16_mask(magnitude, _mm512_set1_epi16(8)), magnitude,
                                         _mm512_load_si512(denormals.bits));
    bits = _mm512_mask_mov_epi16(bits, _mm512_cmpeq_epi16_mask(magnitude, _mm512_set1_epi16(0x7f)),
                                 _mm512_set1_epi16(0x7fff & -(1 << (fraction_bits - 1))));
    const __m512i sign = _mm512_and_si512(_mm512_slli_epi16(wide, 8), _mm512_set1_epi16(-0x8000));
    _mm512_storeu_si512(to, _mm512_or_si512(bits, sign));
  }

  // Into L2, which has three times as many misses in flight as L1: a tenth faster where memory is the limit.
  static void prefetch(const void* p) { _mm_prefetch(static_cast<const char*>(p), _MM_HINT_T1); }

 private:
  // n * 2^-9, n below 8: normal numbers of 16 bits.
  struct DenormalsOfE4m3 {
    alignas(64) uint16_t bits[32] = {};
    constexpr DenormalsOfE4m3(int fraction_bits, int exponent_bias) {
      for (int n = 1, leading = 0; n < 8; ++n) {
        if (n == 2 << leading) ++leading;
        bits[n] = static_cast<uint16_t>(((exponent_bias - 9 + leading) << fraction_bits) |
                                        ((n - (1 << leading)) << (fraction_bits - leading)));
      }
    }
  };
  static __mmask16 first(int n) { return static_cast<__mmask16>((1U << n) - 1U); }
  static F widen(__m256i x) { return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(x), 16)); }
  // Denormals, which have the exponent of the smallest normal numbers, get a leading 1 that is taken off again: to
  // multiply denormals of fp32 would take a hundred times as long.
  static F widen_e4m3(__m128i bytes) {
    const __m512i wide = _mm512_cvtepu8_epi32(bytes);
    const __m512i magnitude = _mm512_and_si512(wide, _mm512_set1_epi32(0x7f));
    const __mmask16 is_denormal = _mm512_cmplt_epi32_mask(magnitude, _mm512_set1_epi32(8));
    const __m512i bits = _mm512_add_epi32(_mm512_slli_epi32(magnitude, 20), _mm512_set1_epi32(120 << 23));
    F x = _mm512_castsi512_ps(_mm512_mask_add_epi32(bits, is_denormal, bits, _mm512_set1_epi32(1 << 23)));
    x = _mm512_mask_sub_ps(x, is_denormal, x, set1(0x1p-6F));
    const __mmask16 is_nan = _mm512_cmpeq_epi32_mask(magnitude, _mm512_set1_epi32(0x7f));
    x = _mm512_mask_mov_ps(x, is_nan, set1(__builtin_nanf("")));
    return copysign(x, _mm512_castsi512_ps(_mm512_slli_epi32(wide, 24)));
  }
  static void store_words(void* p, __m512i even, __m512i odd) {
    _mm512_storeu_si512(p, _mm512_or_si512(even, _mm512_slli_epi32(odd, 16)));
  }
  static __m256i to_half(F x) { return _mm512_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT); }
  // Round to nearest even by integer arithmetic (AVX512_BF16 is not part of this level); NaN stays NaN.
  static __m256i to_bf16(F x) { return _mm512_cvtepi32_epi16(to_bf16_bits(x)); }
  static __m512i to_bf16_bits(F x) {
    const __m512i bits = _mm512_castps_si512(x);
    const __m512i odd = _mm512_and_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(1));
    const __m512i rounded = _mm512_add_epi32(bits, _mm512_add_epi32(odd, _mm512_set1_epi32(0x7fff)));
    const __mmask16 is_nan = _mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q);
    const __m512i quiet = _mm512_or_si512(bits, _mm512_set1_epi32(0x00400000));
    return _mm512_srli_epi32(_mm512_mask_mov_epi32(rounded, is_nan, quiet), 16);
  }
};

}  // namespace
}  // namespace flashmoe::cpu
