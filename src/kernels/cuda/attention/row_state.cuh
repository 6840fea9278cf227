// What a warp knows of its rows after the keys it has met: the weighted sum of values, the largest score and the sum of
// weights. Two states over different keys merge into the state over both.
#pragma once

#include "kernels/cuda/atoms/mma.cuh"
#include "kernels/cuda/atoms/row_math.cuh"
#include "kernels/cuda/attention/shape.cuh"

namespace flashmoe::cuda {

template <class Shape>
struct RowState {
  static constexpr int row_halves = Shape::row_halves;

  typename Shape::RowFragments o[Shape::dim_tiles];  // (warp_rows, value dim), not yet divided by the sum
  float top[row_halves];                             // largest score, before the scale; raises_late: or a little less
  float sum[row_halves];                             // of weights; each lane its own share until add_up()

  // `lowest` is below every score, yet its product with the scale is finite: a row that sees nothing needs no case of
  // its own.
  FMS_DEVICE void clear(float lowest) {
#pragma unroll
    for (int h = 0; h < row_halves; ++h) {
      top[h] = lowest;
      sum[h] = 0.0f;
#pragma unroll
      for (int d = 0; d < Shape::dim_tiles; ++d) o[d].at(h, 0) = o[d].at(h, 1) = 0.0f;
    }
  }

  // The largest score of each row, those met before included. raises_late: the old top where that is not much less.
  // Each row for itself, so that none depends on its neighbours.
  struct Tops {
    float of[row_halves];
  };
  FMS_DEVICE Tops tops_with(const typename Shape::Scores& scores, float scale_log2) const {
    Tops tops;
#pragma unroll
    for (int h = 0; h < row_halves; ++h) {
      tops.of[h] = top[h];
#pragma unroll
      for (int n = 0; n < Shape::key_tiles; ++n)
        tops.of[h] = fmaxf(tops.of[h], fmaxf(scores.s[n].at(h, 0), scores.s[n].at(h, 1)));
      tops.of[h] = quad_max(tops.of[h]);
      if constexpr (Shape::raises_late)
        if ((tops.of[h] - top[h]) * scale_log2 <= most_log2_weight) tops.of[h] = top[h];
    }
    return tops;
  }

  // Scores become weights; what was there fades as the top grows.
  FMS_DEVICE void weigh_scores(typename Shape::Scores& scores, const Tops& tops, float scale_log2) {
    if constexpr (Shape::raises_late) fade_if_raised(tops, scale_log2);
#pragma unroll
    for (int h = 0; h < row_halves; ++h) {
      const float offset = tops.of[h] * scale_log2;
      if constexpr (!Shape::raises_late) scale_row(h, exp2_fast(top[h] * scale_log2 - offset));
      top[h] = tops.of[h];
      float block_sum = 0.0f;
#pragma unroll
      for (int n = 0; n < Shape::key_tiles; ++n)
#pragma unroll
        for (int j = 0; j < 2; ++j) {
          float& s = scores.s[n].at(h, j);
          s = exp2_fast(Shape::is_modified ? s - offset
                                           : __fmaf_rn(s, scale_log2, -offset));  // modified: the scale is 1
          block_sum += s;
        }
      sum[h] += block_sum;
    }
  }

  FMS_DEVICE void add_up() {
#pragma unroll
    for (int h = 0; h < row_halves; ++h) sum[h] = quad_sum(sum[h]);
  }

  struct RowsThere {
    bool are[row_halves];
  };
  // `to` and `from` hold Shape::state_floats: o, then (top, sum), the same for each lane of a quad. Only rows that
  // are there are stored, merged.
  FMS_DEVICE void store(float* to, int lane, const RowsThere& rows) const {
    auto* const pairs = reinterpret_cast<float2*>(to);
#pragma unroll
    for (int h = 0; h < row_halves; ++h) {
      if (!rows.are[h]) continue;
#pragma unroll
      for (int d = 0; d < Shape::dim_tiles; ++d)
        pairs[(row_halves * d + h) * warp_lanes + lane] = {o[d].at(h, 0), o[d].at(h, 1)};
      pairs[(row_halves * Shape::dim_tiles + h) * warp_lanes + lane] = {top[h], sum[h]};
    }
  }
  FMS_DEVICE void merge(const float* from, int lane, const RowsThere& rows, float scale_log2) {
    const auto* const pairs = reinterpret_cast<const float2*>(from);
#pragma unroll
    for (int h = 0; h < row_halves; ++h) {
      if (!rows.are[h]) continue;
      const float2 other = pairs[(row_halves * Shape::dim_tiles + h) * warp_lanes + lane];
      const float both_top = fmaxf(top[h], other.x);
      const float fade = exp2_fast(other.x * scale_log2 - both_top * scale_log2);
      scale_row(h, exp2_fast(top[h] * scale_log2 - both_top * scale_log2));
      top[h] = both_top;
      sum[h] += other.y * fade;
#pragma unroll
      for (int d = 0; d < Shape::dim_tiles; ++d) {
        const float2 pair = pairs[(row_halves * d + h) * warp_lanes + lane];
        o[d].at(h, 0) += pair.x * fade;
        o[d].at(h, 1) += pair.y * fade;
      }
    }
  }

 private:
  // Of weights above a top that stayed. They are as exact in fp16 and bf16 as those below 1, far from the largest fp16,
  // and their sums from the largest fp32.
  static constexpr float most_log2_weight = 8.0f;

  // A warp in which no top has grown leaves all of O alone.
  FMS_DEVICE void fade_if_raised(const Tops& tops, float scale_log2) {
    bool is_any = false;
#pragma unroll
    for (int h = 0; h < row_halves; ++h) is_any |= tops.of[h] != top[h];
    if (!__any_sync(all_lanes, is_any)) return;
#pragma unroll
    for (int h = 0; h < row_halves; ++h) scale_row(h, exp2_fast(top[h] * scale_log2 - tops.of[h] * scale_log2));
  }

  FMS_DEVICE void scale_row(int h, float factor) {
    sum[h] *= factor;
#pragma unroll
    for (int d = 0; d < Shape::dim_tiles; ++d) {
      o[d].at(h, 0) *= factor;
      o[d].at(h, 1) *= factor;
    }
  }
};

}  // namespace flashmoe::cuda
