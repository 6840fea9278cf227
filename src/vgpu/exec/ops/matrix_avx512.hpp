// The one matrix product that decides the speed of everything, m16n8k16 with f32 sums, for AVX-512. D keeps the layout
// of its fragments: a vector holds four rows (one per 128-bit lane) of the even or of the odd columns. Per k:
//   B  the four even (odd) columns are one 128-bit broadcast from memory, which costs no shuffle port
//   A  four rows of one k are a shuffle within 128-bit lanes of a vector that holds four k of four rows
// 128 multiply-adds and 64 shuffles share two ports: about 100 cycles, against 64 for the multiply-adds alone.
#pragma once

#include "vgpu/exec/ops/floats.hpp"

#if defined(__AVX512F__) && defined(__AVX512BW__) && defined(__AVX512DQ__)
#define VGPU_MATRIX_AVX512

namespace flashmoe::vgpu::exec::ops::VGPU_VARIANT {
namespace {

template <class Half>
VGPU_INLINE __m512 floats_of(__m256i halves) {
  if constexpr (std::is_same_v<Half, F16>) {
    return _mm512_cvtph_ps(halves);
  } else {
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(halves), 16));
  }
}

// Four rows 4 h .. 4 h + 3 of A, eight columns: [rows][k 0-3] and [rows][k 4-7].
template <class Half>
VGPU_INLINE void read_rows(const std::uint32_t* cell, __m512& first, __m512& second) {
  const __m512i order = _mm512_setr_epi64(0, 2, 4, 6, 1, 3, 5, 7);  // a row is two times four halves
  const __m512i halves = _mm512_permutexvar_epi64(order, _mm512_load_si512(cell));
  first = floats_of<Half>(_mm512_castsi512_si256(halves));
  second = floats_of<Half>(_mm512_extracti64x4_epi64(halves, 1));
}

// Words of half a register of B in the order k, parity of the column, the two columns of that parity.
struct ColumnOrder {
  alignas(64) std::int16_t words[32];
};
constexpr ColumnOrder column_order = [] {
  ColumnOrder order{};
  for (int i = 0; i < 32; ++i) {
    const int k = i / 4, parity = i / 2 % 2, column = 2 * (i % 2) + parity;
    order.words[i] = static_cast<std::int16_t>(8 * column + k);
  }
  return order;
}();

// Eight rows of B from one register: table[k][column parity] holds four columns.
template <class Half>
VGPU_INLINE void read_columns(const std::uint32_t* cell, float (*table)[2][4]) {
  // In a 512-bit half of the register: columns 4 h .. 4 h + 3, eight k each; in order, 64 bits hold one k.
  const __m512i words = _mm512_load_si512(column_order.words);
  const __m512i left = _mm512_permutexvar_epi16(words, _mm512_load_si512(cell));
  const __m512i right = _mm512_permutexvar_epi16(words, _mm512_load_si512(cell + 16));
  // [k][parity]: columns of the left half, then of the right half.
  const __m512i low = _mm512_unpacklo_epi32(left, right), high = _mm512_unpackhi_epi32(left, right);
  // unpacklo has the even k of each 128-bit lane, unpackhi the odd ones.
  float* even = &table[0][0][0];
  const __m512 low_first = floats_of<Half>(_mm512_castsi512_si256(low));
  const __m512 low_second = floats_of<Half>(_mm512_extracti64x4_epi64(low, 1));
  const __m512 high_first = floats_of<Half>(_mm512_castsi512_si256(high));
  const __m512 high_second = floats_of<Half>(_mm512_extracti64x4_epi64(high, 1));
  _mm256_store_ps(even + 0, _mm512_castps512_ps256(low_first));      // k 0
  _mm256_store_ps(even + 8, _mm512_castps512_ps256(high_first));     // k 1
  _mm256_store_ps(even + 16, _mm512_extractf32x8_ps(low_first, 1));  // k 2
  _mm256_store_ps(even + 24, _mm512_extractf32x8_ps(high_first, 1));
  _mm256_store_ps(even + 32, _mm512_castps512_ps256(low_second));
  _mm256_store_ps(even + 40, _mm512_castps512_ps256(high_second));
  _mm256_store_ps(even + 48, _mm512_extractf32x8_ps(low_second, 1));
  _mm256_store_ps(even + 56, _mm512_extractf32x8_ps(high_second, 1));
}

template <int K>
VGPU_INLINE void add_products(const __m512 (&rows)[4], const float (*table)[2][4], __m512 (&sums)[4][2]) {
  const __m512 even = _mm512_broadcast_f32x4(_mm_load_ps(table[K][0]));
  const __m512 odd = _mm512_broadcast_f32x4(_mm_load_ps(table[K][1]));
  for (int i = 0; i < 4; ++i) {
    const __m512 a = _mm512_permute_ps(rows[i], (K & 3) * 0x55);
    sums[i][0] = _mm512_fmadd_ps(a, even, sums[i][0]);
    sums[i][1] = _mm512_fmadd_ps(a, odd, sums[i][1]);
  }
}

template <int First>
VGPU_INLINE void add_four_products(const __m512 (&rows)[4], const float (*table)[2][4], __m512 (&sums)[4][2]) {
  add_products<First>(rows, table, sums);
  add_products<First + 1>(rows, table, sums);
  add_products<First + 2>(rows, table, sums);
  add_products<First + 3>(rows, table, sums);
}

template <class Half>
void multiply_16x8x16(Warp& warp, const Inst& inst) {
  const std::uint32_t* list = warp.kernel->lists.data() + inst.list;
  const std::uint32_t* d = list;
  const std::uint32_t* a = list + 4;
  const std::uint32_t* b = list + 8;
  const std::uint32_t* c = list + 10;
  alignas(64) float table[16][2][4];
  read_columns<Half>(warp.slot(b[0]), table);
  read_columns<Half>(warp.slot(b[1]), table + 8);
  __m512 sums[4][2];  // [rows / 4][column parity]
  for (int i = 0; i < 4; ++i) {
    for (int parity = 0; parity < 2; ++parity) {
      sums[i][parity] = _mm512_load_ps(warp.lanes<float>(c[2 * (i / 2) + parity]) + 16 * (i % 2));
    }
  }
  __m512 first[4], second[4];
  for (int i = 0; i < 4; ++i) read_rows<Half>(warp.slot(a[i / 2]) + 16 * (i % 2), first[i], second[i]);
  add_four_products<0>(first, table, sums);
  add_four_products<4>(second, table, sums);
  for (int i = 0; i < 4; ++i) read_rows<Half>(warp.slot(a[2 + i / 2]) + 16 * (i % 2), first[i], second[i]);
  add_four_products<8>(first, table, sums);
  add_four_products<12>(second, table, sums);
  const __m512 nan = _mm512_castsi512_ps(_mm512_set1_epi32(static_cast<int>(nan_f32)));
  for (int i = 0; i < 4; ++i) {
    const auto exec = static_cast<__mmask16>(warp.exec >> (16 * (i % 2)));
    for (int parity = 0; parity < 2; ++parity) {
      if (d[2 * (i / 2) + parity] == ir::no_slot) continue;  // `_`
      const __m512 sum = sums[i][parity];
      const __m512 result = _mm512_mask_mov_ps(sum, _mm512_cmp_ps_mask(sum, sum, _CMP_UNORD_Q), nan);
      _mm512_mask_store_ps(warp.lanes<float>(d[2 * (i / 2) + parity]) + 16 * (i % 2), exec, result);
    }
  }
}

}  // namespace
}  // namespace flashmoe::vgpu::exec::ops::VGPU_VARIANT

#endif
