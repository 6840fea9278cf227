// The one matrix product that decides the speed of everything, m16n8k16 with f32 sums, for AVX-512. A vector holds one
// column of D, all 16 rows, so that a step is D[:, n] += A[:, k] B[k, n] with
//   A  a column of A in a register
//   B  a number broadcast from memory, which the multiply-add does by itself
// The 128 multiply-adds need 64 cycles; the transposing of A, C and D into columns and back adds about 40.
#pragma once

#include "vgpu/exec/ops/floats.hpp"

#if defined(__AVX512F__) && defined(__AVX512BW__) && defined(__AVX512DQ__)
#define VGPU_MATRIX_FAST

namespace flashmoe::vgpu::exec::ops::VGPU_VARIANT {
namespace {

// Two registers of a fragment, rows 0-7 and 8-15 with t = 0 .. 3 in each row, as 16 rows of one t to a vector; and
// back. Row 4 j + l lies at 4 l + j, in A, C and D alike.
VGPU_INLINE void transpose(__m512i (&v)[4]) {
  const __m512i low01 = _mm512_unpacklo_epi32(v[0], v[1]), high01 = _mm512_unpackhi_epi32(v[0], v[1]);
  const __m512i low23 = _mm512_unpacklo_epi32(v[2], v[3]), high23 = _mm512_unpackhi_epi32(v[2], v[3]);
  v[0] = _mm512_unpacklo_epi64(low01, low23);
  v[1] = _mm512_unpackhi_epi64(low01, low23);
  v[2] = _mm512_unpacklo_epi64(high01, high23);
  v[3] = _mm512_unpackhi_epi64(high01, high23);
}

VGPU_INLINE void read_transposed(const std::uint32_t* upper, const std::uint32_t* lower, __m512i (&v)[4]) {
  v[0] = _mm512_load_si512(upper);
  v[1] = _mm512_load_si512(upper + 16);
  v[2] = _mm512_load_si512(lower);
  v[3] = _mm512_load_si512(lower + 16);
  transpose(v);
}

template <class Half>
VGPU_INLINE __m512 floats_of(__m256i halves) {
  if constexpr (std::is_same_v<Half, F16>) {
    return _mm512_cvtph_ps(halves);
  } else {
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(halves), 16));
  }
}

struct WordOrder {
  alignas(64) std::int16_t words[32];
};
inline constexpr WordOrder even_words_first = [] {
  WordOrder order{};
  for (int i = 0; i < 32; ++i) order.words[i] = static_cast<std::int16_t>(2 * (i % 16) + i / 16);
  return order;
}();

// The lower and the upper halves of 16 pairs.
template <class Half>
VGPU_INLINE void split_pairs(__m512i pairs, __m512& lower, __m512& upper) {
  if constexpr (std::is_same_v<Half, F16>) {
    const __m512i halves = _mm512_permutexvar_epi16(_mm512_load_si512(even_words_first.words), pairs);
    lower = _mm512_cvtph_ps(_mm512_castsi512_si256(halves));
    upper = _mm512_cvtph_ps(_mm512_extracti64x4_epi64(halves, 1));
  } else {
    lower = _mm512_castsi512_ps(_mm512_slli_epi32(pairs, 16));
    upper = _mm512_castsi512_ps(_mm512_and_si512(pairs, _mm512_set1_epi32(static_cast<int>(0xffff0000u))));
  }
}

// The numbers of a register of B in the order of its lanes: [column][k].
template <class Half>
VGPU_INLINE void read_columns(const std::uint32_t* cell, float (&b)[8][8]) {
  for (int i = 0; i < 4; ++i) {
    const __m256i halves = _mm256_load_si256(reinterpret_cast<const __m256i*>(cell + 8 * i));
    _mm512_store_ps(b[2 * i], floats_of<Half>(halves));
  }
}

// sums[parity][t] is column 2 t + parity of D.
VGPU_INLINE void add_products(__m512 a, const float (&b)[8][8], int k, __m512 (&sums)[2][4]) {
  for (int t = 0; t < 4; ++t) {
    for (int parity = 0; parity < 2; ++parity) {
      sums[parity][t] = _mm512_fmadd_ps(a, _mm512_set1_ps(b[2 * t + parity][k]), sums[parity][t]);
    }
  }
}

// The canonical NaN for any other: the table keeps the first operand for the classes quiet and signalling NaN (0) and
// takes the second for all others (1).
VGPU_INLINE __m512 canonical(__m512 x) {
  const __m512 nan = _mm512_castsi512_ps(_mm512_set1_epi32(static_cast<int>(nan_f32)));
  return _mm512_fixupimm_ps(nan, x, _mm512_set1_epi32(0x11111100), 0);
}

template <class Half>
void multiply_16x8x16(Warp& warp, const Inst& inst) {
  const std::uint32_t* list = warp.kernel->lists.data() + inst.list;
  const std::uint32_t* d = list;
  const std::uint32_t* a = list + 4;
  const std::uint32_t* b = list + 8;
  const std::uint32_t* c = list + 10;
  alignas(64) float columns[2][8][8];
  for (int half = 0; half < 2; ++half) read_columns<Half>(warp.slot(b[half]), columns[half]);
  __m512 sums[2][4];
  for (int parity = 0; parity < 2; ++parity) {
    __m512i values[4];
    read_transposed(warp.slot(c[parity]), warp.slot(c[2 + parity]), values);
    for (int t = 0; t < 4; ++t) sums[parity][t] = _mm512_castsi512_ps(values[t]);
  }
  for (int half = 0; half < 2; ++half) {  // eight k each
    __m512i pairs[4];
    read_transposed(warp.slot(a[2 * half]), warp.slot(a[2 * half + 1]), pairs);
    for (int t = 0; t < 4; ++t) {
      __m512 lower, upper;
      split_pairs<Half>(pairs[t], lower, upper);
      add_products(lower, columns[half], 2 * t, sums);
      add_products(upper, columns[half], 2 * t + 1, sums);
    }
  }
  for (int parity = 0; parity < 2; ++parity) {
    __m512i values[4];
    for (int t = 0; t < 4; ++t) values[t] = _mm512_castps_si512(canonical(sums[parity][t]));
    transpose(values);
    for (int j = 0; j < 4; ++j) {
      const std::uint32_t slot = d[2 * (j / 2) + parity];
      if (slot == ir::no_slot) continue;  // `_`
      const auto exec = static_cast<__mmask16>(warp.exec >> (16 * (j % 2)));
      _mm512_mask_store_epi32(warp.slot(slot) + 16 * (j % 2), exec, values[j]);
    }
  }
}

}  // namespace
}  // namespace flashmoe::vgpu::exec::ops::VGPU_VARIANT

#endif
