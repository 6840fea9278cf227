// What a warp knows of its rows after the keys it has met: the weighted sum of values, the largest score and the sum of
// weights. Two states over different keys merge into the state over both.
#pragma once

#include "kernels/cuda/atoms/fade.cuh"
#include "kernels/cuda/atoms/mma.cuh"
#include "kernels/cuda/atoms/row_math.cuh"
#include "kernels/cuda/attention/shape.cuh"

namespace flashmoe::cuda {

template <class Shape>
struct RowState {
  static constexpr int row_halves = Shape::row_halves;

  typename Shape::RowFragments o[Shape::dim_tiles];  // (warp_rows, value dim), not yet divided by the sum
  float top[row_halves];  // largest score, before the scale; or a little less if O fades late
  float sum[row_halves];  // of weights; each lane its own share until add_up()

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

  // The largest score of each row, those met before included, or, if O fades late, the old top where that is not much
  // less: each row for itself, so that none depends on its neighbours.
  struct Tops {
    float of[row_halves];
    uint32 grown;  // the lanes of which one has grown; none: nothing fades
  };
  FMS_DEVICE Tops tops_with(const typename Shape::Scores& scores, float most_growth) const {
    Tops tops;
#pragma unroll
    for (int h = 0; h < row_halves; ++h) tops.of[h] = top_with(scores, h);
    if constexpr (Shape::fades != Fades::always) {
      bool is_any = false;
#pragma unroll
      for (int h = 0; h < row_halves; ++h) {
        const bool has_grown = tops.of[h] - top[h] > most_growth;
        tops.of[h] = has_grown ? tops.of[h] : top[h];
        is_any |= has_grown;
      }
      tops.grown = __ballot_sync(all_lanes, is_any);
    }
    return tops;
  }
  // Of the first block: nothing has been met that would fade.
  FMS_DEVICE Tops first_tops(const typename Shape::Scores& scores) {
    Tops tops;
#pragma unroll
    for (int h = 0; h < row_halves; ++h) tops.of[h] = top[h] = top_with(scores, h);
    tops.grown = 0;
    return tops;
  }

  // Scores become weights; what was there fades if a top has grown.
  FMS_DEVICE void weigh_scores(typename Shape::Scores& scores, const Tops& tops, float scale_log2) {
    float block_sum[row_halves];
    if constexpr (Shape::fades == Fades::if_grown_before_weights) fade_if_grown(tops, scale_log2);
#pragma unroll
    for (int h = 0; h < row_halves; ++h) {
      const float offset = tops.of[h] * scale_log2;
      if constexpr (Shape::fades == Fades::always) scale_row(h, exp2_beside(top[h] * scale_log2, offset));
      block_sum[h] = weigh_row(scores, h, offset, scale_log2);
    }
    if constexpr (Shape::fades == Fades::if_grown_after_weights) fade_if_grown(tops, scale_log2);
#pragma unroll
    for (int h = 0; h < row_halves; ++h) {
      top[h] = tops.of[h];
      sum[h] += block_sum[h];
    }
  }

  // Of the only scores there are: O is left alone, and begins with what they weigh.
  FMS_DEVICE void begin_with(typename Shape::Scores& scores, const Tops& tops, float scale_log2) {
#pragma unroll
    for (int h = 0; h < row_halves; ++h) sum[h] = weigh_row(scores, h, tops.of[h] * scale_log2, scale_log2);
  }

  // Of a row without weight: what it has met was NaN or infinity, and times 0 would still be NaN.
  FMS_DEVICE void forget(int h) {
    branch_of_its_own();
#pragma unroll
    for (int d = 0; d < Shape::dim_tiles; ++d) o[d].at(h, 0) = o[d].at(h, 1) = 0.0f;
  }

  FMS_DEVICE void add_up() {
#pragma unroll
    for (int h = 0; h < row_halves; ++h) sum[h] = quad_sum(sum[h]);
  }

  struct RowsThere {
    bool are[row_halves];
  };
  // A state lies in memory as Shape::state_floats: the columns of o, then (top, sum), the same for each lane of a quad.
  // Only rows that are there are stored, merged.
  template <int KeyWarp>
  FMS_DEVICE void store_share(float* columns, int lane, const RowsThere& rows) const {
    auto* const pairs = reinterpret_cast<float2*>(columns);
#pragma unroll
    for (int h = 0; h < row_halves; ++h) {
      if (!rows.are[h]) continue;
#pragma unroll
      for (int d = Shape::template share_begin<KeyWarp>; d < Shape::template share_begin<KeyWarp + 1>; ++d)
        pairs[(row_halves * d + h) * warp_lanes + lane] = {o[d].at(h, 0), o[d].at(h, 1)};
    }
  }
  FMS_DEVICE void store_sums(float* sums, int lane, const RowsThere& rows) const {
#pragma unroll
    for (int h = 0; h < row_halves; ++h)
      if (rows.are[h]) reinterpret_cast<float2*>(sums)[h * warp_lanes + lane] = {top[h], sum[h]};
  }

  // What the key warps found of the keys, this one among them, in their order.
  struct Factors {
    float of[row_halves][Shape::key_warps];
  };
  FMS_DEVICE Factors merge_sums(const float* sums, int stride, int lane, const RowsThere& rows, float scale_log2) {
    Factors fades = {};
#pragma unroll
    for (int h = 0; h < row_halves; ++h) {
      if (!rows.are[h]) continue;
      float2 found[Shape::key_warps];
#pragma unroll
      for (int w = 0; w < Shape::key_warps; ++w) {
        found[w] = reinterpret_cast<const float2*>(sums + w * stride)[h * warp_lanes + lane];
        top[h] = fmaxf(top[h], found[w].x);
      }
      sum[h] = 0.0f;
#pragma unroll
      for (int w = 0; w < Shape::key_warps; ++w) {
        fades.of[h][w] = exp2_beside(found[w].x * scale_log2, top[h] * scale_log2);
        sum[h] += found[w].y * fades.of[h][w];
      }
    }
    return fades;
  }
  template <int KeyWarp>
  FMS_DEVICE void merge_share(const float* columns, int stride, int lane, const RowsThere& rows, const Factors& fades) {
#pragma unroll
    for (int h = 0; h < row_halves; ++h) {
      if (!rows.are[h]) continue;
#pragma unroll
      for (int d = Shape::template share_begin<KeyWarp>; d < Shape::template share_begin<KeyWarp + 1>; ++d) {
        float2 all = {0.0f, 0.0f};
#pragma unroll
        for (int w = 0; w < Shape::key_warps; ++w) {
          const float* const of_other = columns + other_of(w, KeyWarp) * stride;
          const float2 its = w == KeyWarp
                                 ? float2{o[d].at(h, 0), o[d].at(h, 1)}
                                 : reinterpret_cast<const float2*>(of_other)[(row_halves * d + h) * warp_lanes + lane];
          all.x += its.x * fades.of[h][w];
          all.y += its.y * fades.of[h][w];
        }
        o[d].at(h, 0) = all.x;
        o[d].at(h, 1) = all.y;
      }
    }
  }
  // Which of the others of a key warp `w` is.
  FMS_DEVICE static constexpr int other_of(int w, int key_warp) {
    return (w - key_warp - 1 + Shape::key_warps) % Shape::key_warps;
  }

  FMS_DEVICE void merge(const float* from, int lane, const RowsThere& rows, float scale_log2) {
    const auto* const pairs = reinterpret_cast<const float2*>(from);
#pragma unroll
    for (int h = 0; h < row_halves; ++h) {
      if (!rows.are[h]) continue;
      const float2 other = pairs[(row_halves * Shape::dim_tiles + h) * warp_lanes + lane];
      const float both_top = fmaxf(top[h], other.x);
      const float fade = exp2_beside(other.x * scale_log2, both_top * scale_log2);
      scale_row(h, exp2_beside(top[h] * scale_log2, both_top * scale_log2));
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
  // Returns the lane's share of their sum.
  FMS_DEVICE static float weigh_row(typename Shape::Scores& scores, int h, float offset, float scale_log2) {
    float sum = 0.0f;
#pragma unroll
    for (int n = 0; n < Shape::key_tiles; ++n)
#pragma unroll
      for (int j = 0; j < 2; ++j) {
        float& s = scores.s[n].at(h, j);
        // Of modified scores the scale is 1.
        s = Shape::is_modified ? exp2_beside(s, offset) : exp2_fast(__fmaf_rn(s, scale_log2, -offset));
        sum += s;
      }
    return sum;
  }

  FMS_DEVICE float top_with(const typename Shape::Scores& scores, int h) const {
    float largest = top[h];
#pragma unroll
    for (int n = 0; n < Shape::key_tiles; ++n)
      largest = fmaxf(largest, fmaxf(scores.s[n].at(h, 0), scores.s[n].at(h, 1)));
    return quad_max(largest);
  }

  // A warp in which no top has grown leaves all of O alone.
  FMS_DEVICE void fade_if_grown(const Tops& tops, float scale_log2) {
#pragma unroll
    for (int m = 0; m < Shape::row_tiles; ++m) {
      const int h = 2 * m;
      const Fade by = {
          tops.grown, {top[h], top[h + 1]}, {tops.of[h] * scale_log2, tops.of[h + 1] * scale_log2}, scale_log2};
      float none[2] = {};
      int d = 0;
#pragma unroll
      for (; d + 8 <= Shape::dim_tiles; d += 8) fade_eight(by, o + d, m, d == 0 ? sum + h : none);
#pragma unroll
      for (; d < Shape::dim_tiles; d += 2) fade_two(by, o + d, m, d == 0 ? sum + h : none);
    }
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
