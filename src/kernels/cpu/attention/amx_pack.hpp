// Packing for the AMX kernel. One value is `Parts` bf16: bf16 itself, for fp16 the exact sum of a high and a low part
// (11 significant bits into 8 + 8), for fp32 that of three (24 into 8 + 8 + 8). All tiles are 16 rows x 64 bytes,
// stored contiguously (1 KiB).
//
//   Q  tile (B): row = pair of dims, column = query     from 32-bit transposes of 16 query rows
//   K  tile (A): row = key, 32 dims                     a copy
//   V  tile (A): row = dim, 32 keys                     transposes of 32 value rows
#pragma once

#include <immintrin.h>

#include <cstddef>
#include <cstdint>

#include "kernels/cpu/attention/geometry.hpp"
#include "kernels/cpu/simd/avx512.hpp"

namespace flashmoe::cpu {
namespace {

template <class T>
inline constexpr int amx_parts_of = __is_same(T, float)  ? 3
                                    : __is_same(T, Bf16) ? 1
                                                         : 2;

// 32 values as they lie in memory, as 16 pairs: of 16 bits each one and its neighbour, in one vector; of 32 bits each
// and the one 16 further on, in two. Which dims make a pair is of no matter as long as Q and K agree.
template <class T>
struct Raw32 {
  static constexpr int vectors = sizeof(T) / 2;
  __m512i vector[vectors];
};

// 16 rows of these.
template <class T>
struct RawRows {
  __m512i vector[Raw32<T>::vectors][16];

  inline __attribute__((always_inline)) void set(int r, const Raw32<T>& row) {
    for (int v = 0; v < Raw32<T>::vectors; ++v) vector[v][r] = row.vector[v];
  }
  [[nodiscard]] inline __attribute__((always_inline)) Raw32<T> row(int r) const {
    Raw32<T> one;
    for (int v = 0; v < Raw32<T>::vectors; ++v) one.vector[v] = vector[v][r];
    return one;
  }
  // Pairs stay pairs.
  inline __attribute__((always_inline)) void transpose() {
    for (auto& rows : vector) transpose_16x16(rows);
  }
};

// Patterns of T, the sign cleared, compare as numbers.
template <class T>
inline __m512i magnitude_of(__m512i bits) {
  return _mm512_and_si512(bits, sizeof(T) == 4 ? _mm512_set1_epi32(0x7fffffff) : _mm512_set1_epi16(0x7fff));
}

// 32 values as bf16 vectors.
template <class T>
struct Parts32 {
  __m512i part[amx_parts_of<T>];
};

// The upper halves of both, interleaved: low_halves already shifted down, high_halves in place.
inline __m512i merge_halves(__m512i low_halves, __m512i high_halves) {  // low | (high & 0xffff0000)
  return _mm512_ternarylogic_epi32(low_halves, high_halves, _mm512_set1_epi32(static_cast<int>(0xffff0000U)), 0xf8);
}
// fp32 as bf16, even and odd elements of the result. Truncated, or rounded by adding half an ulp: ties go away from
// zero, which costs nothing measurable and saves the even-odd correction; the values are far from overflow.
inline __m512i pack_truncated(__m512i even, __m512i odd) {
  return merge_halves(_mm512_srli_epi32(even, 16), odd);
}
inline __m512i add_half_ulp(__m512 x) {
  return _mm512_add_epi32(_mm512_castps_si512(x), _mm512_set1_epi32(0x8000));
}
inline __m512i pack_rounded(__m512 even, __m512 odd) {
  return pack_truncated(add_half_ulp(even), add_half_ulp(odd));
}
// x without the bf16 that is the upper half of `bits`; exact.
inline __m512 rest_of(__m512 x, __m512i bits) {
  const __m512i upper = _mm512_and_si512(bits, _mm512_set1_epi32(static_cast<int>(0xffff0000U)));
  return _mm512_sub_ps(x, _mm512_castsi512_ps(upper));
}

inline Parts32<Bf16> split_parts(const Bf16*, const Raw32<Bf16>& raw) {
  return {{raw.vector[0]}};
}

// The high part is rounded, so that low parts have both signs and low x low, where the kernel leaves it out, averages
// out.
// Nothing is promised for infinities and NaN: scores that they touch are taken again, and values hold none.
inline Parts32<Half> split_parts(const Half*, const Raw32<Half>& raw) {
  const __m512i evens_first = _mm512_set_epi16(31, 29, 27, 25, 23, 21, 19, 17, 15, 13, 11, 9, 7, 5, 3, 1, 30, 28, 26,
                                               24, 22, 20, 18, 16, 14, 12, 10, 8, 6, 4, 2, 0);
  const __m512i sorted = _mm512_permutexvar_epi16(evens_first, raw.vector[0]);
  const __m512 even = _mm512_cvtph_ps(_mm512_castsi512_si256(sorted));
  const __m512 odd = _mm512_cvtph_ps(_mm512_extracti64x4_epi64(sorted, 1));
  const __m512i even_high = add_half_ulp(even);
  const __m512i odd_high = add_half_ulp(odd);
  const __m512i low = pack_truncated(_mm512_castps_si512(rest_of(even, even_high)),  // exact: 3 significant bits
                                     _mm512_castps_si512(rest_of(odd, odd_high)));
  return {{pack_truncated(even_high, odd_high), low}};
}

// Three parts of fp32: the first two rounded, the last is the rest. Exact, because what rounding to 8 bits leaves of 24
// has 16 bits, and of 16 has 8; but parts below 2^-126 count as zero in tiles.
struct ThreeParts {
  __m512i part[3];
};
inline ThreeParts three_parts(__m512 x, __m512i first) {
  const __m512 rest = rest_of(x, first);
  const __m512i second = add_half_ulp(rest);
  return {{first, second, _mm512_castps_si512(rest_of(rest, second))}};
}
inline Parts32<float> pack_parts(const ThreeParts& even, const ThreeParts& odd) {
  Parts32<float> x;
  for (int i = 0; i < 3; ++i) x.part[i] = pack_truncated(even.part[i], odd.part[i]);
  return x;
}

inline Parts32<float> split_parts(const float*, const Raw32<float>& raw) {
  const auto parts_of = [](__m512i bits) {
    // The largest numbers do not become infinite.
    const __m512i rounded = _mm512_min_epu32(_mm512_add_epi32(magnitude_of<float>(bits), _mm512_set1_epi32(0x8000)),
                                             _mm512_set1_epi32(0x7f7fffff));
    constexpr int second_where_third = 0xd8;  // ... and the first elsewhere
    const __m512i sign = _mm512_set1_epi32(static_cast<int>(0x80000000U));
    return three_parts(_mm512_castsi512_ps(bits), _mm512_ternarylogic_epi32(rounded, bits, sign, second_where_third));
  };
  return pack_parts(parts_of(raw.vector[0]), parts_of(raw.vector[1]));
}

// Elements [0, n) of 16 in fp32, the rest 0.
template <class T>
inline __m512 load16(const T* p, int64_t n) {
  return n >= 16 ? Avx512::load_as(p) : Avx512::load_as(p, static_cast<int>(n));
}

// Elements [0, n) of 32, the rest 0.
template <class T>
inline Raw32<T> load_raw(const T* p, int64_t n) {
  if constexpr (__is_same(T, float)) {
    const __m512 second = n > 16 ? load16(p + 16, n - 16) : _mm512_setzero_ps();
    return {{_mm512_castps_si512(load16(p, n)), _mm512_castps_si512(second)}};
  } else {
    if (n >= 32) return {{_mm512_loadu_si512(p)}};
    return {{n <= 0 ? _mm512_setzero_si512() : _mm512_maskz_loadu_epi16((1U << n) - 1U, p)}};
  }
}

// One tile per part, `part_bytes` apart, from 16 rows of 32 values. `see` is shown each row as it is split.
template <class T, class See>
inline void store_parts(const RawRows<T>& rows, std::byte* to, int64_t part_bytes, See&& see) {
  for (int r = 0; r < 16; ++r) {
    const Raw32<T> raw = rows.row(r);
    const Parts32<T> x = split_parts(static_cast<const T*>(nullptr), raw);
    see(raw, x);
    for (int part = 0; part < amx_parts_of<T>; ++part) {
      _mm512_store_si512(to + part * part_bytes + 64 * r, x.part[part]);
    }
  }
}

// All ones in the exponent: infinity or NaN.
template <class T>
inline constexpr int first_non_finite = __is_same(T, float)  ? 0x7f800000
                                        : __is_same(T, Bf16) ? 0x7f80
                                                             : 0x7c00;

// From here on, 2^58, products of fp32 values may be too much for the sums of tiles, or parts that tiles take for zero
// may show beside the other factor: scores are then taken from the values themselves.
inline constexpr int first_wild = (127 + 58) << 23;
// Below this, 2^-96, what tiles take for zero of an fp32 value, or of its product with a weight, may show in the
// result.
inline constexpr int first_ordinary = (127 - 96) << 23;

// Notes the largest magnitude of each place, and of fp32 the smallest but 0; one comparison at the end tells about all.
template <class T>
class Magnitudes {
 public:
  void see(const Raw32<T>& raw) {
    for (const __m512i bits : raw.vector) {
      const __m512i magnitude = magnitude_of<T>(bits);
      if constexpr (sizeof(T) == 4) {
        largest_ = _mm512_max_epu32(largest_, magnitude);
        // 0 becomes the largest.
        smallest_less_one_ = _mm512_min_epu32(smallest_less_one_, _mm512_sub_epi32(magnitude, _mm512_set1_epi32(1)));
      } else {
        largest_ = _mm512_max_epu16(largest_, magnitude);
      }
    }
  }
  [[nodiscard]] bool reaches(int bits) const {
    if constexpr (sizeof(T) == 4) return _mm512_cmpge_epu32_mask(largest_, _mm512_set1_epi32(bits)) != 0;
    return _mm512_cmpge_epu16_mask(largest_, _mm512_set1_epi16(static_cast<short>(bits))) != 0;
  }
  // Of fp32: something else than 0 is below.
  [[nodiscard]] bool has_below(int bits) const {
    return _mm512_cmplt_epu32_mask(smallest_less_one_, _mm512_set1_epi32(bits - 1)) != 0;
  }

 private:
  __m512i largest_ = _mm512_setzero_si512();
  __m512i smallest_less_one_ = _mm512_set1_epi32(-1);
};

// Watches rows while they are split. Where there is no product that may be left out, what counts is the largest
// magnitude. The low part of an fp16 value that is not finite is NaN, so that the sums of squares of low parts, which
// fp16 is watched for in any case, tell as well.
template <class T>
class RowWatch {
  static constexpr bool sums_low_squares = amx_parts_of<T> == 2;

 public:
  void see(const Raw32<T>& raw, const Parts32<T>& x) {
    if constexpr (sums_low_squares) {
      const auto low = (__m512bh)x.part[1];
      squares_ = _mm512_dpbf16_ps(squares_, low, low);
    } else {
      magnitudes_.see(raw);
    }
  }
  // The sums so far join those of other rows; the next row begins at 0. As bits, because the largest is then NaN if any
  // is, and sums of squares compare as integers.
  void end_row() {
    if constexpr (!sums_low_squares) return;
    largest_ = _mm512_max_epu32(largest_, _mm512_castps_si512(squares_));
    squares_ = _mm512_setzero_ps();
  }
  [[nodiscard]] __m512i largest_squares() const { return largest_; }
  // Where lanes are rows: those of rows that are not finite are 0.
  [[nodiscard]] __m512i squares_of_finite_rows() const {
    return _mm512_maskz_mov_epi32(_mm512_cmple_epu32_mask(largest_, infinity()), largest_);
  }
  // Not finite, or else too much for tiles.
  [[nodiscard]] bool saw_wild() const {
    if constexpr (sums_low_squares) return _mm512_cmpgt_epu32_mask(largest_, infinity()) != 0;
    return magnitudes_.reaches(__is_same(T, float) ? first_wild : first_non_finite<T>);
  }

 private:
  static __m512i infinity() { return _mm512_set1_epi32(0x7f800000); }
  Magnitudes<T> magnitudes_;
  __m512 squares_ = _mm512_setzero_ps();
  __m512i largest_ = _mm512_setzero_si512();
};

// Packs 16 query rows (null: zeros) into padded_dim / 32 tiles per part. `negate` folds a negative scale in. Returns
// what it saw: each lane of the watch is a row. Transposed first and split after, so that all parts cost one transpose.
template <class T>
inline RowWatch<T> pack_queries(const T* const (&rows)[16], int64_t dim, int64_t dim_tiles, bool negate, std::byte* to,
                                int64_t part_bytes, int64_t dim_tile_bytes) {
  const __m512i sign = sizeof(T) == 4 ? _mm512_set1_epi32(negate ? static_cast<int>(0x80000000U) : 0)
                                      : _mm512_set1_epi16(negate ? static_cast<short>(0x8000) : 0);
  RowWatch<T> watch;
  for (int64_t c = 0; c < dim_tiles; ++c) {
    RawRows<T> block;
    for (int r = 0; r < 16; ++r) {
      Raw32<T> row = rows[r] == nullptr ? Raw32<T>{} : load_raw(rows[r] + c * 32, dim - c * 32);
      for (__m512i& bits : row.vector) bits = _mm512_xor_si512(bits, sign);
      block.set(r, row);
    }
    block.transpose();
    store_parts<T>(block, to + c * dim_tile_bytes, part_bytes,
                   [&](const Raw32<T>& raw, const Parts32<T>& x) { watch.see(raw, x); });
  }
  watch.end_row();
  return watch;
}

// In fp32, from the values themselves; with null for b, against zeros: 0 exactly when a is finite, else NaN.
template <class T>
inline float fp32_dot(const T* a, const T* b, int64_t dim) {
  using V = Avx512;
  V::F sum = V::zero();
  for (int64_t d = 0; d < dim; d += V::width) {
    sum = V::fma(load16(a + d, dim - d), b == nullptr ? V::zero() : load16(b + d, dim - d), sum);
  }
  return V::sum(sum);
}

// Whether scores of the row are taken from the values themselves (RowWatch::saw_wild, of this row alone).
template <class T>
inline bool is_wild(const T* row, int64_t dim) {
  if constexpr (!__is_same(T, float)) return fp32_dot<T>(row, nullptr, dim) != 0.0F;
  Magnitudes<T> magnitudes;
  for (int64_t d = 0; d < dim; d += 32) magnitudes.see(load_raw(row + d, dim - d));
  return magnitudes.reaches(first_wild);
}

// Values that are not finite become 0, and those of fp32 that are too small for tiles.
template <class T>
inline Raw32<T> tame_values(Raw32<T> raw) {
  for (__m512i& bits : raw.vector) {
    const __m512i magnitude = magnitude_of<T>(bits);
    if constexpr (sizeof(T) == 4) {
      const __m512i above = _mm512_sub_epi32(magnitude, _mm512_set1_epi32(first_ordinary));
      const __m512i count = _mm512_set1_epi32(first_non_finite<T> - first_ordinary);
      bits = _mm512_maskz_mov_epi32(_mm512_cmplt_epu32_mask(above, count), bits);
    } else {
      const __m512i limit = _mm512_set1_epi16(static_cast<short>(first_non_finite<T>));
      bits = _mm512_maskz_mov_epi16(_mm512_cmplt_epu16_mask(magnitude, limit), bits);
    }
  }
  return raw;
}

// Two rows of 32 values, so that a pair is of one dim: the first sixteen dims, and the others.
template <class T>
inline void interleave_in_order(const Raw32<T>& first, const Raw32<T>& second, Raw32<T>& low, Raw32<T>& high) {
  if constexpr (sizeof(T) == 4) {
    low = {{first.vector[0], second.vector[0]}};
    high = {{first.vector[1], second.vector[1]}};
  } else {
    const __m512i low_dims = _mm512_set_epi16(47, 15, 46, 14, 45, 13, 44, 12, 43, 11, 42, 10, 41, 9, 40, 8, 39, 7, 38,
                                              6, 37, 5, 36, 4, 35, 3, 34, 2, 33, 1, 32, 0);
    const __m512i high_dims = _mm512_add_epi16(low_dims, _mm512_set1_epi16(16));
    low = {{_mm512_permutex2var_epi16(first.vector[0], low_dims, second.vector[0])}};
    high = {{_mm512_permutex2var_epi16(first.vector[0], high_dims, second.vector[0])}};
  }
}

// What a packed chunk holds besides what tiles can take.
enum ChunkFlag : uint8_t { keys_wild = 1, values_non_finite = 2, values_tiny = 4 };

// One packed chunk of 32 keys: K tiles [part][half][dim / 32], then V tiles [part][dim / 16].
template <class T>
class ChunkPacker {
  static constexpr int parts = amx_parts_of<T>;

 public:
  explicit ChunkPacker(const Head& h)
      : keys_(k_rows<T>(h)),
        values_(v_rows<T>(h)),
        kv_len_(h.kv_len),
        dim_(h.problem->head_dim),
        value_dim_(h.problem->value_dim),
        dim_tiles_((dim_ + 31) / 32),
        value_tiles_((value_dim_ + 31) / 32) {}

  // Packs keys [first, first + 32), zeros beyond the sequence. Returns ChunkFlag bits; in low_squares, what no
  // key's sum of squares of low parts exceeds. Values that are not finite, or tiny, are packed as 0 (see add_non_finite
  // and AmxKernel::add_tiny).
  uint8_t pack(int64_t first, std::byte* to, float& low_squares) const {
    const int64_t n = smaller<int64_t>(32, kv_len_ - first);
    const T* key_row[32];
    const T* value_row[32];
    for (int64_t j = 0; j < 32; ++j) {
      key_row[j] = j < n ? keys_[first + j] : nullptr;
      value_row[j] = j < n ? values_[first + j] : nullptr;
    }
    uint8_t flags = pack_keys(key_row, to, low_squares) ? keys_wild : 0;
    std::byte* v_tiles = to + parts * 2 * dim_tiles_ * plan::amx_tile_bytes;
    const uint8_t untamed = pack_values<false>(value_row, v_tiles);
    if (untamed != 0) pack_values<true>(value_row, v_tiles);
    return flags | untamed;
  }

 private:
  bool pack_keys(const T* const (&rows)[32], std::byte* to, float& low_squares) const {
    RowWatch<T> watch;
    for (int64_t j = 0; j < 32; ++j) {
      for (int64_t c = 0; c < dim_tiles_; ++c) {
        const Raw32<T> raw = rows[j] == nullptr ? Raw32<T>{} : load_raw(rows[j] + c * 32, dim_ - c * 32);
        const Parts32<T> x = split_parts(rows[j], raw);
        watch.see(raw, x);
        for (int part = 0; part < parts; ++part) {
          const int64_t tile = (part * 2 + j / 16) * dim_tiles_ + c;
          _mm512_store_si512(to + tile * plan::amx_tile_bytes + j % 16 * 64, x.part[part]);
        }
      }
      watch.end_row();
    }
    // The largest of each lane, added up: to add up lanes key by key would cost more than the slack does.
    if constexpr (parts == 2) low_squares = _mm512_reduce_add_ps(_mm512_castsi512_ps(watch.largest_squares()));
    return watch.saw_wild();
  }

  // Returns which values tiles cannot take; with `Tame`, these become 0.
  template <bool Tame>
  uint8_t pack_values(const T* const (&rows)[32], std::byte* to) const {
    const int64_t part_bytes = 2 * value_tiles_ * plan::amx_tile_bytes;
    Magnitudes<T> magnitudes;
    for (int64_t c = 0; c < value_tiles_; ++c) {
      RawRows<T> low;
      RawRows<T> high;
      for (int r = 0; r < 16; ++r) {
        Raw32<T> x[2];
        for (int i = 0; i < 2; ++i) {
          const T* row = rows[2 * r + i];
          x[i] = row == nullptr ? Raw32<T>{} : load_raw(row + c * 32, value_dim_ - c * 32);
          magnitudes.see(x[i]);
          if constexpr (Tame) x[i] = tame_values<T>(x[i]);
        }
        Raw32<T> low_row, high_row;
        interleave_in_order(x[0], x[1], low_row, high_row);
        low.set(r, low_row);
        high.set(r, high_row);
      }
      std::byte* tile = to + 2 * c * plan::amx_tile_bytes;
      const auto unseen = [](const Raw32<T>&, const Parts32<T>&) {};
      low.transpose();
      store_parts<T>(low, tile, part_bytes, unseen);
      high.transpose();
      store_parts<T>(high, tile + plan::amx_tile_bytes, part_bytes, unseen);
    }
    int flags = magnitudes.reaches(first_non_finite<T>) ? values_non_finite : 0;
    if constexpr (__is_same(T, float)) flags |= magnitudes.has_below(first_ordinary) ? values_tiny : 0;
    return static_cast<uint8_t>(flags);
  }

  KvRows<T> keys_;
  KvRows<T> values_;
  int64_t kv_len_;
  int64_t dim_, value_dim_;
  int64_t dim_tiles_, value_tiles_;
};

}  // namespace
}  // namespace flashmoe::cpu
