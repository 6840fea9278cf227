// Packing for the AMX kernel. One value is `Parts` bf16: bf16 itself, or for fp16 the exact sum of a high and a low
// part (11 significant bits into 8 + 8). All tiles are 16 rows x 64 bytes, stored contiguously (1 KiB).
//
//   Q  tile (B): row = pair of dims, column = query     from a 32-bit transpose of 16 query rows
//   K  tile (A): row = key, 32 dims                     a copy
//   V  tile (A): row = dim, 32 keys                     a 16-bit transpose of 32 value rows
#pragma once

#include <immintrin.h>

#include <cstddef>
#include <cstdint>

#include "kernels/cpu/attention/geometry.hpp"
#include "kernels/cpu/simd/avx512.hpp"

namespace flashmoe::cpu {
namespace {

template <class T>
inline constexpr int amx_parts_of = __is_same(T, Bf16) ? 1 : 2;

// 32 values as bf16 vectors.
template <class T>
struct Parts32 {
  __m512i part[amx_parts_of<T>];
};

inline __m512 bf16_low_half(__m512i x) {
  return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm512_castsi512_si256(x)), 16));
}
inline __m512 bf16_high_half(__m512i x) {
  return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm512_extracti64x4_epi64(x, 1)), 16));
}

inline Parts32<Bf16> split_parts(const Bf16*, __m512i raw) {
  return {{raw}};
}

inline Parts32<Half> split_parts(const Half*, __m512i raw) {
  const __m512 a = _mm512_cvtph_ps(_mm512_castsi512_si256(raw));
  const __m512 b = _mm512_cvtph_ps(_mm512_extracti64x4_epi64(raw, 1));
  const auto high = reinterpret_cast<__m512i>(_mm512_cvtne2ps_pbh(b, a));
  const __m512 rest_a = _mm512_sub_ps(a, bf16_low_half(high));
  const __m512 rest_b = _mm512_sub_ps(b, bf16_high_half(high));
  const auto low = reinterpret_cast<__m512i>(_mm512_cvtne2ps_pbh(rest_b, rest_a));
  // inf - inf is NaN: where the high part is not finite it carries the whole value.
  const __m512i magnitude = _mm512_and_si512(high, _mm512_set1_epi16(0x7fff));
  const __mmask32 finite = _mm512_cmplt_epu16_mask(magnitude, _mm512_set1_epi16(0x7f80));
  return {{high, _mm512_maskz_mov_epi16(finite, low)}};
}

// Elements [0, n) of 32, the rest 0.
template <class T>
inline Parts32<T> load_parts(const T* p, int64_t n) {
  if (n >= 32) return split_parts(p, _mm512_loadu_si512(p));
  if (n <= 0) return {};
  return split_parts(p, _mm512_maskz_loadu_epi16((1U << n) - 1U, p));
}

inline void store_tile(std::byte* tile, const __m512i (&rows)[16]) {
  for (int r = 0; r < 16; ++r) _mm512_store_si512(tile + 64 * r, rows[r]);
}

// Notes the largest magnitude among bf16 vectors; one comparison at the end tells whether all were finite.
class FiniteWatch {
 public:
  void see(__m512i high_parts) {
    largest_ = _mm512_max_epu16(largest_, _mm512_and_si512(high_parts, _mm512_set1_epi16(0x7fff)));
  }
  [[nodiscard]] bool saw_non_finite() const {
    return _mm512_cmpge_epu16_mask(largest_, _mm512_set1_epi16(0x7f80)) != 0;
  }

 private:
  __m512i largest_ = _mm512_setzero_si512();
};

// Packs 16 query rows (null: zeros) into padded_dim / 32 tiles per part. `negate` folds a negative scale in. Returns
// whether a value is not finite.
template <class T>
inline bool pack_queries(const T* const (&rows)[16], int64_t dim, int64_t dim_tiles, bool negate, std::byte* to,
                         int64_t part_bytes, int64_t dim_tile_bytes) {
  const __m512i sign = _mm512_set1_epi16(negate ? static_cast<short>(0x8000) : 0);
  FiniteWatch watch;
  for (int64_t c = 0; c < dim_tiles; ++c) {
    __m512i block[amx_parts_of<T>][16];
    for (int r = 0; r < 16; ++r) {
      const Parts32<T> x = rows[r] == nullptr ? Parts32<T>{} : load_parts(rows[r] + c * 32, dim - c * 32);
      watch.see(x.part[0]);
      for (int part = 0; part < amx_parts_of<T>; ++part) block[part][r] = _mm512_xor_si512(x.part[part], sign);
    }
    for (int part = 0; part < amx_parts_of<T>; ++part) {
      transpose_16x16(block[part]);
      store_tile(to + part * part_bytes + c * dim_tile_bytes, block[part]);
    }
  }
  return watch.saw_non_finite();
}

// What a packed chunk holds besides finite values.
enum ChunkFlag : uint8_t { keys_non_finite = 1, values_non_finite = 2 };

// One packed chunk of 32 keys: K tiles [part][half][dim / 32], then V tiles [part][dim / 16].
template <class T>
class ChunkPacker {
  static constexpr int parts = amx_parts_of<T>;

 public:
  ChunkPacker(const Head& h, int64_t dim, int64_t padded_dim)
      : keys_(k_rows<T>(h)), values_(v_rows<T>(h)), kv_len_(h.kv_len), dim_(dim), dim_tiles_(padded_dim / 32) {}

  // Packs keys [first, first + 32), zeros beyond the sequence. Returns ChunkFlag bits. Non-finite values of V are
  // packed as 0 (see add_non_finite).
  uint8_t pack(int64_t first, std::byte* to) const {
    const int64_t n = smaller<int64_t>(32, kv_len_ - first);
    const T* key_row[32];
    const T* value_row[32];
    for (int64_t j = 0; j < 32; ++j) {
      key_row[j] = j < n ? keys_[first + j] : nullptr;
      value_row[j] = j < n ? values_[first + j] : nullptr;
    }
    uint8_t flags = pack_keys(key_row, to) ? keys_non_finite : 0;
    std::byte* v_tiles = to + parts * 2 * dim_tiles_ * plan::amx_tile_bytes;
    if (pack_values<false>(value_row, v_tiles)) {
      pack_values<true>(value_row, v_tiles);
      flags |= values_non_finite;
    }
    return flags;
  }

 private:
  bool pack_keys(const T* const (&rows)[32], std::byte* to) const {
    FiniteWatch watch;
    for (int64_t j = 0; j < 32; ++j) {
      for (int64_t c = 0; c < dim_tiles_; ++c) {
        const Parts32<T> x = rows[j] == nullptr ? Parts32<T>{} : load_parts(rows[j] + c * 32, dim_ - c * 32);
        watch.see(x.part[0]);
        for (int part = 0; part < parts; ++part) {
          const int64_t tile = (part * 2 + j / 16) * dim_tiles_ + c;
          _mm512_store_si512(to + tile * plan::amx_tile_bytes + j % 16 * 64, x.part[part]);
        }
      }
    }
    return watch.saw_non_finite();
  }

  template <bool Clean>
  bool pack_values(const T* const (&rows)[32], std::byte* to) const {
    // Interleaves two rows so that a 32-bit element is the pair (key 2r, key 2r + 1) of one dim.
    const __m512i low_dims = _mm512_set_epi16(47, 15, 46, 14, 45, 13, 44, 12, 43, 11, 42, 10, 41, 9, 40, 8, 39, 7, 38,
                                              6, 37, 5, 36, 4, 35, 3, 34, 2, 33, 1, 32, 0);
    const __m512i high_dims = _mm512_add_epi16(low_dims, _mm512_set1_epi16(16));
    FiniteWatch watch;
    for (int64_t c = 0; c < dim_tiles_; ++c) {
      __m512i low[parts][16];
      __m512i high[parts][16];
      for (int r = 0; r < 16; ++r) {
        Parts32<T> x[2];
        for (int i = 0; i < 2; ++i) {
          const T* row = rows[2 * r + i];
          x[i] = row == nullptr ? Parts32<T>{} : load_parts(row + c * 32, dim_ - c * 32);
          watch.see(x[i].part[0]);
          if constexpr (Clean) {
            const __m512i magnitude = _mm512_and_si512(x[i].part[0], _mm512_set1_epi16(0x7fff));
            const __mmask32 finite = _mm512_cmplt_epu16_mask(magnitude, _mm512_set1_epi16(0x7f80));
            for (auto& part : x[i].part) part = _mm512_maskz_mov_epi16(finite, part);
          }
        }
        for (int part = 0; part < parts; ++part) {
          low[part][r] = _mm512_permutex2var_epi16(x[0].part[part], low_dims, x[1].part[part]);
          high[part][r] = _mm512_permutex2var_epi16(x[0].part[part], high_dims, x[1].part[part]);
        }
      }
      for (int part = 0; part < parts; ++part) {
        std::byte* tile = to + (part * 2 * dim_tiles_ + 2 * c) * plan::amx_tile_bytes;
        transpose_16x16(low[part]);
        store_tile(tile, low[part]);
        transpose_16x16(high[part]);
        store_tile(tile + plan::amx_tile_bytes, high[part]);
      }
    }
    return watch.saw_non_finite();
  }

  KvRows<T> keys_;
  KvRows<T> values_;
  int64_t kv_len_;
  int64_t dim_;
  int64_t dim_tiles_;
};

}  // namespace
}  // namespace flashmoe::cpu
