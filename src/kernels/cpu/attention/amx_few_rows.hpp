// Attention for few query rows per kv head (decode) on AMX tiles, up to 16 rows and 64 keys at a time:
//
//   S^T (64 keys, 16 rows) = K (keys, D) x Q^T (D, rows)      K as it lies in memory, 16 rows of it are a tile
//   P = exp2(S * scale - max), row by row
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
  using F = typename V::F;
  static constexpr int parts = amx_parts_of<T>;
  static constexpr int64_t most_rows = plan::amx_few_rows;
  static constexpr int64_t block_keys = Base::block_keys, chunk_keys = plan::amx_chunk_keys,
                           tile_bytes = plan::amx_tile_bytes;

 public:
  AmxFewRowsKernel(const fms_attention_plan& plan, const plan::CpuLayout& layout, std::byte* workspace, int64_t thread)
      : Base(plan, layout, workspace, thread),
        dim_tiles_(layout.padded_dim / 32),
        value_tiles_(layout.padded_value_dim / 32) {}

  void run_item(const Head& h, int64_t first_row, int64_t last_row, int64_t split) {
    const KeyRange keys = split_keys(visible_hull(h, first_row, last_row), split, this->plan_.kv_splits);
    this->rows_ = last_row - first_row;
    for (int64_t r = 0; r < this->rows_; ++r) {
      this->begin_row(h, first_row + r, r);
      _mm512_store_ps(row_sums(r), V::zero());
    }
    pack_queries_of(h, first_row);
    std::memset(weight_tile(0, 0), 0, static_cast<std::size_t>(parts * 2 * tile_bytes));
    this->first_block(h, keys);
    for (int64_t j = keys.lo; j < keys.hi; j += block_keys) {
      const KeyRange block{j, smaller<int64_t>(j + block_keys, keys.hi)};
      this->find_block(h, block, keys.hi);
      if (!score(h, block)) rescore(h, first_row, block);
      if (modifies_scores(this->plan_.problem)) {
        for (int64_t r = 0; r < this->rows_; ++r) this->modify_row(h, first_row + r, r, block);
      }
      for (int64_t r = 0; r < this->rows_; ++r) weigh_row(r, block);
      accumulate(h, block);
    }
    for (int64_t r = 0; r < this->rows_; ++r) {
      this->row_sum(r) = V::sum(_mm512_load_ps(row_sums(r)));
      this->end_row(h, first_row + r, r, split);
    }
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
  std::byte* weight_tile(int64_t part, int64_t chunk) const {
    return this->template at<std::byte>(this->layout_.weights, (part * 2 + chunk) * tile_bytes);
  }
  float* row_sums(int64_t r) const { return this->template at<float>(this->layout_.row_sums, r * V::width); }
  float* products(int64_t tile) const { return this->template at<float>(this->layout_.products, tile * 256); }

  // Tiles 0-3 accumulate, of scores 16 keys each, of outputs 16 dims.
  static void zero_accumulators() {
    tile_zero<0>();
    tile_zero<1>();
    tile_zero<2>();
    tile_zero<3>();
  }
  void store_products() const {
    tile_store<0>(products(0), 64);
    tile_store<1>(products(1), 64);
    tile_store<2>(products(2), 64);
    tile_store<3>(products(3), 64);
  }

  // Of floats; shifted out, and then they compare as integers.
  static __m512i without_sign(__m512i bits) { return _mm512_slli_epi32(bits, 1); }
  static bool all_finite(__m512i largest) {
    return _mm512_cmpge_epu32_mask(largest, _mm512_set1_epi32(static_cast<int>(0xff000000U))) == 0;
  }

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

  // Of `n` keys in the block, those from 16 * group on.
  KeyGroup key_group(int64_t stride, int64_t n, int64_t group) const {
    const T* const* keys = this->keys_ + group * 16;
    const int64_t there = smaller<int64_t>(16, n - group * 16);
    bool is_tile = parts == 1 && there == 16 && this->key_dim_ % 32 == 0;
    for (int64_t j = 1; j < there; ++j) is_tile &= keys[j] == keys[0] + j * stride;  // not so where a page ends
    if (is_tile) {
      return {reinterpret_cast<const std::byte*>(keys[0]), stride * static_cast<int64_t>(sizeof(T)), 64, 0};
    }
    for (int64_t c = 0; c < dim_tiles_; ++c) {
      for (int64_t j = 0; j < 16; ++j) {
        const __m512i raw = j < there ? load_raw(keys[j] + c * 32, this->key_dim_ - c * 32) : _mm512_setzero_si512();
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
    const int64_t n = block.hi - block.lo;
    KeyGroup groups[4];
    // Nothing there: any other keys, whose scores nobody looks at.
    for (int64_t g = 0; g < 4; ++g) groups[g] = g * 16 < n ? key_group(h.problem->k.seq, n, g) : groups[0];
    // Values are asked for between the products: all at once they would wait for each other, and the products for them.
    int64_t asked = 0;
    const int64_t share = (block_keys - 1) / (4 * parts * parts * dim_tiles_) + 1;
    const auto ask_for_values = [&] {
      for (const int64_t end = smaller(asked + share, n); asked < end; ++asked) {
        this->prefetch_row(this->values_[asked], this->value_dim_);
      }
    };
    zero_accumulators();
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
          ask_for_values();
          load.template operator()<4>(groups[2]);
          tile_multiply<1, 5, 6>();
          ask_for_values();
          load.template operator()<5>(groups[3]);
          tile_multiply<2, 4, 6>();
          ask_for_values();
          tile_multiply<3, 5, 6>();
          ask_for_values();
        }
      }
    }
    store_products();
    return store_scores(n);
  }

  bool store_scores(int64_t n) const {
    __m512i largest = _mm512_setzero_si512();
    for (int64_t g = 0; g * 16 < n; ++g) {
      __m512i keys[16];
      for (int64_t j = 0; j < 16; ++j) keys[j] = _mm512_load_si512(products(g) + j * 16);
      transpose_16x16(keys);
      for (int64_t r = 0; r < this->rows_; ++r) {
        largest = _mm512_max_epu32(largest, without_sign(keys[r]));
        _mm512_store_si512(this->scores(r) + g * 16, keys[r]);
      }
    }
    return all_finite(largest);
  }

  void rescore(const Head& h, int64_t first_row, KeyRange block) const {
    for (int64_t r = 0; r < this->rows_; ++r) {
      for (int64_t j = 0; j < block.hi - block.lo; ++j) {
        float& score = this->scores(r)[j];
        if (std::fabs(score) < __builtin_inff()) continue;
        score = fp32_dot(this->keys_[j], q_row<T>(h, first_row + r), this->key_dim_) * this->scale_.q_factor;
      }
    }
  }

  // ---- weights ----

  // Scores of a row to weights in bf16 tiles. Most blocks need no new maximum: relative to an older one weights are as
  // exact, up to 2^8 (AmxKernel::weigh_under_old_maxima), and nothing has to be found out across the lanes.
  void weigh_row(int64_t r, KeyRange block) const {
    constexpr int vectors = block_keys / V::width;
    const F scale = V::set1(modifies_scores(this->plan_.problem) ? 1.0F : this->scale_.to_log2);
    float* const scores = this->scores(r);
    const int64_t seen_lo = this->key_lo(r) - block.lo,
                  seen_hi = smaller<int64_t>(this->key_hi(r), block.hi) - block.lo;
    for (int64_t j = 0; j < smaller(seen_lo, block_keys); ++j) scores[j] = -__builtin_inff();
    for (int64_t j = larger<int64_t>(seen_hi, 0); j < block_keys; ++j) scores[j] = -__builtin_inff();
    F x[vectors];
    for (int i = 0; i < vectors; ++i) x[i] = V::load(scores + i * V::width);
    const F top = V::max(V::max(x[0], x[1]), V::max(x[2], x[3]));
    const float old_max = this->row_max(r);
    if (!(old_max > -__builtin_inff()) || V::any_greater(V::fms(top, scale, V::set1(old_max)), V::set1(8.0F)))
      raise_maximum(r, V::largest(V::mul(top, scale)));
    const float row_max = this->row_max(r);
    const F offset = V::set1(row_max == -__builtin_inff() ? 0.0F : row_max);
    for (F& one : x) one = V::template exp2<weight_degree<T>>(V::fms(one, scale, offset));
    F* const sums = reinterpret_cast<F*>(row_sums(r));
    *sums = V::add(*sums, V::add(V::add(x[0], x[1]), V::add(x[2], x[3])));
    for (int64_t chunk = 0; chunk < 2; ++chunk) pack_weights(r, chunk, x[2 * chunk], x[2 * chunk + 1]);
  }

  void raise_maximum(int64_t r, float top) const {
    float& row_max = this->row_max(r);
    if (!(top > row_max)) return;
    const F factor = V::set1(std::exp2(row_max - top));
    row_max = top;
    _mm512_store_ps(row_sums(r), V::mul(_mm512_load_ps(row_sums(r)), factor));
    for (int64_t d = 0; d < this->layout_.padded_value_dim; d += V::width) {
      V::store(this->output(r) + d, V::mul(V::load(this->output(r) + d), factor));
    }
  }

  void pack_weights(int64_t r, int64_t chunk, F low_keys, F high_keys) const {
    const auto high = (__m512i)_mm512_cvtne2ps_pbh(high_keys, low_keys);
    _mm512_store_si512(weight_tile(0, chunk) + r * 64, high);
    if constexpr (parts == 2) {
      const auto widened = [](__m256i x) {
        return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(x), 16));
      };
      const F low_rest = V::sub(low_keys, widened(_mm512_castsi512_si256(high)));
      const F high_rest = V::sub(high_keys, widened(_mm512_extracti64x4_epi64(high, 1)));
      _mm512_store_si512(weight_tile(1, chunk) + r * 64, (__m512i)_mm512_cvtne2ps_pbh(high_rest, low_rest));
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
      interleave_in_order(first, second, pairs[0], pairs[1]);
    }
  }

  // Values of a block as tiles; with `Clean`, 0 in place of what is not finite. Prefetches the keys of the next block.
  template <bool Clean>
  void pack_values_of(KeyRange block) const {
    const int64_t n = block.hi - block.lo;
    const T* const* values = this->values_;
    for (int64_t p = 0; p < chunks_of(block) * 16; ++p) {
      const int64_t key = 2 * p;
      for (int64_t i = key; i < smaller(key + 2, this->next_count_); ++i) {
        this->prefetch_row(this->next_keys_[i], this->key_dim_);
      }
      std::byte* const to = value_tile(0, p / 16, 0) + p % 16 * 64;
      if (key + 1 < n && this->value_dim_ % 32 == 0) {
        pack_pair<Clean, true>(values[key], values[key + 1], to);
      } else {
        pack_pair<Clean, false>(key < n ? values[key] : nullptr, key + 1 < n ? values[key + 1] : nullptr, to);
      }
    }
  }

  // Two rows of values, or null for zeros; `Whole`: they are there in full.
  template <bool Clean, bool Whole>
  void pack_pair(const T* first, const T* second, std::byte* to) const {
    const int64_t tiles = value_tiles_;
    const auto load = [&](const T* row, int64_t c) {
      if constexpr (!Whole) {
        if (row == nullptr) return _mm512_setzero_si512();
        return load_raw(row + c * 32, this->value_dim_ - c * 32);
      }
      return _mm512_loadu_si512(row + c * 32);
    };
    for (int64_t c = 0; c < tiles; ++c) {
      __m512i x = load(first, c), y = load(second, c);
      if constexpr (Clean) {
        x = finite_values<T>(x);
        y = finite_values<T>(y);
      }
      __m512i pairs[2];
      interleave(x, y, pairs);
      for (int64_t half = 0; half < 2; ++half) {
        const Parts32<T> split = split_parts(static_cast<const T*>(nullptr), pairs[half]);
        for (int part = 0; part < parts; ++part) {
          _mm512_store_si512(to + (part * 4 * tiles + 2 * c + half) * tile_bytes, split.part[part]);
        }
      }
    }
  }

  // O += P V. A value that is not finite makes the products of its column so, whatever the weights: then the block is
  // taken again without such values, and they are added to the rows that see them.
  void accumulate(const Head& h, KeyRange block) const {
    bool is_clean = false;
    pack_values_of<false>(block);
    for (int64_t d = 0; d < 2 * value_tiles_; d += 4) {
      const int64_t tiles = smaller<int64_t>(4, 2 * value_tiles_ - d);
      if (!multiply(d, tiles, chunks_of(block)) && !is_clean) {
        is_clean = true;
        pack_values_of<true>(block);
        multiply(d, tiles, chunks_of(block));
      }
      for (int64_t r = 0; r < this->rows_; ++r) {
        float* o = this->output(r) + d * 16;
        for (int64_t i = 0; i < tiles; ++i) {
          V::store(o + i * 16, V::add(V::load(o + i * 16), V::load(products(i) + r * 16)));
        }
      }
    }
    if (!is_clean) return;
    // Where V::load_pair puts an element.
    const auto place = [](int64_t d) { return __is_same(T, Bf16) ? d / 32 * 32 + d % 2 * 16 + d % 32 / 2 : d; };
    add_non_finite<V>(v_rows<T>(h), this->value_dim_, block.lo, block.hi, &this->key_lo(0), &this->key_hi(0),
                      this->rows_, [&](int64_t d, int64_t r) -> float& { return this->output(r)[place(d)]; });
  }

  // Products of up to four tiles of 16 dims from tile d on, summed from 0 (see TileKernel::accumulate). Whether all are
  // finite.
  bool multiply(int64_t d, int64_t tiles, int64_t chunks) const {
    zero_accumulators();
    for (int64_t chunk = 0; chunk < chunks; ++chunk) {
      add_products(0, 0, chunk, d, tiles == 4);
      if constexpr (parts == 2) {
        add_products(1, 0, chunk, d, tiles == 4);
        add_products(0, 1, chunk, d, tiles == 4);
      }
    }
    store_products();
    __m512i largest = _mm512_setzero_si512();
    for (int64_t i = 0; i < tiles; ++i) {
      for (int64_t r = 0; r < this->rows_; ++r) {
        largest = _mm512_max_epu32(largest, without_sign(_mm512_load_si512(products(i) + r * 16)));
      }
    }
    return all_finite(largest);
  }
  void add_products(int64_t weight_part, int64_t value_part, int64_t chunk, int64_t d, bool has_four) const {
    tile_load<4>(weight_tile(weight_part, chunk), 64);
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
