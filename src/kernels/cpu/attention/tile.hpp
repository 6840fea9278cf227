// Attention over tiles with vector FMAs: lanes are query rows throughout.
//
//   scores (keys, lanes) : K element broadcast x transposed Q        S[j][r] += K[j][d] * Q[d][r]
//   softmax              : vertical, see softmax.hpp
//   output (dim, lanes)  : V element broadcast x weights             O[d][r] += V[j][d] * P[j][r]
//
// K and V are read row by row exactly as the caller stores them, so dense fp32 needs no copy; other types and pages
// are widened to fp32 once per block and reused by all subtiles of the item.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "kernels/cpu/attention/finish.hpp"

namespace flashmoe::cpu {
namespace {

// A block of K or V rows in fp32.
struct FloatRows {
  const float* base;
  int64_t stride;
  [[nodiscard]] const float* operator[](int64_t row) const { return base + row * stride; }
};

template <class V, class T>
class TileKernel {
  using F = typename V::F;
  static constexpr int vectors = V::tile_vectors;
  static constexpr int64_t lanes = vectors * V::width;

 public:
  TileKernel(const fms_attention_plan& plan, const plan::CpuLayout& layout, std::byte* workspace, int64_t thread)
      : plan_(plan),
        layout_(layout),
        workspace_(workspace),
        mine_(workspace + static_cast<std::size_t>(thread) * layout.thread_bytes),
        scale_(plan.problem) {}

  void run_item(const Head& h, int64_t first_row, int64_t last_row, int64_t split) {
    const KeyRange keys = split_keys(visible_hull(h, first_row, last_row), split, plan_.kv_splits);
    const int64_t subtiles = (last_row - first_row + lanes - 1) / lanes;
    for (int64_t t = 0; t < subtiles; ++t) begin_subtile(h, first_row + t * lanes, last_row, t);
    for (int64_t step = keys.lo / plan_.kv_tile * plan_.kv_tile; step < keys.hi; step += plan_.kv_tile) {
      const KeyRange block{larger(step, keys.lo), smaller<int64_t>(step + plan_.kv_tile, keys.hi)};
      bool is_loaded = false;
      for (int64_t t = 0; t < subtiles; ++t) {
        const int64_t row = first_row + t * lanes, end = smaller(row + lanes, last_row);
        const KeyRange seen = visible_hull(h, row, end);
        const MaskedKeys masked = masked_keys<V>(h, row, end, {larger(block.lo, seen.lo), smaller(block.hi, seen.hi)});
        if (masked.seen.lo >= masked.seen.hi) continue;
        if (!is_loaded) load_block(h, block, first_row, last_row);
        is_loaded = true;
        run_subtile(h, row, end, t, block, masked);
      }
    }
    for (int64_t t = 0; t < subtiles; ++t) {
      const int64_t row = first_row + t * lanes;
      end_subtile(h, row, smaller(row + lanes, last_row), t, split);
    }
  }

 private:
  template <class E>
  E* at(std::size_t offset, int64_t index) const {
    return reinterpret_cast<E*>(mine_ + offset) + index;
  }
  float* queries(int64_t t) const { return at<float>(layout_.q, t * layout_.padded_dim * lanes); }
  float* outputs(int64_t t) const { return at<float>(layout_.o, t * layout_.padded_value_dim * lanes); }

  RowState<V, vectors> load_state(int64_t t) const {
    RowState<V, vectors> state;
    for (int v = 0; v < vectors; ++v) {
      state.row_max[v] = V::load(at<float>(layout_.row_max, t * lanes + v * V::width));
      state.row_sum[v] = V::load(at<float>(layout_.row_sum, t * lanes + v * V::width));
    }
    return state;
  }

  // Transposes the rows of Q into (dim, lanes) and resets the accumulators.
  void begin_subtile(const Head& h, int64_t first_row, int64_t last_row, int64_t t) {
    const int64_t dim = plan_.problem.head_dim;
    float* q = queries(t);
    for (int v = 0; v < vectors; ++v) {
      const T* rows[V::width];
      for (int r = 0; r < V::width; ++r) {
        const int64_t lane = v * V::width + r;
        const int64_t row = first_row + lane;
        const bool used = row < last_row;
        rows[r] = used ? q_row<T>(h, row) : nullptr;
        const KeyRange seen = used ? visible_keys(h, h.position_of(row)) : KeyRange{0, 0};
        *at<int32_t>(layout_.key_lo, t * lanes + lane) = static_cast<int32_t>(seen.lo);
        *at<int32_t>(layout_.key_hi, t * lanes + lane) = static_cast<int32_t>(seen.hi);
      }
      for (int64_t d = 0; d < dim; d += V::width) {
        const auto n = static_cast<int>(smaller<int64_t>(V::width, dim - d));
        F block[V::width];  // (row, dim), then transposed
        for (int r = 0; r < V::width; ++r) {
          block[r] =
              rows[r] == nullptr ? V::zero() : (n == V::width ? V::load_as(rows[r] + d) : V::load_as(rows[r] + d, n));
        }
        V::transpose(block);
        for (int i = 0; i < n; ++i)
          V::store(q + (d + i) * lanes + v * V::width, V::mul(block[i], V::set1(scale_.q_factor)));
      }
      V::store(at<float>(layout_.row_max, t * lanes + v * V::width), V::set1(-__builtin_inff()));
      V::store(at<float>(layout_.row_sum, t * lanes + v * V::width), V::zero());
    }
    std::memset(outputs(t), 0, static_cast<std::size_t>(plan_.problem.value_dim * lanes) * sizeof(float));
  }

  // Makes the block's K and V rows available as fp32, for all subtiles.
  void load_block(const Head& h, KeyRange block, int64_t first_row, int64_t last_row) {
    const KeyRange all_see = seen_by_all(h, first_row, last_row);
    const bool every_row_sees_all = !has_mask(h) && all_see.lo <= block.lo && block.hi <= all_see.hi;
    values_non_finite_ = false;
    const KvRows<T> keys = k_rows<T>(h);
    const KvRows<T> values = v_rows<T>(h);
    if constexpr (__is_same(T, float)) {
      if (h.pages == nullptr) {
        k_block_ = {keys[block.lo], keys.row_stride};
        v_block_ = {values[block.lo], values.row_stride};
        if (every_row_sees_all) return;
        copy_values(values, block, true);
        return;
      }
    }
    k_block_ = {at<float>(layout_.k, 0), layout_.padded_dim};
    copy_rows(keys, block, plan_.problem.head_dim, layout_.padded_dim, at<float>(layout_.k, 0), false);
    copy_values(values, block, !every_row_sees_all);
  }

  // With `clean`, non-finite values become 0 and are noted.
  void copy_values(const KvRows<T>& rows, KeyRange block, bool clean) {
    const int64_t dim = plan_.problem.value_dim;
    const int64_t stride = layout_.padded_value_dim;
    float* row = at<float>(layout_.v, 0);
    v_block_ = {row, stride};
    if (!copy_rows(rows, block, dim, stride, row, clean)) return;
    values_non_finite_ = true;
    for (int64_t j = block.lo; j < block.hi; ++j, row += stride) {
      for (int64_t d = 0; d < dim; ++d) {
        if (!(std::fabs(row[d]) < __builtin_inff())) row[d] = 0.0F;
      }
    }
  }

  // Widens rows to fp32; with `look`, whether any of them is not finite.
  static bool copy_rows(const KvRows<T>& rows, KeyRange block, int64_t dim, int64_t stride, float* to, bool look) {
    F zeros_or_nan = V::zero();
    for (int64_t j = block.lo; j < block.hi; ++j, to += stride) {
      const T* from = rows[j];
      for (int64_t d = 0; d < dim; d += V::width) {
        const F x = dim - d >= V::width ? V::load_as(from + d) : V::load_as(from + d, static_cast<int>(dim - d));
        V::store(to + d, x);
        // x * 0 is NaN exactly for non-finite x, and a sum keeps it.
        if (look) zeros_or_nan = V::add(zeros_or_nan, V::mul(x, V::zero()));
      }
    }
    return look && V::sum(zeros_or_nan) != 0.0F;
  }

  void run_subtile(const Head& h, int64_t first_row, int64_t last_row, int64_t t, KeyRange block,
                   const MaskedKeys& masked) {
    const KeyRange keys = masked.seen;
    const int64_t n = keys.hi - keys.lo;
    const int64_t skip = keys.lo - block.lo;
    const FloatRows k{k_block_[skip], k_block_.stride};
    const FloatRows v{v_block_[skip], v_block_.stride};
    float* scores = at<float>(layout_.scores, 0);
    compute_scores(queries(t), k, n, scores);
    float scale = scale_.to_log2;
    if (modifies_scores(plan_.problem)) {
      modify_scores<V, vectors>(h, first_row, last_row, scores, keys.lo, n, scale);
      scale = 1.0F;
    }
    const int32_t* key_lo = at<int32_t>(layout_.key_lo, t * lanes);
    const int32_t* key_hi = at<int32_t>(layout_.key_hi, t * lanes);
    const KeyRange all_see = seen_by_all(h, first_row, last_row);
    const bool all_see_all = all_see.lo <= keys.lo && keys.hi <= all_see.hi;
    if (!all_see_all) mask_scores<V, vectors>(scores, keys.lo, n, key_lo, key_hi);
    if (masked.hides) hide_masked<V, vectors>(h, first_row, last_row, scores, keys.lo, n);

    RowState<V, vectors> state = load_state(t);
    float* o = outputs(t);
    F offset[vectors];
    raise_maxima<V, vectors>(scores, n, scale, state, offset, o, plan_.problem.value_dim);
    F block_sum[vectors];
    for (int i = 0; i < vectors; ++i) block_sum[i] = V::zero();
    for (int64_t j = 0; j < n; ++j) {
      for (int i = 0; i < vectors; ++i) {
        float* score = scores + j * lanes + i * V::width;
        const F weight = V::template exp2<weight_degree<T>>(V::fms(V::load(score), V::set1(scale), offset[i]));
        block_sum[i] = V::add(block_sum[i], weight);
        V::store(score, weight);
      }
    }
    for (int i = 0; i < vectors; ++i) state.row_sum[i] = V::add(state.row_sum[i], block_sum[i]);
    accumulate(scores, v, n, o);
    if (values_non_finite_) {
      add_non_finite<V, T>(h, first_row, last_row, keys, key_lo, key_hi,
                           [&](int64_t d, int64_t lane) -> float& { return o[d * lanes + lane]; });
    }
    for (int i = 0; i < vectors; ++i) {
      V::store(at<float>(layout_.row_max, t * lanes + i * V::width), state.row_max[i]);
      V::store(at<float>(layout_.row_sum, t * lanes + i * V::width), state.row_sum[i]);
    }
  }

  // scores (n, lanes) = K (n, dim) x Q (dim, lanes)
  void compute_scores(const float* q, FloatRows k, int64_t n, float* scores) const {
    int64_t j = 0;
    for (; j + V::tile_keys <= n; j += V::tile_keys) score_rows<V::tile_keys>(q, k, j, scores);
    for (; j < n; ++j) score_rows<1>(q, k, j, scores);
  }

  // Sums of 32 dims are taken from 0 and then added, for the same reason as in `accumulate`.
  template <int Keys>
  void score_rows(const float* q, FloatRows k, int64_t j, float* scores) const {
    const int64_t dim = plan_.problem.head_dim;
    const float* row[Keys];
    for (int i = 0; i < Keys; ++i) row[i] = k[j + i];
    for (int64_t first = 0; first < dim; first += 32) {
      F sum[Keys][vectors];
      for (int i = 0; i < Keys; ++i) {
        for (int v = 0; v < vectors; ++v) sum[i][v] = V::zero();
      }
      for (int64_t d = first; d < smaller(first + 32, dim); ++d) {
        F query[vectors];
        for (int v = 0; v < vectors; ++v) query[v] = V::load(q + d * lanes + v * V::width);
        for (int i = 0; i < Keys; ++i) {
          const F key = V::set1(row[i][d]);
          for (int v = 0; v < vectors; ++v) sum[i][v] = V::fma(key, query[v], sum[i][v]);
        }
      }
      for (int i = 0; i < Keys; ++i) {
        for (int v = 0; v < vectors; ++v) {
          float* to = scores + (j + i) * lanes + v * V::width;
          V::store(to, first == 0 ? sum[i][v] : V::add(V::load(to), sum[i][v]));
        }
      }
    }
  }

  // o (dim, lanes) += V (n, dim)^T x weights (n, lanes). A block is summed from 0 before it joins the total: rounding
  // errors then grow with the block and the number of blocks, not with the number of keys.
  void accumulate(const float* weights, FloatRows v, int64_t n, float* o) const {
    int64_t d = 0;
    for (; d + V::tile_keys <= plan_.problem.value_dim; d += V::tile_keys)
      accumulate_dims<V::tile_keys>(weights, v, n, d, o);
    for (; d < plan_.problem.value_dim; ++d) accumulate_dims<1>(weights, v, n, d, o);
  }

  template <int Dims>
  void accumulate_dims(const float* weights, FloatRows values, int64_t n, int64_t d, float* o) const {
    F sum[Dims][vectors];
    for (int i = 0; i < Dims; ++i) {
      for (int v = 0; v < vectors; ++v) sum[i][v] = V::zero();
    }
    for (int64_t j = 0; j < n; ++j) {
      const float* row = values[j] + d;
      F weight[vectors];
      for (int v = 0; v < vectors; ++v) weight[v] = V::load(weights + j * lanes + v * V::width);
      for (int i = 0; i < Dims; ++i) {
        const F value = V::set1(row[i]);
        for (int v = 0; v < vectors; ++v) sum[i][v] = V::fma(value, weight[v], sum[i][v]);
      }
    }
    for (int i = 0; i < Dims; ++i) {
      for (int v = 0; v < vectors; ++v) {
        float* at_dim = o + (d + i) * lanes + v * V::width;
        V::store(at_dim, V::add(V::load(at_dim), sum[i][v]));
      }
    }
  }

  void end_subtile(const Head& h, int64_t first_row, int64_t last_row, int64_t t, int64_t split) {
    const RowState<V, vectors> state = load_state(t);
    if (plan_.kv_splits == 1) {
      store_lanes<V, vectors, T>(h, first_row, last_row, state, outputs(t));
    } else {
      store_partial_lanes<V, vectors>(plan_, layout_, workspace_, h, first_row, last_row, split, state, outputs(t));
    }
  }

  const fms_attention_plan& plan_;
  const plan::CpuLayout& layout_;
  std::byte* workspace_;
  std::byte* mine_;
  ScoreScale scale_;
  FloatRows k_block_{};
  FloatRows v_block_{};
  bool values_non_finite_ = false;
};

}  // namespace
}  // namespace flashmoe::cpu
