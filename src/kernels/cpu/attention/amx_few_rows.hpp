// Attention for few query rows per kv head (decode) on AMX tiles, up to 16 rows and 64 keys at a time:
//
//   S^T (64 keys, 16 rows) = K (keys, D) x Q^T (D, rows)      K as it lies in memory, 16 rows of it are a tile
//   softmax of each row, as without tiles (gemv.hpp)
//   O (16 rows, D) += P (rows, keys) x V (keys, D)            V in pairs of keys, interleaved once for all rows
//
// So the work per key hardly grows with the rows, and the time stays that of reading K and V. fp16 values are high +
// low bf16 parts; here low x low is always computed for the scores: tiles have time.
//
// What is not finite: scores are taken again from the values themselves, because tiles take denormals for 0 and add
// parts that may cancel; values of V are packed as 0 and added to the rows that see them (add_non_finite). All others
// keep theirs to the bit.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "kernels/cpu/attention/amx_pack.hpp"
#include "kernels/cpu/attention/amx_tiles.hpp"
#include "kernels/cpu/attention/gemv.hpp"

namespace flashmoe::cpu {
namespace {

template <class T>
class AmxFewRowsKernel : private GemvKernel<Avx512, T> {
  using Base = GemvKernel<Avx512, T>;
  using V = Avx512;
  static constexpr int parts = amx_parts_of<T>;
  static constexpr int64_t most_rows = plan::amx_few_rows;
  static constexpr int64_t block_keys = 64, chunk_keys = plan::amx_chunk_keys, tile_bytes = plan::amx_tile_bytes;

 public:
  AmxFewRowsKernel(const fms_attention_plan& plan, const plan::CpuLayout& layout, std::byte* workspace, int64_t thread)
      : Base(plan, layout, workspace, thread),
        dim_tiles_(layout.padded_dim / 32),
        value_tiles_(layout.padded_value_dim / 32) {}

  void run_item(const Head& h, int64_t first_row, int64_t last_row, int64_t split) {
    const KeyRange keys = split_keys(visible_hull(h, first_row, last_row), split, this->plan_.kv_splits);
    this->rows_ = last_row - first_row;
    for (int64_t r = 0; r < this->rows_; ++r) this->begin_row(h, first_row + r, r);
    pack_queries_of(h, first_row);
    std::memset(weight_tiles(0, 0), 0, static_cast<std::size_t>(parts * 2 * tile_bytes));
    for (int64_t j = keys.lo; j < keys.hi; j += block_keys) {
      const KeyRange block{j, smaller<int64_t>(j + block_keys, keys.hi)};
      if (!score(h, block)) rescore(h, first_row, block);
      if (modifies_scores(this->plan_.problem)) {
        for (int64_t r = 0; r < this->rows_; ++r) this->modify_row(h, first_row + r, r, block);
      }
      for (int64_t r = 0; r < this->rows_; ++r) this->softmax_row(r, block);
      const bool is_finite = pack_values_of<false>(h, block, keys.hi);
      if (!is_finite) pack_values_of<true>(h, block, keys.hi);
      pack_weights(block);
      accumulate(chunks_of(block));
      if (!is_finite) add_non_finite_values(h, block);
    }
    for (int64_t r = 0; r < this->rows_; ++r) this->end_row(h, first_row + r, r, split);
  }

 private:
  static int64_t chunks_of(KeyRange block) { return (block.hi - block.lo + chunk_keys - 1) / chunk_keys; }

  // Tiles [part][dim / 32]: row = pair of dims, column = query row.
  std::byte* query_tile(int64_t part, int64_t c) const {
    return this->template at<std::byte>(this->layout_.query_tiles, (part * dim_tiles_ + c) * tile_bytes);
  }
  // Keys that were copied: [part][16 keys][dim / 32].
  std::byte* key_tile(int64_t part, int64_t group, int64_t c) const {
    return this->template at<std::byte>(this->layout_.key_tiles, ((part * 4 + group) * dim_tiles_ + c) * tile_bytes);
  }
  // Tiles [part][32 keys][dim / 16]: row = pair of keys, column = dim.
  std::byte* value_tile(int64_t part, int64_t chunk, int64_t d) const {
    return this->template at<std::byte>(this->layout_.v, ((part * 2 + chunk) * 2 * value_tiles_ + d) * tile_bytes);
  }
  // Tiles [part][32 keys]: row = query row.
  std::byte* weight_tiles(int64_t part, int64_t chunk) const {
    return this->template at<std::byte>(this->layout_.weights, (part * 2 + chunk) * tile_bytes);
  }
  float* products(int64_t tile) const { return this->template at<float>(this->layout_.products, tile * 256); }

  void pack_queries_of(const Head& h, int64_t first_row) const {
    const T* rows[most_rows];
    for (int64_t r = 0; r < most_rows; ++r) rows[r] = r < this->rows_ ? q_row<T>(h, first_row + r) : nullptr;
    pack_queries<T>(rows, this->key_dim_, dim_tiles_, this->scale_.q_factor < 0, query_tile(0, 0),
                    dim_tiles_ * tile_bytes, tile_bytes);
  }

  // ---- scores ----

  // Where a product finds 16 keys: tiles of 32 dims, `step` bytes apart, rows `stride` bytes apart.
  struct KeyGroup {
    const std::byte* tiles;
    int64_t stride, step, part;
  };

  KeyGroup key_group(const Head& h, const KvRows<T>& keys, int64_t first, int64_t last, int64_t group) const {
    const bool is_even = h.pages == nullptr || first % keys.page_size + 16 <= keys.page_size;
    if (parts == 1 && is_even && last - first >= 16 && this->key_dim_ % 32 == 0) {
      return {reinterpret_cast<const std::byte*>(keys[first]), keys.row_stride * static_cast<int64_t>(sizeof(T)), 64,
              0};
    }
    for (int64_t c = 0; c < dim_tiles_; ++c) {
      for (int64_t j = 0; j < 16; ++j) {
        const __m512i raw =
            first + j < last ? load_raw(keys[first + j] + c * 32, this->key_dim_ - c * 32) : _mm512_setzero_si512();
        const Parts32<T> x = split_parts(static_cast<const T*>(nullptr), raw);
        for (int part = 0; part < parts; ++part) {
          _mm512_store_si512(key_tile(part, group, c) + j * 64, x.part[part]);
        }
      }
    }
    return {key_tile(0, group, 0), 64, tile_bytes, 4 * dim_tiles_ * tile_bytes};
  }

  // Whether all of them are finite: else they are not the rows' scores.
  bool score(const Head& h, KeyRange block) const {
    const KvRows<T> keys = k_rows<T>(h);
    const KvRows<T> values = v_rows<T>(h);
    KeyGroup groups[4];
    for (int64_t g = 0; g < 4; ++g) {
      const int64_t first = block.lo + g * 16;
      // Nothing there: any other keys, whose scores nobody looks at.
      groups[g] = first < block.hi ? key_group(h, keys, first, block.hi, g) : groups[0];
    }
    for (int64_t j = block.lo; j < block.hi; ++j) this->prefetch_row(values[j], this->value_dim_);
    tile_zero<0>();
    tile_zero<1>();
    tile_zero<2>();
    tile_zero<3>();
    for (int q_part = 0; q_part < parts; ++q_part) {
      for (int k_part = 0; k_part < parts; ++k_part) {
        for (int64_t c = 0; c < dim_tiles_; ++c) {
          const auto load = [&]<int Tile>(const KeyGroup& g) {
            tile_load<Tile>(g.tiles + c * g.step + k_part * g.part, g.stride);
          };
          tile_load<6>(query_tile(q_part, c), 64);
          load.template operator()<4>(groups[0]);
          load.template operator()<5>(groups[1]);
          tile_multiply<0, 4, 6>();
          load.template operator()<4>(groups[2]);
          tile_multiply<1, 5, 6>();
          load.template operator()<5>(groups[3]);
          tile_multiply<2, 4, 6>();
          tile_multiply<3, 5, 6>();
        }
      }
    }
    tile_store<0>(products(0), 64);
    tile_store<1>(products(1), 64);
    tile_store<2>(products(2), 64);
    tile_store<3>(products(3), 64);
    return store_scores(block.hi - block.lo);
  }

  bool store_scores(int64_t n) const {
    __m512i largest = _mm512_setzero_si512();
    for (int64_t g = 0; g * 16 < n; ++g) {
      __m512i keys[16];
      for (int64_t j = 0; j < 16; ++j) keys[j] = _mm512_load_si512(products(g) + j * 16);
      transpose_16x16(keys);
      for (int64_t r = 0; r < this->rows_; ++r) {
        largest = _mm512_max_epu32(largest, _mm512_slli_epi32(keys[r], 1));  // without the sign
        _mm512_store_si512(this->scores(r) + g * 16, keys[r]);
      }
    }
    return _mm512_cmpge_epu32_mask(largest, _mm512_set1_epi32(static_cast<int>(0xff000000U))) == 0;
  }

  void rescore(const Head& h, int64_t first_row, KeyRange block) const {
    const KvRows<T> keys = k_rows<T>(h);
    for (int64_t r = 0; r < this->rows_; ++r) {
      for (int64_t j = block.lo; j < block.hi; ++j) {
        float& score = this->scores(r)[j - block.lo];
        if (std::fabs(score) < __builtin_inff()) continue;
        score = fp32_dot(keys[j], q_row<T>(h, first_row + r), this->key_dim_) * this->scale_.q_factor;
      }
    }
  }

  // ---- outputs ----

  // Pairs of two rows' elements, in the order in which outputs are kept (V::load_pair).
  static void interleave(__m512i first, __m512i second, __m512i (&pairs)[2]) {
    if constexpr (__is_same(T, Bf16)) {
      constexpr __mmask32 odd = 0xaaaaaaaaU;
      pairs[0] = _mm512_mask_blend_epi16(odd, first, _mm512_slli_epi32(second, 16));
      pairs[1] = _mm512_mask_blend_epi16(odd, _mm512_srli_epi32(first, 16), second);
    } else {
      const __m512i low_dims = _mm512_set_epi16(47, 15, 46, 14, 45, 13, 44, 12, 43, 11, 42, 10, 41, 9, 40, 8, 39, 7, 38,
                                                6, 37, 5, 36, 4, 35, 3, 34, 2, 33, 1, 32, 0);
      pairs[0] = _mm512_permutex2var_epi16(first, low_dims, second);
      pairs[1] = _mm512_permutex2var_epi16(first, _mm512_add_epi16(low_dims, _mm512_set1_epi16(16)), second);
    }
  }

  // Whether all of them are finite; else once more, with `Clean`. Prefetches the keys of the next block.
  template <bool Clean>
  bool pack_values_of(const Head& h, KeyRange block, int64_t last_key) const {
    const KvRows<T> keys = k_rows<T>(h);
    const KvRows<T> values = v_rows<T>(h);
    FiniteWatch<T> watch;
    for (int64_t p = 0; p < chunks_of(block) * 16; ++p) {
      const int64_t key = block.lo + 2 * p;
      for (int64_t i = 0; i < 2; ++i) {
        if (key + i + block_keys < last_key) this->prefetch_row(keys[key + i + block_keys], this->key_dim_);
      }
      const T* first = key < block.hi ? values[key] : nullptr;
      const T* second = key + 1 < block.hi ? values[key + 1] : nullptr;
      std::byte* const to = value_tile(0, p / 16, 0) + p % 16 * 64;
      for (int64_t c = 0; c < value_tiles_; ++c) {
        const int64_t left = this->value_dim_ - c * 32;
        __m512i x = first == nullptr ? _mm512_setzero_si512() : load_raw(first + c * 32, left);
        __m512i y = second == nullptr ? _mm512_setzero_si512() : load_raw(second + c * 32, left);
        watch.see(x);
        watch.see(y);
        if constexpr (Clean) {
          x = finite_values<T>(x);
          y = finite_values<T>(y);
        }
        __m512i pairs[2];
        interleave(x, y, pairs);
        for (int64_t half = 0; half < 2; ++half) {
          const Parts32<T> split = split_parts(static_cast<const T*>(nullptr), pairs[half]);
          for (int part = 0; part < parts; ++part) {
            _mm512_store_si512(to + (part * 4 * value_tiles_ + 2 * c + half) * tile_bytes, split.part[part]);
          }
        }
      }
    }
    return !watch.saw_non_finite();
  }

  void add_non_finite_values(const Head& h, KeyRange block) const {
    // Where V::load_pair puts an element.
    const auto place = [](int64_t d) { return __is_same(T, Bf16) ? d / 32 * 32 + d % 2 * 16 + d % 32 / 2 : d; };
    add_non_finite<V>(v_rows<T>(h), this->value_dim_, block.lo, block.hi, &this->key_lo(0), &this->key_hi(0),
                      this->rows_, [&](int64_t d, int64_t r) -> float& { return this->output(r)[place(d)]; });
  }

  void pack_weights(KeyRange block) const {
    const int64_t n = block.hi - block.lo;
    for (int64_t r = 0; r < this->rows_; ++r) {
      for (int64_t chunk = 0; chunk < chunks_of(block); ++chunk) {
        const float* s = this->scores(r) + chunk * chunk_keys;
        const __m512 low_keys = _mm512_load_ps(s);
        const __m512 high_keys = chunk * chunk_keys + 16 < n ? _mm512_load_ps(s + 16) : _mm512_setzero_ps();
        const auto high = (__m512i)_mm512_cvtne2ps_pbh(high_keys, low_keys);
        _mm512_store_si512(weight_tiles(0, chunk) + r * 64, high);
        if constexpr (parts == 2) {
          const auto widened = [](__m256i x) {
            return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(x), 16));
          };
          const __m512 low_rest = _mm512_sub_ps(low_keys, widened(_mm512_castsi512_si256(high)));
          const __m512 high_rest = _mm512_sub_ps(high_keys, widened(_mm512_extracti64x4_epi64(high, 1)));
          _mm512_store_si512(weight_tiles(1, chunk) + r * 64, (__m512i)_mm512_cvtne2ps_pbh(high_rest, low_rest));
        }
      }
    }
  }

  // Four tiles of 16 dims at a time; a block is summed from 0, see TileKernel::accumulate.
  void accumulate(int64_t chunks) const {
    for (int64_t d = 0; d < 2 * value_tiles_; d += 4) {
      const bool has_four = d + 4 <= 2 * value_tiles_;
      tile_zero<0>();
      tile_zero<1>();
      tile_zero<2>();
      tile_zero<3>();
      for (int64_t chunk = 0; chunk < chunks; ++chunk) {
        add_products(0, 0, chunk, d, has_four);
        if constexpr (parts == 2) {
          add_products(1, 0, chunk, d, has_four);
          add_products(0, 1, chunk, d, has_four);
        }
      }
      tile_store<0>(products(0), 64);
      tile_store<1>(products(1), 64);
      tile_store<2>(products(2), 64);
      tile_store<3>(products(3), 64);
      for (int64_t r = 0; r < this->rows_; ++r) {
        float* o = this->output(r) + d * 16;
        for (int64_t i = 0; i < (has_four ? 4 : 2); ++i) {
          V::store(o + i * 16, V::add(V::load(o + i * 16), V::load(products(i) + r * 16)));
        }
      }
    }
  }
  void add_products(int64_t weight_part, int64_t value_part, int64_t chunk, int64_t d, bool has_four) const {
    tile_load<4>(weight_tiles(weight_part, chunk), 64);
    tile_load<5>(value_tile(value_part, chunk, d), 64);
    tile_load<6>(value_tile(value_part, chunk, d + 1), 64);
    tile_multiply<0, 4, 5>();
    tile_multiply<1, 4, 6>();
    if (!has_four) return;
    tile_load<5>(value_tile(value_part, chunk, d + 2), 64);
    tile_load<6>(value_tile(value_part, chunk, d + 3), 64);
    tile_multiply<2, 4, 5>();
    tile_multiply<3, 4, 6>();
  }

  int64_t dim_tiles_, value_tiles_;  // of 32 dims
};

}  // namespace
}  // namespace flashmoe::cpu
