// Attention for few query rows per kv head (decode): lanes are head dimensions, every K and V row is read once and
// shared by the rows of the GQA group. One stream is prefetched while the other is consumed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "kernels/cpu/attention/finish.hpp"

namespace flashmoe::cpu {
namespace {

template <class V, class T>
class GemvKernel {
  using F = typename V::F;
  static constexpr int64_t pair = 2 * V::width;  // elements that load_pair takes
  static constexpr int max_pairs_in_registers = 2;
  static constexpr int most_rows = V::width >= 16 ? 8 : 4;  // that share what is widened; as many as registers allow

 protected:
  static constexpr int64_t block_keys = plan::gemv_kv_tile;
  static_assert(block_keys == 64, "keys of a block have a bit each");

 public:
  GemvKernel(const fms_attention_plan& plan, const plan::CpuLayout& layout, std::byte* workspace, int64_t thread)
      : plan_(plan),
        layout_(layout),
        workspace_(workspace),
        mine_(workspace + static_cast<std::size_t>(thread) * layout.thread_bytes),
        scale_(plan.problem),
        key_dim_(plan.problem.head_dim),
        value_dim_(plan.problem.value_dim),
        key_pairs_((key_dim_ + pair - 1) / pair),
        value_pairs_((value_dim_ + pair - 1) / pair) {}

  void run_item(const Head& h, int64_t first_row, int64_t last_row, int64_t split) {
    const KeyRange keys = split_keys(visible_hull(h, first_row, last_row), split, plan_.kv_splits);
    rows_ = last_row - first_row;
    for (int64_t r = 0; r < rows_; ++r) {
      begin_row(h, first_row + r, r);
      load_query(h, first_row + r, r);
    }
    first_block(h, keys);
    for (int64_t j = keys.lo; j < keys.hi; j += block_keys) {
      const KeyRange block{j, smaller<int64_t>(j + block_keys, keys.hi)};
      find_block(h, block, keys.hi);
      if (!look_at_mask(h, first_row, block)) continue;
      score_block(block);
      if (modifies_scores(plan_.problem)) {
        for (int64_t r = 0; r < rows_; ++r) modify_row(h, first_row + r, r, block);
      }
      for (int64_t r = 0; r < rows_; ++r) softmax_row(r, block);
      accumulate_block(block);
    }
    for (int64_t r = 0; r < rows_; ++r) end_row(h, first_row + r, r, split);
  }

 protected:
  template <class E>
  E* at(std::size_t offset, int64_t index) const {
    return reinterpret_cast<E*>(mine_ + offset) + index;
  }
  // The pairs of all rows one behind the other: the rows that share a key are then constants apart.
  float* query(int64_t r, int64_t c) const { return at<float>(layout_.q, (c * rows_ + r) * pair); }
  float* output(int64_t r) const { return at<float>(layout_.o, r * layout_.padded_value_dim); }
  float* scores(int64_t r) const { return at<float>(layout_.scores, r * block_keys); }
  float& row_max(int64_t r) const { return *at<float>(layout_.row_max, r); }
  float& row_sum(int64_t r) const { return *at<float>(layout_.row_sum, r); }
  int32_t& key_lo(int64_t r) const { return *at<int32_t>(layout_.key_lo, r); }
  int32_t& key_hi(int64_t r) const { return *at<int32_t>(layout_.key_hi, r); }

  // A row whose length is not a multiple of the pair is copied behind zeros, so that loads never pass its end.
  const T* padded(const T* row, int64_t dim) const {
    const int64_t rest = dim % pair;
    if (rest == 0) return row;
    T* copy = at<T>(layout_.k, 0);
    std::memcpy(copy, row, static_cast<std::size_t>(dim) * sizeof(T));
    std::memset(static_cast<void*>(copy + dim), 0, static_cast<std::size_t>(pair - rest) * sizeof(T));
    return copy;
  }

  void begin_row(const Head& h, int64_t row, int64_t r) const {
    const KeyRange seen = visible_keys(h, h.position_of(row));
    key_lo(r) = static_cast<int32_t>(seen.lo);
    key_hi(r) = static_cast<int32_t>(seen.hi);
    row_max(r) = -__builtin_inff();
    row_sum(r) = 0.0F;
  }

  void load_query(const Head& h, int64_t row, int64_t r) const {
    const T* from = padded(q_row<T>(h, row), key_dim_);
    for (int64_t i = 0; i < key_pairs_; ++i) {
      F a;
      F b;
      V::load_pair(from + i * pair, a, b);
      V::store(query(r, i), V::mul(a, V::set1(scale_.q_factor)));
      V::store(query(r, i) + V::width, V::mul(b, V::set1(scale_.q_factor)));
    }
    std::memset(output(r), 0, static_cast<std::size_t>(value_pairs_ * pair) * sizeof(float));
  }

  // Where the rows of a block are.
  struct BlockRows {
    const T* keys[block_keys];
    const T* values[block_keys];
    int64_t count;
  };
  void find_rows(const Head& h, KeyRange block, BlockRows& rows) const {
    rows.count = block.hi - block.lo;
    k_rows<T>(h).find(block, rows.keys);
    v_rows<T>(h).find(block, rows.values);
  }
  // Before the first block, and for each: its rows, and those of the keys after it.
  void first_block(const Head& h, KeyRange keys) {
    find_rows(h, {keys.lo, smaller<int64_t>(keys.lo + block_keys, keys.hi)}, *next_);
  }
  void find_block(const Head& h, KeyRange block, int64_t last_key) {
    BlockRows* const done = now_;
    now_ = next_;
    next_ = done;
    find_rows(h, {block.hi, smaller<int64_t>(block.hi + block_keys, last_key)}, *next_);
  }

  void score_block(KeyRange block) const {
    int64_t r = 0;
    for (; r + most_rows <= rows_; r += most_rows) score_rows<most_rows>(block, r);
    for (; r + 4 <= rows_; r += 4) score_rows<4>(block, r);
    for (; r + 2 <= rows_; r += 2) score_rows<2>(block, r);
    for (; r < rows_; ++r) score_rows<1>(block, r);
  }

  // Scores of `Rows` query rows from row r on. Keys go in groups that fill one vector with Rows x width / Rows sums; of
  // many rows two keys share what is loaded of the queries. (More at once, fewer rows or fp32 are no faster: memory
  // keeps up worse with many rows of keys than with one after the other.)
  template <int Rows>
  void score_rows(KeyRange block, int64_t r) const {
    constexpr int group = V::width / Rows;
    constexpr int at_once = Rows == most_rows && group > 1 && !std::is_same_v<T, float> ? 2 : 1;
    for (int64_t j = 0; j < block.hi - block.lo; j += group) {
      const auto n = static_cast<int>(smaller<int64_t>(group, block.hi - block.lo - j));
      F sum[V::width];  // [row * group + key]
      for (int i = 0; i < group; i += at_once) {
        const T* keys[at_once];
        for (int l = 0; l < at_once; ++l) {
          const bool is_there = i + l < n;
          keys[l] = now_->keys[is_there ? j + i + l : j];  // else any key, whose scores nobody looks at
          if (is_there && r == 0) prefetch_row(now_->values[j + i + l], value_dim_);
        }
        F part[Rows * at_once];
        score_keys<Rows, at_once>(keys, r, part);
        for (int k = 0; k < Rows; ++k) {
          for (int l = 0; l < at_once; ++l) sum[k * group + i + l] = part[k * at_once + l];
        }
      }
      float total[V::width];
      V::store(total, V::sums(sum));
      for (int k = 0; k < Rows; ++k) {
        if (n == group) {
          std::memcpy(scores(r + k) + j, total + k * group, group * sizeof(float));
        } else {
          for (int i = 0; i < n; ++i) scores(r + k)[j + i] = total[k * group + i];
        }
      }
    }
  }

  template <int Rows, int Keys>
  __attribute__((always_inline)) void score_keys(const T* const (&keys)[Keys], int64_t r, F (&sum)[Rows * Keys]) const {
    for (F& x : sum) x = V::zero();
    const auto add_pair = [&](const float* queries, const auto& pair_of) __attribute__((always_inline)) {
      F a[Keys];
      F b[Keys];
      for (int i = 0; i < Keys; ++i) V::load_pair(pair_of(i), a[i], b[i]);
      for (int k = 0; k < Rows; ++k) {
        const F first = V::load(queries + k * pair), second = V::load(queries + k * pair + V::width);
        for (int i = 0; i < Keys; ++i) {
          F& s = sum[k * Keys + i];
          s = V::fma(b[i], second, V::fma(a[i], first, s));
        }
      }
    };
    const int64_t whole_pairs = key_dim_ / pair, rest = key_dim_ % pair;
    for (int64_t c = 0; c < whole_pairs; ++c) {
      add_pair(query(r, c), [&](int i) { return keys[i] + c * pair; });
    }
    if (rest > 0) {
      T ends[Keys][pair] = {};
      for (int i = 0; i < Keys; ++i)
        std::memcpy(ends[i], keys[i] + whole_pairs * pair, static_cast<std::size_t>(rest) * sizeof(T));
      add_pair(query(r, whole_pairs), [&](int i) { return ends[i]; });
    }
  }

  void modify_row(const Head& h, int64_t row, int64_t r, KeyRange block) const {
    const fms_attention_problem& p = plan_.problem;
    const int64_t n = block.hi - block.lo;
    float* s = scores(r);
    for (int64_t j = 0; j < n; j += V::width) V::store(s + j, capped_score<V>(p, V::load(s + j), scale_.to_log2));
    for_each_bias(h, [&](const auto& bias) {
      for (int64_t j = 0; j < n; j += V::width) {
        const F term = load_bias<V>(bias.at(h, row, block.lo + j), bias.strides.kv, n - j);
        V::store(s + j, added_term<V>(V::load(s + j), in_log2<V>(term)));
      }
    });
  }

  // Which keys of a block the mask shows to each row; whether it shows any of them to any row.
  bool look_at_mask(const Head& h, int64_t first_row, KeyRange block) {
    mask_hides_ = false;
    if (!has_mask(h)) return true;
    const MaskRows mask(h);
    const int64_t n = block.hi - block.lo;
    const uint64_t whole = n > 0 ? ~uint64_t{0} >> (block_keys - n) : 0;
    uint64_t any = 0;
    mask.for_each_run(first_row, first_row + rows_, block.lo, [&](const uint8_t* bytes, int64_t row, int64_t end) {
      const uint64_t word = mask.template word<V>(bytes, n);
      any |= word;
      mask_hides_ |= word != whole;
      for (; row < end; ++row) shown_[row - first_row] = word;
    });
    return any != 0;
  }
  [[nodiscard]] bool is_masked(int64_t r, int64_t j) const { return mask_hides_ && (shown_[r] >> j & 1) == 0; }
  void hide_masked_keys(int64_t r, int64_t n) const {
    float* const s = scores(r);
    for (int64_t j = 0; j < n; j += V::width) {
      V::store(s + j, V::keep_bits(V::load(s + j), static_cast<uint32_t>(shown_[r] >> j)));
    }
  }

  // Scores become weights; keys the row does not see become 0 and are also left out of the accumulation's range.
  void softmax_row(int64_t r, KeyRange block) const {
    const float scale = modifies_scores(plan_.problem) ? 1.0F : scale_.to_log2;
    float* s = scores(r);
    const int64_t n = block.hi - block.lo;
    const int64_t seen_lo = larger<int64_t>(key_lo(r) - block.lo, 0);
    const int64_t seen_hi = smaller<int64_t>(key_hi(r) - block.lo, n);
    for (int64_t j = 0; j < seen_lo && j < n; ++j) s[j] = -__builtin_inff();
    for (int64_t j = larger<int64_t>(seen_hi, 0); j < (n + V::width - 1) / V::width * V::width; ++j)
      s[j] = -__builtin_inff();
    if (mask_hides_) hide_masked_keys(r, n);
    F top = V::set1(-__builtin_inff());
    for (int64_t j = 0; j < n; j += V::width) top = V::max(V::load(s + j), top);
    const float block_max = V::largest(top) * scale;
    const float raised = block_max > row_max(r) ? block_max : row_max(r);
    const float offset = raised == -__builtin_inff() ? 0.0F : raised;
    if (raised > row_max(r)) {
      if (row_max(r) > -__builtin_inff()) rescale_row(r, std::exp2(row_max(r) - raised));
      row_max(r) = raised;
    }
    F sum = V::zero();
    for (int64_t j = 0; j < n; j += V::width) {
      const F weight = V::template exp2<weight_degree<T>>(V::fms(V::load(s + j), V::set1(scale), V::set1(offset)));
      sum = V::add(sum, weight);
      V::store(s + j, weight);
    }
    row_sum(r) += V::sum(sum);
  }

  void rescale_row(int64_t r, float factor) const {
    row_sum(r) *= factor;
    for (int64_t d = 0; d < value_pairs_ * pair; d += V::width) {
      V::store(output(r) + d, V::mul(V::load(output(r) + d), V::set1(factor)));
    }
  }

  void accumulate_block(KeyRange block) const {
    int64_t r = 0;
    for (; r + most_rows <= rows_; r += most_rows) accumulate_rows<most_rows>(block, r);
    for (; r + 4 <= rows_; r += 4) accumulate_rows<4>(block, r);
    for (; r + 2 <= rows_; r += 2) accumulate_rows<2>(block, r);
    for (; r < rows_; ++r) accumulate_rows<1>(block, r);
  }

  template <int Rows>
  void accumulate_rows(KeyRange block, int64_t r) const {
    // Rows x pairs accumulators must fit the registers: one row takes up to 4 pairs at a time, four rows 2, eight 1.
    constexpr int64_t step = Rows == 1 ? 4 : (Rows == 8 ? 1 : max_pairs_in_registers);
    int64_t c = 0;
    for (; c + step <= value_pairs_; c += step) accumulate_pairs<Rows, step>(block, r, c);
    for (; c < value_pairs_; ++c) accumulate_pairs<Rows, 1>(block, r, c);
  }

  template <int Rows, int64_t Pairs>
  void accumulate_pairs(KeyRange block, int64_t r, int64_t c) const {
    F low[Rows][Pairs];
    F high[Rows][Pairs];
    for (int k = 0; k < Rows; ++k) {
      for (int64_t i = 0; i < Pairs; ++i) {
        low[k][i] = V::zero();  // a block is summed from 0, see TileKernel::accumulate
        high[k][i] = V::zero();
      }
    }
    // Only keys that some of these rows see: a value hidden from all of them may be NaN.
    int64_t lo = block.hi;
    int64_t hi = block.lo;
    bool same = !mask_hides_;
    for (int k = 0; k < Rows; ++k) {
      lo = smaller<int64_t>(lo, key_lo(r + k));
      hi = larger<int64_t>(hi, key_hi(r + k));
      same &= key_lo(r + k) == key_lo(r) && key_hi(r + k) == key_hi(r);
    }
    lo = larger(lo, block.lo);
    hi = smaller(hi, block.hi);
    // A loop without the question whether a row sees a key: with it, sums would go through memory.
    const auto add_keys = [&](auto all_see_all) __attribute__((always_inline)) {
      const float* const weights = scores(r);
      for (int64_t j = lo; j < hi; ++j) {
        if (r == 0 && c == 0 && j - block.lo < next_->count) prefetch_row(next_->keys[j - block.lo], key_dim_);
        const T* row = padded(now_->values[j - block.lo], value_dim_) + c * pair;
        F a[Pairs];
        F b[Pairs];
        for (int64_t i = 0; i < Pairs; ++i) V::load_pair(row + i * pair, a[i], b[i]);
        for (int k = 0; k < Rows; ++k) {
          if constexpr (!decltype(all_see_all)::value) {
            if (j < key_lo(r + k) || j >= key_hi(r + k)) continue;
            if (is_masked(r + k, j - block.lo)) continue;
          }
          const F weight = V::set1(weights[k * block_keys + j - block.lo]);
          for (int64_t i = 0; i < Pairs; ++i) {
            low[k][i] = V::fma(weight, a[i], low[k][i]);
            high[k][i] = V::fma(weight, b[i], high[k][i]);
          }
        }
      }
    };
    if (same) {
      add_keys(std::true_type{});
    } else {
      add_keys(std::false_type{});
    }
    for (int k = 0; k < Rows; ++k) {
      for (int64_t i = 0; i < Pairs; ++i) {
        float* o = output(r + k) + (c + i) * pair;
        V::store(o, V::add(V::load(o), low[k][i]));
        V::store(o + V::width, V::add(V::load(o + V::width), high[k][i]));
      }
    }
  }

  static void prefetch_row(const T* row, int64_t dim) {
    for (int64_t byte = 0; byte < dim * static_cast<int64_t>(sizeof(T)); byte += 64) {
      V::prefetch(reinterpret_cast<const char*>(row) + byte);
    }
  }

  void end_row(const Head& h, int64_t row, int64_t r, int64_t split) const {
    float* o = output(r);
    for (int64_t d = 0; d < value_pairs_ * pair; d += pair) {
      F a = V::load(o + d);
      F b = V::load(o + d + V::width);
      V::template unpair<T>(a, b);
      V::store(o + d, a);
      V::store(o + d + V::width, b);
    }
    if (plan_.kv_splits > 1) {
      float* to = partial_at(plan_, layout_, workspace_, h, row, split);
      std::memcpy(to, o, static_cast<std::size_t>(value_dim_) * sizeof(float));
      to[layout_.padded_value_dim] = row_max(r);
      to[layout_.padded_value_dim + 1] = row_sum(r);
      return;
    }
    const RowResult result = finish_row(h, row, row_max(r), row_sum(r));
    if (plan::has(plan_.problem, FMS_LSE)) *lse_at(h, row) = result.lse;
    if (row_sum(r) == 0.0F) clear_row(o, value_dim_, 1);
    visit_output<T>(plan_.problem,
                    [&](auto as) { store_row<V>(o_row<decltype(as)>(h, row), o, value_dim_, result.factor); });
  }

  const fms_attention_plan& plan_;
  const plan::CpuLayout& layout_;
  std::byte* workspace_;
  std::byte* mine_;
  ScoreScale scale_;
  int64_t key_dim_, value_dim_;
  int64_t key_pairs_, value_pairs_;
  int64_t rows_ = 0;
  bool mask_hides_ = false;             // a key of the block from a row
  uint64_t shown_[plan::amx_few_rows];  // a bit for each key of the block, where there is a mask
  BlockRows blocks_[2];
  BlockRows* now_ = &blocks_[0];
  BlockRows* next_ = &blocks_[1];
};

}  // namespace
}  // namespace flashmoe::cpu
