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

inline Parts32<Bf16> split_parts(const Bf16*, __m512i raw) {
  return {{raw}};
}

// The high part is rounded, so that low parts have both signs and low x low, where the kernel leaves it out, averages
// out.
// Nothing is promised for infinities and NaN: scores that they touch are taken again, and values hold none.
inline Parts32<Half> split_parts(const Half*, __m512i raw) {
  const __m512i evens_first = _mm512_set_epi16(31, 29, 27, 25, 23, 21, 19, 17, 15, 13, 11, 9, 7, 5, 3, 1, 30, 28, 26,
                                               24, 22, 20, 18, 16, 14, 12, 10, 8, 6, 4, 2, 0);
  const __m512i sorted = _mm512_permutexvar_epi16(evens_first, raw);
  const __m512 even = _mm512_cvtph_ps(_mm512_castsi512_si256(sorted));
  const __m512 odd = _mm512_cvtph_ps(_mm512_extracti64x4_epi64(sorted, 1));
  const __m512i even_high = add_half_ulp(even);
  const __m512i odd_high = add_half_ulp(odd);
  const __m512i low = pack_truncated(_mm512_castps_si512(rest_of(even, even_high)),  // exact: 3 significant bits
                                     _mm512_castps_si512(rest_of(odd, odd_high)));
  return {{pack_truncated(even_high, odd_high), low}};
}

// Elements [0, n) of 32, the rest 0.
template <class T>
inline __m512i load_raw(const T* p, int64_t n) {
  if (n >= 32) return _mm512_loadu_si512(p);
  return n <= 0 ? _mm512_setzero_si512() : _mm512_maskz_loadu_epi16((1U << n) - 1U, p);
}

// One tile per part, `part_bytes` apart, from 16 rows of 32 values. `see` is shown each row as it is split.
template <class T, class See>
inline void store_parts(const __m512i (&rows)[16], std::byte* to, int64_t part_bytes, See&& see) {
  for (int r = 0; r < 16; ++r) {
    const Parts32<T> x = split_parts(static_cast<const T*>(nullptr), rows[r]);
    see(r, x);
    for (int part = 0; part < amx_parts_of<T>; ++part) {
      _mm512_store_si512(to + part * part_bytes + 64 * r, x.part[part]);
    }
  }
}

// All ones in the exponent: infinity or NaN. Sixteen-bit patterns of T, the sign cleared, compare as numbers.
template <class T>
inline constexpr short first_non_finite = __is_same(T, Bf16) ? 0x7f80 : 0x7c00;

inline __m512i magnitude_of(__m512i raw) {
  return _mm512_and_si512(raw, _mm512_set1_epi16(0x7fff));
}

// Notes the largest magnitude; one comparison at the end tells whether all were finite.
template <class T>
class FiniteWatch {
 public:
  void see(__m512i raw) { largest_ = _mm512_max_epu16(largest_, magnitude_of(raw)); }
  [[nodiscard]] bool saw_non_finite() const {
    return _mm512_cmpge_epu16_mask(largest_, _mm512_set1_epi16(first_non_finite<T>)) != 0;
  }

 private:
  __m512i largest_ = _mm512_setzero_si512();
};

// Watches rows while they are split. bf16 has no low parts: what counts there is the largest magnitude, as FiniteWatch
// notes it. The low part of a value that is not finite is NaN, so that the sums of squares of low parts, which fp16 is
// watched for in any case, tell as well.
template <class T>
class RowWatch {
 public:
  void see(__m512i raw, const Parts32<T>& x) {
    if constexpr (amx_parts_of<T> == 1) {
      finite_.see(raw);
    } else {
      const auto low = (__m512bh)x.part[1];
      squares_ = _mm512_dpbf16_ps(squares_, low, low);
    }
  }
  // The sums so far join those of other rows; the next row begins at 0. As bits, because the largest is then NaN if any
  // is, and sums of squares compare as integers.
  void end_row() {
    if constexpr (amx_parts_of<T> == 1) return;
    largest_ = _mm512_max_epu32(largest_, _mm512_castps_si512(squares_));
    squares_ = _mm512_setzero_ps();
  }
  [[nodiscard]] __m512i largest_squares() const { return largest_; }
  // Where lanes are rows: those of rows that are not finite are 0.
  [[nodiscard]] __m512i squares_of_finite_rows() const {
    return _mm512_maskz_mov_epi32(_mm512_cmple_epu32_mask(largest_, infinity()), largest_);
  }
  [[nodiscard]] bool saw_non_finite() const {
    if constexpr (amx_parts_of<T> == 1) return finite_.saw_non_finite();
    return _mm512_cmpgt_epu32_mask(largest_, infinity()) != 0;
  }

 private:
  static __m512i infinity() { return _mm512_set1_epi32(0x7f800000); }
  FiniteWatch<T> finite_;
  __m512 squares_ = _mm512_setzero_ps();
  __m512i largest_ = _mm512_setzero_si512();
};

// Packs 16 query rows (null: zeros) into padded_dim / 32 tiles per part. `negate` folds a negative scale in. Returns
// what it saw: each lane of the watch is a row. Transposed first and split after, so that two parts cost one transpose.
template <class T>
inline RowWatch<T> pack_queries(const T* const (&rows)[16], int64_t dim, int64_t dim_tiles, bool negate, std::byte* to,
                                int64_t part_bytes, int64_t dim_tile_bytes) {
  const __m512i sign = _mm512_set1_epi16(negate ? static_cast<short>(0x8000) : 0);
  RowWatch<T> watch;
  for (int64_t c = 0; c < dim_tiles; ++c) {
    __m512i block[16];
    for (int r = 0; r < 16; ++r) {
      block[r] = rows[r] == nullptr ? _mm512_setzero_si512() : load_raw(rows[r] + c * 32, dim - c * 32);
      block[r] = _mm512_xor_si512(block[r], sign);
    }
    transpose_16x16(block);
    store_parts<T>(block, to + c * dim_tile_bytes, part_bytes,
                   [&](int r, const Parts32<T>& x) { watch.see(block[r], x); });
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
    const auto n = static_cast<int>(smaller<int64_t>(V::width, dim - d));
    const auto load = [&](const T* p) { return n == V::width ? V::load_as(p + d) : V::load_as(p + d, n); };
    sum = V::fma(load(a), b == nullptr ? V::zero() : load(b), sum);
  }
  return V::sum(sum);
}

// Values that are not finite become 0.
template <class T>
inline __m512i finite_values(__m512i raw) {
  const __mmask32 finite = _mm512_cmplt_epu16_mask(magnitude_of(raw), _mm512_set1_epi16(first_non_finite<T>));
  return _mm512_maskz_mov_epi16(finite, raw);
}

// Two rows of 32 values, so that a 32-bit element is the pair of one dim: the first sixteen dims, and the others.
inline void interleave_in_order(__m512i first, __m512i second, __m512i& low, __m512i& high) {
  const __m512i low_dims = _mm512_set_epi16(47, 15, 46, 14, 45, 13, 44, 12, 43, 11, 42, 10, 41, 9, 40, 8, 39, 7, 38, 6,
                                            37, 5, 36, 4, 35, 3, 34, 2, 33, 1, 32, 0);
  low = _mm512_permutex2var_epi16(first, low_dims, second);
  high = _mm512_permutex2var_epi16(first, _mm512_add_epi16(low_dims, _mm512_set1_epi16(16)), second);
}

// What a packed chunk holds besides finite values.
enum ChunkFlag : uint8_t { keys_non_finite = 1, values_non_finite = 2 };

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
  // key's sum of squares of low parts exceeds. Non-finite values of V are packed as 0 (see add_non_finite).
  uint8_t pack(int64_t first, std::byte* to, float& low_squares) const {
    const int64_t n = smaller<int64_t>(32, kv_len_ - first);
    const T* key_row[32];
    const T* value_row[32];
    for (int64_t j = 0; j < 32; ++j) {
      key_row[j] = j < n ? keys_[first + j] : nullptr;
      value_row[j] = j < n ? values_[first + j] : nullptr;
    }
    uint8_t flags = pack_keys(key_row, to, low_squares) ? keys_non_finite : 0;
    std::byte* v_tiles = to + parts * 2 * dim_tiles_ * plan::amx_tile_bytes;
    if (pack_values<false>(value_row, v_tiles)) {
      pack_values<true>(value_row, v_tiles);
      flags |= values_non_finite;
    }
    return flags;
  }

 private:
  bool pack_keys(const T* const (&rows)[32], std::byte* to, float& low_squares) const {
    RowWatch<T> watch;
    for (int64_t j = 0; j < 32; ++j) {
      for (int64_t c = 0; c < dim_tiles_; ++c) {
        const __m512i raw = rows[j] == nullptr ? _mm512_setzero_si512() : load_raw(rows[j] + c * 32, dim_ - c * 32);
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
    return watch.saw_non_finite();
  }

  template <bool Clean>
  bool pack_values(const T* const (&rows)[32], std::byte* to) const {
    const int64_t part_bytes = 2 * value_tiles_ * plan::amx_tile_bytes;
    FiniteWatch<T> watch;
    for (int64_t c = 0; c < value_tiles_; ++c) {
      __m512i low[16];
      __m512i high[16];
      for (int r = 0; r < 16; ++r) {
        __m512i x[2];
        for (int i = 0; i < 2; ++i) {
          const T* row = rows[2 * r + i];
          x[i] = row == nullptr ? _mm512_setzero_si512() : load_raw(row + c * 32, value_dim_ - c * 32);
          watch.see(x[i]);
          if constexpr (Clean) x[i] = finite_values<T>(x[i]);
        }
        interleave_in_order(x[0], x[1], low[r], high[r]);
      }
      std::byte* tile = to + 2 * c * plan::amx_tile_bytes;
      transpose_16x16(low);
      const auto unseen = [](int, const Parts32<T>&) {};
      store_parts<T>(low, tile, part_bytes, unseen);
      transpose_16x16(high);
      store_parts<T>(high, tile + plan::amx_tile_bytes, part_bytes, unseen);
    }
    return watch.saw_non_finite();
  }

  KvRows<T> keys_;
  KvRows<T> values_;
  int64_t kv_len_;
  int64_t dim_, value_dim_;
  int64_t dim_tiles_, value_tiles_;
};

}  // namespace
}  // namespace flashmoe::cpu
