// m16n8k16 with f32 sums for AVX2: a vector holds one row of D, its even columns before its odd ones, as they lie in
// the fragments. A step is D[m, :] += A[m, k] B[k, :] with A[m, k] broadcast from memory; eight rows hide the latency.
#pragma once

#include "vgpu/exec/ops/floats.hpp"

#if defined(__AVX2__) && defined(__FMA__) && defined(__F16C__) && !defined(__AVX512F__)
#define VGPU_MATRIX_FAST

namespace flashmoe::vgpu::exec::ops::VGPU_VARIANT {
namespace {

template <class Half>
VGPU_INLINE __m256 floats_of(__m128i halves) {
  if constexpr (std::is_same_v<Half, F16>) {
    return _mm256_cvtph_ps(halves);
  } else {
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(halves), 16));
  }
}

VGPU_INLINE __m128i four_lanes(const std::uint32_t* cell, int g) {
  return _mm_load_si128(reinterpret_cast<const __m128i*>(cell + 4 * g));
}

template <class Half>
VGPU_INLINE void read_rows(const std::uint32_t* cell, float* a) {
  for (int g = 0; g < 8; ++g) _mm256_store_ps(a + 16 * g, floats_of<Half>(four_lanes(cell, g)));
}

// Both registers of B at once, one in each half of a vector: eight columns of eight k become eight k of eight columns
// in three rounds of interleaving.
template <class Half>
VGPU_INLINE void read_columns(const std::uint32_t* first, const std::uint32_t* second, float (*b)[8]) {
  __m256i v[8], step[8];
  for (int i = 0; i < 8; ++i) {
    const int column = 2 * (i % 4) + i / 4;
    v[i] = _mm256_inserti128_si256(_mm256_castsi128_si256(four_lanes(first, column)), four_lanes(second, column), 1);
  }
  for (int round = 0; round < 3; ++round) {
    for (int i = 0; i < 4; ++i) {
      step[2 * i] = _mm256_unpacklo_epi16(v[i], v[i + 4]);
      step[2 * i + 1] = _mm256_unpackhi_epi16(v[i], v[i + 4]);
    }
    for (int i = 0; i < 8; ++i) v[i] = step[i];
  }
  for (int k = 0; k < 8; ++k) {
    _mm256_store_ps(b[k], floats_of<Half>(_mm256_castsi256_si128(v[k])));
    _mm256_store_ps(b[8 + k], floats_of<Half>(_mm256_extracti128_si256(v[k], 1)));
  }
}

VGPU_INLINE __m256 canonical(__m256 x) {
  const __m256 nan = _mm256_castsi256_ps(_mm256_set1_epi32(static_cast<int>(nan_f32)));
  return _mm256_blendv_ps(x, nan, _mm256_cmp_ps(x, x, _CMP_UNORD_Q));
}

// Eight rows of D, which two registers of C and of D hold.
VGPU_INLINE void multiply_rows(const float (*a)[16], const float (*b)[8], const float* even_c, const float* odd_c,
                               float* even_d, float* odd_d) {
  __m256 sums[8];
  for (int g = 0; g < 8; ++g) {
    sums[g] = _mm256_insertf128_ps(_mm256_castps128_ps256(_mm_load_ps(even_c + 4 * g)), _mm_load_ps(odd_c + 4 * g), 1);
  }
  for (int k = 0; k < 16; ++k) {
    const __m256 row = _mm256_load_ps(b[k]);
    for (int g = 0; g < 8; ++g) sums[g] = _mm256_fmadd_ps(_mm256_set1_ps(a[g][k]), row, sums[g]);
  }
  for (int g = 0; g < 8; ++g) {
    const __m256 sum = canonical(sums[g]);
    _mm_store_ps(even_d + 4 * g, _mm256_castps256_ps128(sum));
    _mm_store_ps(odd_d + 4 * g, _mm256_extractf128_ps(sum, 1));
  }
}

template <class Half>
void multiply_16x8x16(Warp& warp, const Inst& inst) {
  const std::uint32_t* list = warp.kernel->lists.data() + inst.list;
  const std::uint32_t* d = list;
  const std::uint32_t* a = list + 4;
  const std::uint32_t* b = list + 8;
  const std::uint32_t* c = list + 10;
  alignas(32) float rows[16][16];
  alignas(32) float columns[16][8];
  alignas(32) float result[4][lanes_per_warp];  // apart from the sources, which may be d
  for (int r = 0; r < 4; ++r) read_rows<Half>(warp.slot(a[r]), &rows[8 * (r % 2)][8 * (r / 2)]);
  read_columns<Half>(warp.slot(b[0]), warp.slot(b[1]), columns);
  for (int r = 0; r < 4; r += 2) {
    multiply_rows(rows + 4 * r, columns, warp.lanes<float>(c[r]), warp.lanes<float>(c[r + 1]), result[r],
                  result[r + 1]);
  }
  for (int r = 0; r < 4; ++r) {
    if (d[r] == ir::no_slot) continue;  // `_`
    write_lanes<float>(warp, d[r], [&](int lane) { return result[r][lane]; });
  }
}

}  // namespace
}  // namespace flashmoe::vgpu::exec::ops::VGPU_VARIANT

#endif
