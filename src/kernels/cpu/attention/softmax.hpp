// Online softmax on a block of scores laid out (keys, lanes): lanes are query rows, so that maxima and sums are plain
// vertical vector operations. Scores and maxima are in log2 units once the scale is applied.
#pragma once

#include <cmath>
#include <cstdint>

#include "kernels/cpu/attention/geometry.hpp"

namespace flashmoe::cpu {
namespace {

inline constexpr float log2_e = 1.44269504088896340736F;
inline constexpr float ln_2 = 0.69314718055994530942F;

// How raw dot products become scores in log2 units. The scale's sign, or its being zero, goes into the packed queries,
// so that the maximum of the products is the maximum of the scores and -inf * 0 never happens.
struct ScoreScale {
  float q_factor;  // 1, -1 or 0
  float to_log2;   // > 0

  explicit ScoreScale(const fms_attention_problem& p) {
    q_factor = p.softmax_scale > 0 ? 1.0F : (p.softmax_scale < 0 ? -1.0F : 0.0F);
    const float magnitude = p.softmax_scale == 0 ? 1.0F : std::fabs(p.softmax_scale);
    to_log2 = magnitude * log2_e;
  }
};

// Polynomial degree of exp2 for weights that meet values of type T.
template <class T>
inline constexpr int weight_degree = 4;
template <>
inline constexpr int weight_degree<float> = 6;
template <>
inline constexpr int weight_degree<Bf16> = 3;

// Running maximum and sum of `Vectors` lane vectors.
template <class V, int Vectors>
struct RowState {
  typename V::F row_max[Vectors];
  typename V::F row_sum[Vectors];
};

// Raises the maxima to cover scores (n, lanes) * scale; where one rises, rescales the sums and the o accumulators.
// `offset[v]` is what to subtract in the exponent: the maximum, or 0 for rows that have no finite score yet, because
// -inf - (-inf) would be NaN. With `slack`, maxima of rows none of whose weights would exceed 2^slack stay as they are.
template <class V, int Vectors>
inline void raise_maxima(const float* scores, int64_t n, float scale, RowState<V, Vectors>& state,
                         typename V::F (&offset)[Vectors], float* o, int64_t dim, float slack = 0.0F) {
  using F = typename V::F;
  constexpr int64_t lanes = Vectors * V::width;
  F even[Vectors];
  F odd[Vectors];
  for (int v = 0; v < Vectors; ++v) even[v] = odd[v] = V::set1(-__builtin_inff());
  int64_t j = 0;
  for (; j + 2 <= n; j += 2) {
    for (int v = 0; v < Vectors; ++v) {
      even[v] = V::max(V::load(scores + j * lanes + v * V::width), even[v]);
      odd[v] = V::max(V::load(scores + (j + 1) * lanes + v * V::width), odd[v]);
    }
  }
  for (; j < n; ++j) {
    for (int v = 0; v < Vectors; ++v) even[v] = V::max(V::load(scores + j * lanes + v * V::width), even[v]);
  }
  F raised[Vectors];
  bool any = false;
  for (int v = 0; v < Vectors; ++v) {
    const F top = V::max(odd[v], even[v]);
    raised[v] = V::max(V::mul(top, V::set1(scale)), state.row_max[v]);
    if (slack > 0.0F) {
      const F exponent = V::fms(top, V::set1(scale), state.row_max[v]);  // of the largest weight
      raised[v] = V::where_less(V::set1(slack), exponent, raised[v], state.row_max[v]);
    }
    any |= V::any_greater(raised[v], state.row_max[v]);
    offset[v] = V::zero_if_minus_inf(raised[v]);
  }
  if (!any) return;
  F factor[Vectors];
  for (int v = 0; v < Vectors; ++v) {
    factor[v] = V::template exp2<6>(V::sub(state.row_max[v], offset[v]));
    state.row_sum[v] = V::mul(state.row_sum[v], factor[v]);
    state.row_max[v] = raised[v];
  }
  for (int64_t d = 0; d < dim; ++d) {
    for (int v = 0; v < Vectors; ++v) {
      float* at = o + d * lanes + v * V::width;
      V::store(at, V::mul(V::load(at), factor[v]));
    }
  }
}

// Scores of keys [first_key, first_key + n) become -inf in the lanes that do not see them.
template <class V, int Vectors>
inline void mask_scores(float* scores, int64_t first_key, int64_t n, const int32_t* key_lo, const int32_t* key_hi) {
  constexpr int64_t lanes = Vectors * V::width;
  for (int v = 0; v < Vectors; ++v) {
    const typename V::I lo = V::load_int(key_lo + v * V::width);
    const typename V::I hi = V::load_int(key_hi + v * V::width);
    for (int64_t j = 0; j < n; ++j) {
      float* at = scores + j * lanes + v * V::width;
      V::store(at, V::mask_outside(V::load(at), static_cast<int32_t>(first_key + j), lo, hi));
    }
  }
}

// To a few fp32 ulps over the whole range. Near 0 the quotient of exponentials would lose what the scores need most,
// so below 0.625 an odd polynomial (minimax in relative error, 1.3e-8) takes over.
template <class V>
inline typename V::F tanh_of(typename V::F x) {
  using F = typename V::F;
  constexpr float c[] = {-3.333332850e-01F, 1.333243396e-01F, -5.380655877e-02F, 2.081716699e-02F, -5.868772855e-03F};
  const F square = V::mul(x, x);
  F p = V::set1(c[4]);
  for (int i = 3; i >= 0; --i) p = V::fma(p, square, V::set1(c[i]));
  const F near_zero = V::fma(V::mul(p, square), x, x);

  const F magnitude = V::max(x, V::sub(V::zero(), x));
  const F t = V::template exp2<6>(V::mul(magnitude, V::set1(-2.0F * log2_e)));
  const F one = V::set1(1.0F);
  const F elsewhere = V::copysign(V::div(V::sub(one, t), V::add(one, t)), x);
  return V::where_less(magnitude, V::set1(0.625F), near_zero, elsewhere);
}

// Times log2(e) just below the largest float.
inline constexpr float largest_bias = 2.35e38F;

// A bias times log2(e), where a finite bias stays finite: the lowest float is a customary mask value, and a row that
// has nothing else is the mean of its values, not a row without weight.
template <class V>
inline typename V::F in_log2(typename V::F bias) {
  using F = typename V::F;
  constexpr float largest = 3.402823466e38F;
  F x = V::where_less(bias, V::set1(-largest_bias), V::set1(-largest_bias), bias);
  x = V::where_less(V::set1(largest_bias), bias, V::set1(largest_bias), x);
  x = V::where_less(bias, V::set1(-largest), bias, x);  // -inf stays
  x = V::where_less(V::set1(largest), bias, bias, x);   // so does +inf
  return V::mul(x, V::set1(log2_e));
}

// The product q * k as a score in log2 units, softcap applied.
template <class V>
inline typename V::F capped_score(const fms_attention_problem& p, typename V::F product, float to_log2) {
  const typename V::F s = V::mul(product, V::set1(to_log2));
  if (p.softcap <= 0) return s;
  const typename V::F cap = V::set1(p.softcap * log2_e);
  return V::mul(cap, tanh_of<V>(V::div(s, cap)));
}

// `width` bias values of one row as a vector, from a possibly strided row.
template <class V, class B>
inline typename V::F load_bias(const B* row, int64_t stride, int64_t n) {
  if (stride == 1) return n >= V::width ? V::load_as(row) : V::load_as(row, static_cast<int>(n));
  float values[V::width] = {};
  for (int64_t j = 0; j < smaller<int64_t>(n, V::width); ++j) {
    float one[V::width];
    V::store(one, V::load_as(row + j * stride, 1));
    values[j] = one[0];
  }
  return V::load(values);
}

// An additive term as a sequence reads it.
template <class B>
struct BiasRows {
  const B* base;
  fms_bias_strides strides;

  BiasRows(const Head& h, const void* values, const fms_bias_strides& s)
      : base(static_cast<const B*>(values) + h.batch / plan::bias_group(s) * s.batch), strides(s) {}
  [[nodiscard]] const B* at(const Head& h, int64_t row, int64_t key) const {
    return base + h.q_head_of(row) * strides.head + h.position_of(row) * strides.q + key * strides.kv;
  }
  // Rows [first, last), and null for the others of `count`. One division, where at() may take two a row.
  void find(const Head& h, int64_t first, int64_t last, int64_t key, int64_t count, const B** rows) const {
    int64_t head = first % h.group, position = first / h.group;
    for (int64_t i = 0; i < count; ++i) {
      rows[i] = first + i >= last
                    ? nullptr
                    : base + (h.kv_head * h.group + head) * strides.head + position * strides.q + key * strides.kv;
      if (++head < h.group) continue;
      head = 0;
      ++position;
    }
  }
};

// score + term, both in log2 units. Two terms of the lowest float are finite each and stay so together.
template <class V>
inline typename V::F added_term(typename V::F score, typename V::F term) {
  using F = typename V::F;
  const F lowest = V::set1(-largest_bias * log2_e), minus_largest = V::set1(-3.402823466e38F);
  const F sum = V::add(score, term);
  const F bounded = V::where_less(sum, lowest, lowest, sum);
  return V::where_less(score, minus_largest, sum, V::where_less(term, minus_largest, sum, bounded));
}

// Calls `add` with the rows of each term that the problem has.
template <class Add>
inline void for_each_bias(const Head& h, Add&& add) {
  const fms_attention_problem& p = *h.problem;
  if (plan::has(p, FMS_BIAS)) {
    visit_dtype(p.bias_dtype, [&](auto b) { add(BiasRows<decltype(b)>(h, h.args->bias, p.bias)); });
  }
  if (plan::has(p, FMS_BIAS2)) {
    visit_dtype(p.bias2_dtype, [&](auto b) { add(BiasRows<decltype(b)>(h, h.args->bias2, p.bias2)); });
  }
}

// Where nothing but a huge score could make a sum overflow.
template <class V>
inline bool are_ordinary(const float* scores, int64_t stride, int64_t n, float factor) {
  typename V::F lowest = V::zero();
  for (int64_t j = 0; j < n; ++j) lowest = V::min(V::load(scores + j * stride), lowest);
  return !V::any_greater(V::set1(-1e36F), V::mul(lowest, V::set1(factor)));
}

// Keys that add_ordinary takes at a time: pairs of bf16 are transposed as they are, by half as many shuffles.
template <class V, class B>
inline constexpr int64_t bias_keys = __is_same(B, Bf16) ? 2 * V::width : V::width;

// Adds the bias of a vector of lanes to their products times `factor`: `bias_keys` keys from key j on.
template <class V, class B>
inline void add_ordinary(const B* const* rows, int64_t j, float* scores, int64_t stride, float factor) {
  using F = typename V::F;
  constexpr int64_t ahead = 128 / sizeof(B);  // two lines: so many rows at a time are more than the hardware follows
  const auto add = [&](int64_t key, F term) {
    float* at = scores + key * stride;
    if constexpr (!__is_same(B, Half)) term = V::bounded_if_finite(term, largest_bias);
    V::store(at, V::fma(term, V::set1(log2_e), V::mul(V::load(at), V::set1(factor))));
  };
  F block[V::width];  // (row, keys), then transposed
  for (int lane = 0; lane < V::width; ++lane) {
    V::prefetch(rows[lane] + j + ahead);
    if constexpr (__is_same(B, Bf16)) {
      block[lane] = V::load_bits(rows[lane] + j);
    } else {
      block[lane] = V::load_as(rows[lane] + j);
    }
  }
  V::transpose(block);
  for (int k = 0; k < V::width; ++k) {
    if constexpr (__is_same(B, Bf16)) {
      F first;
      F second;
      V::split_bits(block[k], first, second);
      add(2 * k, first);
      add(2 * k + 1, second);
    } else {
      add(k, block[k]);
    }
  }
}

// The same for any n <= width keys and any rows (null: none), strides and scores.
template <class V, class B>
inline void add_any(const B* const* rows, int64_t key_stride, int64_t j, int64_t n, float* scores, int64_t stride,
                    float factor) {
  typename V::F block[V::width];
  for (int lane = 0; lane < V::width; ++lane) {
    block[lane] = rows[lane] == nullptr ? V::zero() : load_bias<V>(rows[lane] + j * key_stride, key_stride, n);
  }
  V::transpose(block);
  for (int64_t k = 0; k < n; ++k) {
    float* at = scores + k * stride;
    V::store(at, added_term<V>(V::mul(V::load(at), V::set1(factor)), in_log2<V>(block[k])));
  }
}

// Products of (n keys, lanes) times `factor`, plus the bias of rows [first_row, last_row).
template <class V, int Vectors, class B>
inline void add_bias(const Head& h, const BiasRows<B>& bias, int64_t first_row, int64_t last_row, float* scores,
                     int64_t first_key, int64_t n, float factor) {
  constexpr int64_t lanes = Vectors * V::width, step = bias_keys<V, B>;
  const B* rows[lanes];
  bias.find(h, first_row, last_row, first_key, lanes, rows);
  for (int64_t v = 0; v < Vectors; ++v) {
    const B* const* of_lanes = rows + v * V::width;
    float* const from = scores + v * V::width;
    const bool is_whole = bias.strides.kv == 1 && first_row + (v + 1) * V::width <= last_row;
    for (int64_t j = 0; j < n; j += step) {
      float* const at = from + j * lanes;
      if (is_whole && j + step <= n && are_ordinary<V>(at, lanes, step, factor)) {
        add_ordinary<V>(of_lanes, j, at, lanes, factor);
        continue;
      }
      for (int64_t k = j; k < smaller(j + step, n); k += V::width) {
        add_any<V>(of_lanes, bias.strides.kv, k, smaller<int64_t>(V::width, n - k), from + k * lanes, lanes, factor);
      }
    }
  }
}

// Softcap and bias turn products into scores in log2 units: the caller then goes on with a scale of 1.
template <class V, int Vectors>
inline void modify_scores(const Head& h, int64_t first_row, int64_t last_row, float* scores, int64_t first_key,
                          int64_t n, float to_log2) {
  constexpr int64_t lanes = Vectors * V::width;
  const fms_attention_problem& p = *h.problem;
  float factor = to_log2;  // of what is there, for whoever comes first
  if (p.softcap > 0) {
    for (int64_t i = 0; i < n * lanes; i += V::width) {
      V::store(scores + i, capped_score<V>(p, V::load(scores + i), to_log2));
    }
    factor = 1.0F;
  }
  for_each_bias(h, [&](const auto& bias) {
    add_bias<V, Vectors>(h, bias, first_row, last_row, scores, first_key, n, factor);
    factor = 1.0F;
  });
}

inline bool modifies_scores(const fms_attention_problem& p) {
  return p.softcap > 0 || (p.features & (FMS_BIAS | FMS_BIAS2)) != 0;
}

}  // namespace
}  // namespace flashmoe::cpu
