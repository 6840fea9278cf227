// Which scores count, and what happens to them before the softmax: masks, softcap, bias.
#pragma once

#include "kernels/cuda/atoms/mma.cuh"
#include "kernels/cuda/atoms/row_math.cuh"
#include "kernels/cuda/attention/tile_place.cuh"

namespace flashmoe::cuda {

// No constant: NVRTC has no __builtin_huge_valf, and before 12.3 no __builtin_bit_cast.
FMS_DEVICE float minus_infinity() {
  return __int_as_float(static_cast<int>(0xff800000u));
}

template <class Shape>
class ScoreRules {
  using Scores = typename Shape::Scores;

 public:
  // Nothing beyond the keys `mine` is seen. Rows that do not exist are like the last one.
  FMS_DEVICE ScoreRules(const typename Shape::Params& params, const TilePlace<Shape>& tile, KeyRange mine)
      : p_(params), tile_(tile) {
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const int row = min(tile.first_row + tile.row(h), tile.last_row()), query = tile.query(p_, row);
      seen_[h] = {max(tile.sequence.first_key(p_, query), mine.lo), min(tile.sequence.last_key(p_, query), mine.hi)};
    }
  }

  // Whether the row of half h sees a key of the sequence.
  FMS_DEVICE bool is_seen(int key, int h) const {
    return key >= seen_[h].lo && key < seen_[h].hi;
  }

  FMS_DEVICE void mask(Scores& scores, int first_key) const {
    const int key = first_key + tile_.key(0, 0);
    const KeyRange seen[2] = {{seen_[0].lo - key, seen_[0].hi - key}, {seen_[1].lo - key, seen_[1].hi - key}};
    for_each(scores, [&](float& s, int n, int i) {
      const int offset = n * 8 + i % 2;
      if (offset < seen[i / 2].lo || offset >= seen[i / 2].hi) s = minus_infinity();
    });
  }

  // Scores become logits in units of log2. Whole: every row sees every key of the block.
  template <bool Whole>
  FMS_DEVICE void modify(Scores& scores, int first_key) const {
    if (p_.softcap > 0.0f) {
      for_each(scores, [&](float& s, int, int) {
        s = p_.softcap * log2_of_e * hyperbolic_tangent(s * (p_.scale * p_.inverse_softcap));
      });
    } else {
      for_each(scores, [&](float& s, int, int) { s *= p_.scale * log2_of_e; });
    }
    // One piece of code for both terms: they are seldom there together, and the code is large.
#pragma unroll 1
    for (int i = 0; i < 2; ++i) {
      const BiasTerm bias = term(i);
      if (bias.values == nullptr) continue;
      if (bias.kind == 3) {
        add<Whole, float>(scores, first_key, bias, [](float value) { return value; });
      } else {
        add<Whole, unsigned short>(scores, first_key, bias, [&](unsigned short bits) {
          return bias.kind == 1 ? to_float<Half>(bits) : to_float<BFloat16>(bits);
        });
      }
    }
  }

 private:
  template <class F>
  FMS_DEVICE static void for_each(Scores& scores, F f) {
#pragma unroll
    for (int n = 0; n < Shape::key_tiles; ++n)
#pragma unroll
      for (int i = 0; i < 4; ++i) f(scores.s[n][i], n, i);
  }

  FMS_DEVICE BiasTerm term(int i) const {
    if (i == 1) return p_.bias2;
    return {p_.bias, p_.bias_batch, p_.bias_head, p_.bias_q, p_.bias_kv, p_.bias_kind, p_.by_bias_group};
  }

  template <bool Whole, class Stored, class Convert>
  FMS_DEVICE void add(Scores& scores, int first_key, const BiasTerm& bias, Convert convert) const {
    const int key = first_key + tile_.key(0, 0);
    const auto first_of = [&](int h) {
      const int row = min(tile_.first_row + tile_.row(h), tile_.last_row());
      return static_cast<const Stored*>(bias.values) + divide(tile_.sequence.batch, bias.by_group) * bias.batch +
             tile_.head(p_, row) * bias.head + tile_.query(p_, row) * bias.q + static_cast<long long>(key) * bias.kv;
    };
    const Stored* const rows[2] = {first_of(0), first_of(1)};
    for_each(scores, [&](float& s, int n, int i) {
      if (Whole || is_seen(key + n * 8 + i % 2, i / 2))
        s += log2_of_e * convert(rows[i / 2][(n * 8 + i % 2) * bias.kv]);
    });
  }

  const typename Shape::Params& p_;
  const TilePlace<Shape> tile_;
  KeyRange seen_[2];  // by the lane's rows
};

}  // namespace flashmoe::cuda
