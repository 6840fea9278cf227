// From accumulators to results: the sink joins the denominator, the output is normalised, the log-sum-exp written;
// with key splits the accumulators go to the workspace first and are combined in a fixed order.
#pragma once

#include <cmath>
#include <cstdint>

#include "kernels/cpu/attention/mask.hpp"
#include "kernels/cpu/attention/work.hpp"

namespace flashmoe::cpu {
namespace {

struct RowResult {
  float factor;  // multiplies the accumulated o
  float lse;     // natural logarithm; 0 when nobody asks for it: logarithms of many short rows show
};

// In log2 units, -inf where there is none.
inline float sink_of(const Head& h, int64_t row) {
  if (!plan::has(*h.problem, FMS_SINKS)) return -__builtin_inff();
  const float sink = h.args->sinks[h.q_head_of(row)];
  // As for a bias, see in_log2.
  return (sink < -largest_bias && sink > -__builtin_inff() ? -largest_bias : sink) * log2_e;
}

// What a head's values are scaled by.
inline float value_scale(const Head& h) {
  return plan::has(*h.problem, FMS_KV_SCALES) ? h.args->v_scales[h.kv_head] : 1.0F;
}

inline RowResult finish_row(const Head& h, int64_t row, float row_max, float row_sum) {
  const auto lse_of = [&](float top, float total) {
    return plan::has(*h.problem, FMS_LSE) ? (top + std::log2(total)) * ln_2 : 0.0F;
  };
  const float sink = sink_of(h, row);
  if (row_sum == 0.0F && sink == -__builtin_inff()) return {0.0F, -__builtin_inff()};
  if (sink == -__builtin_inff()) return {value_scale(h) / row_sum, lse_of(row_max, row_sum)};
  // NaN sinks must survive, so the comparison is false for them; and 2^(x - x) is 1, or NaN where x is not finite.
  const bool sink_is_lower = row_max >= sink;
  const float top = sink_is_lower ? row_max : sink;
  const float of_top = top - top + 1.0F, of_other = std::exp2(sink_is_lower ? sink - top : row_max - top);
  const float own = row_sum == 0.0F ? 0.0F : (sink_is_lower ? of_top : of_other);
  const float total = row_sum * own + (sink_is_lower ? of_other : of_top);
  return {own / total * value_scale(h), lse_of(top, total)};
}

// A row without weight is 0, also where a weight of 0 met an infinite value.
inline void clear_row(float* o, int64_t dim, int64_t stride) {
  for (int64_t d = 0; d < dim; ++d) o[d * stride] = 0.0F;
}

// Calls visit(O{}) with the type of o where q, k and v are T.
template <class T, class Visitor>
inline __attribute__((always_inline)) void visit_output(const fms_attention_problem& p, Visitor&& visit) {
  if (plan::has(p, FMS_PARTIAL)) return visit(float{});
  visit(T{});
}

// Stores a finished row times `factor`.
template <class V, class O>
inline void store_row(O* to, const float* from, int64_t dim, float factor) {
  for (int64_t d = 0; d < dim; d += V::width) {
    const typename V::F value = V::mul(V::load(from + d), V::set1(factor));
    if (dim - d >= V::width) {
      V::store_as(to + d, value);
    } else {
      V::store_as(to + d, value, static_cast<int>(dim - d));
    }
  }
}

// Stores rows [first_row, first_row + rows) from o (dim, lanes), each times its factor.
template <class V, int Vectors, class O>
inline void store_transposed(const Head& h, int64_t first_row, int64_t rows, const float* factor, const float* o) {
  using F = typename V::F;
  constexpr int64_t lanes = Vectors * V::width;
  const int64_t dim = h.problem->value_dim;
  for (int v = 0; v < Vectors && v * V::width < rows; ++v) {
    O* row_at[V::width];
    const auto used = static_cast<int>(smaller<int64_t>(V::width, rows - v * V::width));
    for (int r = 0; r < used; ++r) row_at[r] = o_row<O>(h, first_row + v * V::width + r);
    const F scale = V::load(factor + v * V::width);
    for (int64_t d = 0; d < dim; d += V::width) {
      const auto n = static_cast<int>(smaller<int64_t>(V::width, dim - d));
      F block[V::width];  // (dim, row), then transposed
      for (int i = 0; i < V::width; ++i) {
        block[i] = i < n ? V::mul(V::load(o + (d + i) * lanes + v * V::width), scale) : V::zero();
      }
      V::transpose(block);
      if (n == V::width) {
        for (int r = 0; r < used; ++r) V::store_as(row_at[r] + d, block[r]);
      } else {
        for (int r = 0; r < used; ++r) V::store_as(row_at[r] + d, block[r], n);
      }
    }
  }
}

// Normalises and stores rows [first_row, last_row) from o (dim, lanes); writes LSE if asked.
template <class V, int Vectors, class T>
inline void store_lanes(const Head& h, int64_t first_row, int64_t last_row, const RowState<V, Vectors>& state,
                        float* o) {
  constexpr int64_t lanes = Vectors * V::width;
  const fms_attention_problem& p = *h.problem;
  const int64_t dim = p.value_dim;
  const int64_t rows = last_row - first_row;
  float factor[lanes];
  float row_sum[lanes];
  for (int v = 0; v < Vectors; ++v) {
    V::store(row_sum + v * V::width, state.row_sum[v]);
    V::store(factor + v * V::width, V::div(V::set1(value_scale(h)), state.row_sum[v]));
  }
  if ((p.features & (FMS_LSE | FMS_SINKS)) != 0) {
    float row_max[lanes];
    for (int v = 0; v < Vectors; ++v) V::store(row_max + v * V::width, state.row_max[v]);
    for (int64_t r = 0; r < rows; ++r) {
      const RowResult result = finish_row(h, first_row + r, row_max[r], row_sum[r]);
      factor[r] = result.factor;
      if (plan::has(p, FMS_LSE)) *lse_at(h, first_row + r) = result.lse;
    }
  }
  for (int64_t r = 0; r < rows; ++r) {
    if (row_sum[r] != 0.0F) continue;
    clear_row(o + r, dim, lanes);
    factor[r] = 0.0F;
  }
  visit_output<T>(p, [&](auto as) { store_transposed<V, Vectors, decltype(as)>(h, first_row, rows, factor, o); });
}

// The partial result of one row and split: o[padded_value_dim], then maximum and sum.
inline float* partial_at(const fms_attention_plan& plan, const plan::CpuLayout& layout, std::byte* workspace,
                         const Head& h, int64_t row, int64_t split) {
  const fms_attention_problem& p = plan.problem;
  const int64_t head_rows = p.q_len * h.group;
  const int64_t index = ((h.batch * p.kv_heads + h.kv_head) * head_rows + row) * plan.kv_splits + split;
  return reinterpret_cast<float*>(workspace + layout.partials) + index * layout.partial_floats;
}

template <class V, int Vectors>
inline void store_partial_lanes(const fms_attention_plan& plan, const plan::CpuLayout& layout, std::byte* workspace,
                                const Head& h, int64_t first_row, int64_t last_row, int64_t split,
                                const RowState<V, Vectors>& state, const float* o) {
  constexpr int64_t lanes = Vectors * V::width;
  float row_max[lanes];
  float row_sum[lanes];
  for (int v = 0; v < Vectors; ++v) {
    V::store(row_max + v * V::width, state.row_max[v]);
    V::store(row_sum + v * V::width, state.row_sum[v]);
  }
  for (int64_t r = 0; r < last_row - first_row; ++r) {
    float* to = partial_at(plan, layout, workspace, h, first_row + r, split);
    for (int64_t d = 0; d < plan.problem.value_dim; ++d) to[d] = o[d * lanes + r];
    to[layout.padded_value_dim] = row_max[r];
    to[layout.padded_value_dim + 1] = row_sum[r];
  }
}

// Combines the partials of one row into the first of them and stores the result. Splits are added in their order, so
// the result does not depend on which thread computed what.
template <class V, class T>
inline void combine_row(const fms_attention_plan& plan, const plan::CpuLayout& layout, std::byte* workspace,
                        const Head& h, int64_t row) {
  using F = typename V::F;
  const int64_t dim = plan.problem.value_dim;
  const int64_t padded_dim = layout.padded_value_dim;
  float* first = partial_at(plan, layout, workspace, h, row, 0);
  const auto part = [&](int64_t split) { return first + split * layout.partial_floats; };
  float top = -__builtin_inff();
  for (int64_t s = 0; s < plan.kv_splits; ++s) top = part(s)[padded_dim] > top ? part(s)[padded_dim] : top;
  float sum = 0.0F;
  for (int64_t s = 0; s < plan.kv_splits; ++s) {
    float* from = part(s);
    // A part without weight adds nothing (and must not meet -inf - -inf).
    const float factor = from[padded_dim + 1] == 0.0F ? 0.0F : std::exp2(from[padded_dim] - top);
    sum += from[padded_dim + 1] * factor;
    for (int64_t d = 0; d < padded_dim; d += V::width) {
      const F scaled = V::mul(V::load(from + d), V::set1(factor));
      V::store(first + d, s == 0 ? scaled : V::add(V::load(first + d), scaled));
    }
  }
  const RowResult result = finish_row(h, row, top, sum);
  if (plan::has(plan.problem, FMS_LSE)) *lse_at(h, row) = result.lse;
  if (sum == 0.0F) clear_row(first, dim, 1);
  visit_output<T>(plan.problem, [&](auto as) { store_row<V>(o_row<decltype(as)>(h, row), first, dim, result.factor); });
}

// After a barrier: rows are dealt out evenly over the team.
template <class V, class T>
inline void combine_splits(const fms_attention_plan& plan, const fms_attention_args& args,
                           const plan::CpuLayout& layout, std::byte* workspace, Share share) {
  const fms_attention_problem& p = plan.problem;
  int64_t index = 0;
  for (int64_t b = 0; b < p.batch; ++b) {
    for (int64_t g = 0; g < p.kv_heads; ++g) {
      const Head head = make_head(p, args, b, g);
      for (int64_t row = 0; row < head.rows(); ++row, ++index) {
        if (index % share.threads == share.thread) combine_row<V, T>(plan, layout, workspace, head, row);
      }
    }
  }
}

// A non-finite V of a key that some row of a tile does not see must not reach that row as 0 * inf = NaN. The tile
// kernels therefore multiply with a copy in which such values are 0, and this adds them to the rows that do see them:
// o(d, lane) is where the result of row first_row + lane is.
template <class V, class T, class Output>
inline void add_non_finite(const Head& h, int64_t first_row, int64_t last_row, KeyRange keys, const int32_t* key_lo,
                           const int32_t* key_hi, Output&& o) {
  const KvRows<T> values = v_rows<T>(h);
  const int64_t dim = h.problem->value_dim;
  for (int64_t j = keys.lo; j < keys.hi; ++j) {
    for (int64_t d = 0; d < dim; ++d) {
      float value[V::width];
      V::store(value, V::load_as(values[j] + d, 1));
      if (std::fabs(value[0]) < __builtin_inff()) continue;
      for (int64_t lane = 0; lane < last_row - first_row; ++lane) {
        if (key_lo[lane] <= j && j < key_hi[lane] && mask_shows(h, first_row + lane, j)) o(d, lane) += value[0];
      }
    }
  }
}

}  // namespace
}  // namespace flashmoe::cpu
