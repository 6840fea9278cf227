// Attention for few query rows per kv head (decode) on AMX tiles, up to 16 rows and 64 keys at a time. K and V are
// operands as they lie in memory, 16 rows of 32 values a tile:
//
//   S^T (16 keys, rows) += K (16 keys, 32 dims) x Q^T (32 dims, rows)
//   P = exp2(S * scale - max), row by row
//   O += P (rows, 16 keys) x V (16 keys, 32 dims)
//
// The second product takes pairs of neighbours in V's rows for one term each: neighbouring dims, of the same key. So
// each row of P is there twice, with 0 beside a weight where the odd dim is and where the even one is; the sums of even
// and of odd dims are rows of their own. Half of the products are with 0, and nothing has to be packed.
//
// A block's scores become weights when those of the block after it have been computed, be it the next item's: tiles
// then wait for keys, and one product for another, while vectors work, and the work per key hardly grows with the rows.
// fp16 values are high + low bf16 parts, copied; here low x low is always computed for the scores: tiles have time.
//
// What is not finite: tiles take denormals for 0, add parts that may cancel, and multiply what is not seen by 0. So an
// item is computed as if all were finite; if scores or outputs were not, then once more: scores that are not finite are
// taken from the values themselves, and values that are not count as 0 and are added to the rows that see them
// (add_non_finite).
#pragma once

#include <immintrin.h>

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
  using BlockRows = typename Base::BlockRows;
  static constexpr int parts = amx_parts_of<T>;
  static constexpr int64_t most_rows = plan::amx_few_rows;
  static constexpr int64_t block_keys = Base::block_keys, tile_bytes = plan::amx_tile_bytes;

 public:
  AmxFewRowsKernel(const fms_attention_plan& plan, const plan::CpuLayout& layout, std::byte* workspace, int64_t thread)
      : Base(plan, layout, workspace, thread),
        dim_tiles_(layout.padded_dim / 32),
        value_tiles_(layout.padded_value_dim / 32),
        prefetched_step_(prefetched_step(plan)) {}

  // Somebody else configures tiles now.
  void forget_tiles() {
    finish();
    this->rows_ = 0;
  }

  // An item's results are there when the next one has begun, or after finish().
  void run_item(const Head& h, int64_t first_row, int64_t last_row, int64_t split) {
    if (last_row - first_row != this->rows_) {
      finish();
      configure_tiles(last_row - first_row);
    }
    Item& item = items_[scored_->item == &items_[0] ? 1 : 0];
    const KeyRange keys = split_keys(visible_hull(h, first_row, last_row), split, this->plan_.kv_splits);
    item = {h, first_row, split, or_empty(keys.lo, keys.hi)};
    pack_queries_of(item);
    find_block(item, item.keys.lo, *next_);
    do {
      Block* const now = next_;
      next_ = spare_;
      find_block(item, now->keys.hi, *next_);
      now->products = 1 - scored_->products;
      score(*now, next_->rows);
      if (is_scored_) weigh(*scored_, now->rows);
      spare_ = scored_;
      scored_ = now;
      is_scored_ = true;
    } while (next_->rows.count > 0);
  }

  void finish() {
    if (is_scored_) weigh(*scored_, next_->rows);
    is_scored_ = false;
  }

 private:
  struct Item {
    Head head;
    int64_t first_row, split;
    KeyRange keys;
  };
  struct Block {
    const Item* item = nullptr;
    KeyRange keys;
    BlockRows rows;
    int64_t products = 0;  // which of both buffers
  };

  void find_block(const Item& item, int64_t from, Block& block) const {
    block.item = &item;
    block.keys = {from, smaller(from + block_keys, item.keys.hi)};
    this->find_rows(item.head, block.keys, block.rows);
  }

  // From its scores to its part of the outputs. Values that come next are asked for.
  void weigh(Block& block, const BlockRows& next) {
    const Item& item = *block.item;
    if (block.keys.lo == item.keys.lo) begin(item);
    store_scores(block);
    weigh_rows(block);
    accumulate<false>(block, next);
    if (block.keys.hi == item.keys.hi) end(block);
  }

  void begin(const Item& item) {
    for (int64_t r = 0; r < this->rows_; ++r) {
      this->begin_row(item.head, item.first_row + r, r);
      _mm512_store_ps(row_sums(r), V::zero());
    }
    if (are_sums_in_tiles_) {
      tile_zero<3>();
      tile_zero<4>();
    } else {
      std::memset(sums(0), 0, static_cast<std::size_t>(2 * this->rows_ * sums_stride()));
    }
    largest_ = _mm512_setzero_si512();
  }

  void end(Block& last) {
    const Item& item = *last.item;
    if (are_sums_in_tiles_) store_sums(0, 0);
    if (!is_finite()) compute_carefully(item, last);
    for (int64_t r = 0; r < this->rows_; ++r) this->row_sum(r) = V::sum(_mm512_load_ps(row_sums(r)));
    const uint32_t features = this->plan_.problem.features;
    if (this->plan_.kv_splits == 1 && (features & (FMS_PARTIAL | FMS_LSE)) == 0 && this->value_dim_ % 32 == 0) {
      store_rows(item);
      return;
    }
    for (int64_t r = 0; r < this->rows_; ++r) {
      gather_output(r);
      this->end_row(item.head, item.first_row + r, r, item.split);
    }
  }

  // The whole item once more, one block after the other.
  void compute_carefully(const Item& item, Block& block) {
    BlockRows none;
    none.count = 0;
    const bool in_tiles = are_sums_in_tiles_;
    are_sums_in_tiles_ = false;
    begin(item);
    for (int64_t j = item.keys.lo; j < item.keys.hi; j += block_keys) {
      find_block(item, j, block);
      score(block, none);
      store_scores(block);
      rescore(block);
      weigh_rows(block);
      accumulate<true>(block, none);
    }
    are_sums_in_tiles_ = in_tiles;
  }

  // Tiles [part][dim / 32]: row = pair of dims, column = query row.
  std::byte* query_tile(const Item& item, int64_t part, int64_t c) const {
    const int64_t of_item = (&item - items_) * parts * dim_tiles_;
    return this->template at<std::byte>(this->layout_.query_tiles, (of_item + part * dim_tiles_ + c) * tile_bytes);
  }
  // Tiles [part][16 keys]: row = query row, for even dims and then for odd ones.
  std::byte* weights(int64_t part, int64_t group) const {
    return this->template at<std::byte>(this->layout_.weights, (part * 4 + group) * 2 * tile_bytes);
  }
  float* row_sums(int64_t r) const { return this->template at<float>(this->layout_.row_sums, r * V::width); }
  // Scores of 16 keys as tiles store them: [key][columns_].
  float* products(const Block& block, int64_t group) const {
    return this->template at<float>(this->layout_.products, (block.products * 4 + group) * 256);
  }
  // Outputs as tiles sum them: even dims of all rows, then the odd ones.
  float* sums(int64_t row) const {
    return this->template at<float>(this->layout_.tile_sums, row * (this->layout_.padded_value_dim / 2));
  }
  [[nodiscard]] int64_t sums_stride() const {
    return this->layout_.padded_value_dim / 2 * static_cast<int64_t>(sizeof(float));
  }

  // Tiles 0 and 1 sum scores, (16 keys, columns_); 2 is Q. Tiles 3 and 4 sum outputs and 5 is the weights: rows of even
  // and odd dims together, or, when they are too many, in turns. 6 and 7 are K or V. Products cost less with fewer
  // rows, and what is stored is only what is there.
  void configure_tiles(int64_t rows) {
    this->rows_ = rows;
    columns_ = 1;
    while (columns_ < this->rows_) columns_ *= 2;
    turns_ = 2 * this->rows_ <= most_rows ? 1 : 2;
    are_sums_in_tiles_ = turns_ == 1 && value_tiles_ <= 2;
    TileConfig config;
    for (int tile = 0; tile <= 2; ++tile) config.bytes_per_row[tile] = static_cast<uint16_t>(4 * columns_);
    for (int tile = 3; tile <= 5; ++tile) config.rows[tile] = static_cast<uint8_t>(2 * this->rows_ / turns_);
    load_tile_config(config);
  }

  // Of floats; shifted out, and then they compare as integers.
  static __m512i without_sign(__m512i bits) { return _mm512_slli_epi32(bits, 1); }
  // Whether all scores and outputs are. A sum that is not stays so, and nobody has to look at it before the end.
  [[nodiscard]] bool is_finite() const {
    __m512i largest = largest_;
    for (int64_t i = 0; i < this->rows_ * this->layout_.padded_value_dim; i += V::width) {
      largest = _mm512_max_epu32(largest, without_sign(_mm512_load_si512(sums(0) + i)));
    }
    return _mm512_cmpge_epu32_mask(largest, _mm512_set1_epi32(static_cast<int>(0xff000000U))) == 0;
  }

  // As end_row, for whole rows that nobody asks more of: even and odd dims beside each other are the row.
  void store_rows(const Item& item) const {
    alignas(64) float factors[most_rows];
    V::store(factors, V::mul(factors_of(item), V::set1(value_scale(item.head))));
    for (int64_t r = 0; r < this->rows_; ++r) {
      const F factor = V::set1(factors[r]);
      const bool is_empty = this->row_sum(r) == 0.0F;
      T* const to = o_row<T>(item.head, item.first_row + r);
      for (int64_t c = 0; c < value_tiles_; ++c) {
        const F even = is_empty ? V::zero() : V::mul(V::load(sums(r) + c * 16), factor);
        const F odd = is_empty ? V::zero() : V::mul(V::load(sums(this->rows_ + r) + c * 16), factor);
        V::store_interleaved(to + c * 32, even, odd);
      }
    }
  }
  // finish_row's, of all rows at once, without the scale of the values.
  F factors_of(const Item& item) const {
    const auto rows = static_cast<__mmask16>((1U << this->rows_) - 1);
    const F one = V::set1(1.0F), sum = _mm512_mask_loadu_ps(one, rows, &this->row_sum(0));
    const __mmask16 is_empty = _mm512_cmp_ps_mask(sum, V::zero(), _CMP_EQ_OQ);
    const F alone = _mm512_mask_div_ps(V::zero(), _knot_mask16(is_empty), one, sum);
    if (!plan::has(this->plan_.problem, FMS_SINKS)) return alone;
    alignas(64) float sinks[most_rows] = {};
    for (int64_t r = 0; r < this->rows_; ++r) sinks[r] = sink_of(item.head, item.first_row + r);
    const F sink = V::load(sinks), row_max = _mm512_maskz_loadu_ps(rows, &this->row_max(0));
    const __mmask16 sink_is_lower = _mm512_cmp_ps_mask(row_max, sink, _CMP_GE_OQ);
    const F top = _mm512_mask_mov_ps(sink, sink_is_lower, row_max);
    const F other = _mm512_mask_mov_ps(row_max, sink_is_lower, sink);
    const F of_top = V::add(V::sub(top, top), one), of_other = V::template exp2<6>(V::sub(other, top));
    const F own = _mm512_mask_mov_ps(_mm512_mask_mov_ps(of_other, sink_is_lower, of_top), is_empty, V::zero());
    const F beside = _mm512_mask_mov_ps(of_top, sink_is_lower, of_other);
    const F factor = V::div(own, V::fma(sum, own, beside));
    return _mm512_mask_mov_ps(factor, _mm512_cmp_ps_mask(sink, V::set1(-__builtin_inff()), _CMP_EQ_OQ), alone);
  }

  // To where end_row looks for it, and in the order in which it wants to find it.
  void gather_output(int64_t r) const {
    for (int64_t c = 0; c < value_tiles_; ++c) {
      F even = V::load(sums(r) + c * 16);
      F odd = V::load(sums(this->rows_ + r) + c * 16);
      if constexpr (!__is_same(T, Bf16)) V::template unpair<Bf16>(even, odd);
      V::store(this->output(r) + c * 32, even);
      V::store(this->output(r) + c * 32 + 16, odd);
    }
  }

  void pack_queries_of(const Item& item) const {
    const T* rows[most_rows];
    for (int64_t r = 0; r < most_rows; ++r)
      rows[r] = r < this->rows_ ? q_row<T>(item.head, item.first_row + r) : nullptr;
    pack_queries<T>(rows, this->key_dim_, dim_tiles_, this->scale_.q_factor < 0, query_tile(item, 0, 0),
                    dim_tiles_ * tile_bytes, tile_bytes);
  }

  // ---- K and V ----

  // Where a product finds 16 rows: tiles of 32 dims, `step` bytes apart, their rows `stride` bytes apart.
  struct RowGroup {
    const std::byte* tiles;
    int64_t stride, step, part;
  };

  // Of the rows of a block, those from 16 * group on; with `Clean`, 0 in place of what is not finite. Copied unless
  // they are tiles as they lie in memory.
  template <bool Clean>
  RowGroup row_group(const T* const* rows, int64_t count, int64_t row_stride, int64_t dim, int64_t group,
                     std::size_t copies) const {
    rows += group * 16;
    const int64_t there = smaller<int64_t>(16, count - group * 16);
    // Where at most one page ends, the last row tells whether they go on as they began.
    const fms_attention_problem& p = this->plan_.problem;
    const bool is_tile = parts == 1 && !Clean && there == 16 && dim % 32 == 0 &&
                         (!plan::has(p, FMS_PAGED_KV) || p.page_size >= 16) && rows[15] == rows[0] + 15 * row_stride;
    if (is_tile) {
      return {reinterpret_cast<const std::byte*>(rows[0]), row_stride * static_cast<int64_t>(sizeof(T)), 64, 0};
    }
    const int64_t tiles = (dim + 31) / 32;
    std::byte* const to = this->template at<std::byte>(copies, group * parts * tiles * tile_bytes);
    for (int64_t c = 0; c < tiles; ++c) {
      for (int64_t j = 0; j < 16; ++j) {
        Raw32<T> raw = j < there ? load_raw(rows[j] + c * 32, dim - c * 32) : Raw32<T>{};
        if constexpr (Clean) raw = tame_values<T>(raw);
        const Parts32<T> x = split_parts(static_cast<const T*>(nullptr), raw);
        for (int part = 0; part < parts; ++part) {
          _mm512_store_si512(to + (part * tiles + c) * tile_bytes + j * 64, x.part[part]);
        }
      }
    }
    return {to, 64, tile_bytes, tiles * tile_bytes};
  }

  template <int Tile>
  static void load_rows(const RowGroup& group, int64_t part, int64_t c) {
    tile_load<Tile>(group.tiles + part * group.part + c * group.step, group.stride);
  }

  // Rows of the next block are asked for a few at a time: all at once they would wait for each other, and the products
  // for them.
  class Prefetching {
   public:
    Prefetching(const T* const* rows, int64_t count, int64_t dim, int64_t step, int64_t shares)
        : rows_(rows),
          count_(count),
          lines_((dim - 1) / step + 1),
          step_(step),
          share_((block_keys - 1) / shares + 1) {}
    void go_on() {
      const int64_t end = smaller(asked_ + share_, count_), lines = lines_, step = step_;
      if (lines == 1) {
        for (const T* const* row = rows_ + asked_; row < rows_ + end; ++row) V::prefetch(*row);
      } else {
        for (int64_t row = asked_; row < end; ++row) {
          for (int64_t line = 0; line < lines; ++line) V::prefetch(rows_[row] + line * step);
        }
      }
      asked_ = end;
    }

   private:
    const T* const* rows_;
    int64_t count_, lines_, step_, share_, asked_ = 0;
  };

  // From one line to the next of those that are asked for. One of each row is enough where they are near: the hardware
  // goes on from there, and to ask for all costs 6 to 16 % of the time where they are in L2, 4 to 8 % of it at 8 MiB a
  // thread. From 16 MiB on all lines come 5 to 25 % sooner when each is asked for (and half of them make it slower).
  static int64_t prefetched_step(const fms_attention_plan& plan) {
    const fms_attention_problem& p = plan.problem;
    const double bytes = plan::visible_keys_per_row(p) * static_cast<double>(p.batch * p.kv_heads) *
                         static_cast<double>((p.head_dim + p.value_dim) * static_cast<int64_t>(sizeof(T)));
    constexpr double near_bytes = 12.0 * 1024 * 1024;
    return bytes > near_bytes * plan.threads ? 64 / static_cast<int64_t>(sizeof(T)) : 128;
  }

  // ---- scores ----

  void score(const Block& block, const BlockRows& next) const {
    const int64_t count = block.rows.count;
    const auto group_of = [&](int64_t g) {
      return row_group<false>(block.rows.keys, count, this->plan_.problem.k.seq, this->key_dim_, g,
                              this->layout_.key_tiles);
    };
    Prefetching ahead(next.keys, next.count, this->key_dim_, prefetched_step_, 2 * parts * parts * dim_tiles_);
    for (int64_t g = 0; g * 16 < count; g += 2) {
      const RowGroup first = group_of(g);
      // Nothing there: any other keys, whose scores nobody looks at.
      const RowGroup second = (g + 1) * 16 < count ? group_of(g + 1) : first;
      tile_zero<0>();
      tile_zero<1>();
      for (int q_part = 0; q_part < parts; ++q_part) {
        for (int k_part = 0; k_part < parts; ++k_part) {
          for (int64_t c = 0; c < dim_tiles_; ++c) {
            tile_load<2>(query_tile(*block.item, q_part, c), 64);
            load_rows<6>(first, k_part, c);
            tile_multiply<0, 6, 2>();
            load_rows<7>(second, k_part, c);
            tile_multiply<1, 7, 2>();
            ahead.go_on();
          }
        }
      }
      tile_store<0>(products(block, g), 4 * columns_);
      tile_store<1>(products(block, g + 1), 4 * columns_);
    }
  }

  // From [key][columns_] to rows. Each round puts the columns' lowest bit in front of all others.
  void store_scores(const Block& block) {
    switch (columns_) {
      case 1:
        return store_scores_of<1>(block);
      case 2:
        return store_scores_of<2>(block);
      case 4:
        return store_scores_of<4>(block);
      case 8:
        return store_scores_of<8>(block);
      default:
        return store_scores_of<16>(block);
    }
  }
  template <int Columns>
  void store_scores_of(const Block& block) {
    const __m512i even = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
    const __m512i odd = _mm512_add_epi32(even, _mm512_set1_epi32(1));
    __m512i largest = largest_;
    for (int64_t g = 0; g * 16 < block.rows.count; ++g) {
      __m512i x[Columns];
      for (int i = 0; i < Columns; ++i) x[i] = _mm512_load_si512(products(block, g) + i * 16);
      for (int bit = 1; bit < Columns; bit *= 2) {
        __m512i y[Columns];
        for (int i = 0; i < Columns / 2; ++i) {
          y[i] = _mm512_permutex2var_epi32(x[2 * i], even, x[2 * i + 1]);
          y[i + Columns / 2] = _mm512_permutex2var_epi32(x[2 * i], odd, x[2 * i + 1]);
        }
        for (int i = 0; i < Columns; ++i) x[i] = y[i];
      }
      for (int r = 0; r < Columns; ++r) {
        if (r >= this->rows_) break;
        largest = _mm512_max_epu32(largest, without_sign(x[r]));
        _mm512_store_si512(this->scores(r) + g * 16, x[r]);
      }
    }
    largest_ = largest;
  }

  void rescore(const Block& block) const {
    for (int64_t r = 0; r < this->rows_; ++r) {
      const T* const query = q_row<T>(block.item->head, block.item->first_row + r);
      for (int64_t j = 0; j < block.rows.count; ++j) {
        float& score = this->scores(r)[j];
        if (std::fabs(score) < __builtin_inff()) continue;
        score = fp32_dot(block.rows.keys[j], query, this->key_dim_) * this->scale_.q_factor;
      }
    }
  }

  // ---- weights ----

  void weigh_rows(const Block& block) {
    const Item& item = *block.item;
    this->look_at_mask(item.head, item.first_row, block.keys);
    if (modifies_scores(this->plan_.problem)) {
      for (int64_t r = 0; r < this->rows_; ++r) this->modify_row(item.head, item.first_row + r, r, block.keys);
    }
    for (int64_t r = 0; r < this->rows_; ++r) weigh_row(r, block.keys);
  }

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
    if (this->mask_hides_) this->hide_masked_keys(r, block_keys);
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
    for (int i = 0; i < vectors; ++i) store_weights(r, i, x[i]);
  }

  void raise_maximum(int64_t r, float top) const {
    float& row_max = this->row_max(r);
    if (!(top > row_max)) return;
    const float old_max = row_max;
    row_max = top;
    if (old_max == -__builtin_inff()) return;  // nothing has been added yet
    const F factor = V::set1(std::exp2(old_max - top));
    _mm512_store_ps(row_sums(r), V::mul(_mm512_load_ps(row_sums(r)), factor));
    if (are_sums_in_tiles_) store_sums(0, 0);
    for (int64_t row = r; row < 2 * this->rows_; row += this->rows_) {
      for (int64_t d = 0; d < this->layout_.padded_value_dim / 2; d += V::width) {
        V::store(sums(row) + d, V::mul(V::load(sums(row) + d), factor));
      }
    }
    if (are_sums_in_tiles_) load_sums(0, 0);
  }

  void store_weights(int64_t r, int64_t group, F x) const {
    for (int part = 0; part < parts; ++part) {
      const __m512i bits = _mm512_cvtepu16_epi32((__m256i)_mm512_cvtneps_pbh(x));
      const __m512i shifted = _mm512_slli_epi32(bits, 16);
      _mm512_store_si512(weights(part, group) + r * 64, bits);
      _mm512_store_si512(weights(part, group) + (this->rows_ + r) * 64, shifted);
      x = V::sub(x, _mm512_castsi512_ps(shifted));
    }
  }

  // ---- outputs ----

  // Sums of two tiles of dims, from tile c on. Where these are all, they stay in their tiles from block to block.
  void load_sums(int64_t turn, int64_t c) const {
    float* const from = sums(turn * this->rows_) + c * 16;
    tile_load<3>(from, sums_stride());
    if (c + 1 < value_tiles_) tile_load<4>(from + 16, sums_stride());
  }
  void store_sums(int64_t turn, int64_t c) const {
    float* const to = sums(turn * this->rows_) + c * 16;
    tile_store<3>(to, sums_stride());
    if (c + 1 < value_tiles_) tile_store<4>(to + 16, sums_stride());
  }

  // Two tiles of dims at a time: a product waits for the one before it into the same tile.
  template <bool Careful>
  void accumulate(const Block& block, const BlockRows& next) const {
    const int64_t count = (block.rows.count + 15) / 16;
    RowGroup groups[4];
    for (int64_t g = 0; g < count; ++g) {
      groups[g] = row_group<Careful>(block.rows.values, block.rows.count, this->plan_.problem.v.seq, this->value_dim_,
                                     g, this->layout_.v);
    }
    Prefetching ahead(next.values, next.count, this->value_dim_, prefetched_step_, 4 * ((value_tiles_ + 1) / 2));
    for (int64_t turn = 0; turn < turns_; ++turn) {
      for (int64_t c = 0; c < value_tiles_; c += 2) {
        const bool two = c + 1 < value_tiles_;
        if (!are_sums_in_tiles_) load_sums(turn, c);
        const auto multiply = [&](int64_t g, int64_t part) __attribute__((always_inline)) {
          tile_load<5>(weights(part, g) + turn * this->rows_ * 64, 64);
          tile_multiply<3, 5, 6>();
          if (two) tile_multiply<4, 5, 7>();
        };
        for (int64_t g = 0; g < count; ++g) {
          for (int64_t part = parts - 1; part >= 0; --part) {
            load_rows<6>(groups[g], part, c);
            if (two) load_rows<7>(groups[g], part, c + 1);
            if (parts == 2 && part == 0) multiply(g, 1);
            multiply(g, 0);
          }
          ahead.go_on();
        }
        if (!are_sums_in_tiles_) store_sums(turn, c);
      }
    }
    if constexpr (Careful) {
      const auto sum_of = [&](int64_t d, int64_t r) -> float& {
        return sums(d % 2 * this->rows_ + r)[d / 32 * 16 + d % 32 / 2];
      };
      const Item& item = *block.item;
      add_non_finite<V, T>(item.head, item.first_row, item.first_row + this->rows_, block.keys, &this->key_lo(0),
                           &this->key_hi(0), sum_of);
    }
  }

  int64_t dim_tiles_, value_tiles_;  // of 32 dims
  int64_t prefetched_step_;
  int64_t columns_ = 0, turns_ = 0;
  Item items_[2];  // blocks may be of two
  Block blocks_[3];
  Block *scored_ = &blocks_[0], *next_ = &blocks_[1], *spare_ = &blocks_[2];
  bool is_scored_ = false;  // ... and not yet weighed
  bool are_sums_in_tiles_ = false;
  __m512i largest_;  // of the item's scores
};

}  // namespace
}  // namespace flashmoe::cpu
