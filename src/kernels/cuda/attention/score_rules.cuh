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
    for (int h = 0; h < Shape::row_halves; ++h) {
      const int row = min(tile.first_row + tile.row(h), tile.last_row()), query = tile.query(p_, row);
      seen_[h] = {max(tile.sequence.first_key(p_, query), mine.lo), min(tile.sequence.last_key(p_, query), mine.hi)};
    }
  }

  // Whether the row of half h sees a key of the sequence.
  FMS_DEVICE bool is_seen(int key, int h) const {
    return key >= seen_[h].lo && key < seen_[h].hi;
  }

  // What each row sees of a block, counted from the lane's first key of each kind of tile, whose keys lie differently.
  struct Mask {
    static constexpr int kinds = Shape::is_modified ? 2 : 1;
    KeyRange seen[kinds][Shape::row_halves] = {};

    // A causal mask alone lets every row see the block's first key, and one comparison will do.
    FMS_DEVICE void hide(Scores& scores, bool all_see_first) const {
      hide_if(scores, [](int offset, const KeyRange& seen) { return offset >= seen.hi; });
      if (!all_see_first) hide_if(scores, [](int offset, const KeyRange& seen) { return offset < seen.lo; });
    }

   private:
    template <class IsHidden>
    FMS_DEVICE void hide_if(Scores& scores, IsHidden is_hidden) const {
      for_each(scores, [&](float& s, int n, int h, int j) {
        if (is_hidden(n / kinds * kinds * 8 + j, seen[n % kinds][h])) s = minus_infinity();
      });
    }
  };
  FMS_DEVICE Mask mask_of(int first_key) const {
    Mask mask;
#pragma unroll
    for (int kind = 0; kind < Mask::kinds; ++kind) {
      const int key = first_key + tile_.key(kind, 0);
#pragma unroll
      for (int h = 0; h < Shape::row_halves; ++h) mask.seen[kind][h] = {seen_[h].lo - key, seen_[h].hi - key};
    }
    return mask;
  }

  // Scores become logits in units of log2. Of a whole block every row sees every key, and what is added to four
  // neighbours can be read at once; Whole: it is known to be one.
  template <bool Whole>
  FMS_DEVICE void modify(Scores& scores, int first_key, bool is_whole = true) const {
    if (p_.softcap > 0.0f) {
      for_each(scores, [&](float& s, int, int, int) {
        s = p_.softcap * log2_of_e * hyperbolic_tangent(s * (p_.scale * p_.inverse_softcap));
      });
    } else {
      for_each(scores, [&](float& s, int, int, int) { s *= p_.scale * log2_of_e; });
    }
    // One piece of code for both terms: they are seldom there together, and the code is large.
#pragma unroll 1
    for (int i = 0; i < 2; ++i) {
      const BiasTerm bias = term(i);
      if (bias.values == nullptr) continue;
      if (bias.kind == 3) {
        add<Whole, float>(scores, first_key, bias, is_whole);
      } else {
        add<Whole, unsigned short>(scores, first_key, bias, is_whole);
      }
    }
  }

 private:
  template <class F>
  FMS_DEVICE static void for_each(Scores& scores, F f) {
#pragma unroll
    for (int n = 0; n < Shape::key_tiles; ++n)
#pragma unroll
      for (int h = 0; h < Shape::row_halves; ++h)
#pragma unroll
        for (int j = 0; j < 2; ++j) f(scores.s[n].at(h, j), n, h, j);
  }

  FMS_DEVICE BiasTerm term(int i) const {
    if (i == 1) return p_.bias2;
    return {p_.bias, p_.bias_batch, p_.bias_head, p_.bias_q, p_.bias_kv, p_.bias_kind, p_.by_bias_group};
  }

  template <bool Whole, class Stored>
  FMS_DEVICE void add(Scores& scores, int first_key, const BiasTerm& bias, bool is_whole) const {
    const Stored* rows[Shape::row_halves];
#pragma unroll
    for (int h = 0; h < Shape::row_halves; ++h) {
      const int row = min(tile_.first_row + tile_.row(h), tile_.last_row());
      rows[h] = static_cast<const Stored*>(bias.values) + divide(tile_.sequence.batch, bias.by_group) * bias.batch +
                tile_.head(p_, row) * bias.head + tile_.query(p_, row) * bias.q;
    }
    if (Whole || is_whole) {
#pragma unroll
      for (int h = 0; h < Shape::row_halves; ++h)
        rows[h] += first_key + tile_.key_warp() * Shape::warp_keys + tile_.lane % 4 * 4;  // the first of four
      add_fours(scores, bias.kind, rows);
    } else {
      add_ones(scores, first_key, bias, rows);
    }
  }

  // Four neighbours at once, of whole blocks. Which two of them are the first tile's: Shape::key_of_column().
  FMS_DEVICE void add_fours(Scores& scores, int, const float* const (&rows)[Shape::row_halves]) const {
    for_each_four<float4>(scores, rows, [](const float4& four, int pair) {
      return pair == 0 ? float2{four.x, four.y} : float2{four.z, four.w};
    });
  }
  FMS_DEVICE void add_fours(Scores& scores, int kind, const unsigned short* const (&rows)[Shape::row_halves]) const {
    const auto pair_of = [](const uint2& four, int pair) { return pair == 0 ? four.x : four.y; };
    if (kind == 1) {
      for_each_four<uint2>(scores, rows,
                           [&](const uint2& four, int pair) { return to_floats<Half>(pair_of(four, pair)); });
    } else {
      for_each_four<uint2>(scores, rows,
                           [&](const uint2& four, int pair) { return to_floats<BFloat16>(pair_of(four, pair)); });
    }
  }
  template <class Four, class Stored, class Convert>
  FMS_DEVICE void for_each_four(Scores& scores, const Stored* const (&rows)[Shape::row_halves], Convert convert) const {
    const bool is_second_first = tile_.lane % 4 >= 2;
#pragma unroll
    for (int n = 0; n < Shape::key_tiles; n += 2)
#pragma unroll
      for (int h = 0; h < Shape::row_halves; ++h) {
        const Four four = exchanged(load_four(rows[h] + n * 8), is_second_first);
#pragma unroll
        for (int pair = 0; pair < 2; ++pair) {
          const float2 values = convert(four, pair);
          scores.s[n + pair].at(h, 0) += log2_of_e * values.x;
          scores.s[n + pair].at(h, 1) += log2_of_e * values.y;
        }
      }
  }
  // Not to be looked into: the compiler would make the exchange a branch, with a load for each half of the lanes.
  FMS_DEVICE static uint2 load_four(const unsigned short* from) {
    uint2 four;
    asm volatile("ld.global.v2.u32 {%0,%1}, [%2];" : "=r"(four.x), "=r"(four.y) : "l"(from));
    return four;
  }
  FMS_DEVICE static float4 load_four(const float* from) {
    float4 four;
    asm volatile("ld.global.v4.f32 {%0,%1,%2,%3}, [%4];"
                 : "=f"(four.x), "=f"(four.y), "=f"(four.z), "=f"(four.w)
                 : "l"(from));
    return four;
  }
  FMS_DEVICE static uint2 exchanged(const uint2& four, bool is_second_first) {
    return is_second_first ? uint2{four.y, four.x} : four;
  }
  FMS_DEVICE static float4 exchanged(const float4& four, bool is_second_first) {
    return is_second_first ? float4{four.z, four.w, four.x, four.y} : four;
  }

  // Any strides, any keys: those that are not seen are not read.
  template <class Stored>
  FMS_DEVICE void add_ones(Scores& scores, int first_key, const BiasTerm& bias,
                           const Stored* const (&rows)[Shape::row_halves]) const {
#pragma unroll
    for (int n = 0; n < Shape::key_tiles; ++n) {
      const int key = first_key + tile_.key(n, 0);
      const long long first = static_cast<long long>(key) * bias.kv;
#pragma unroll
      for (int h = 0; h < Shape::row_halves; ++h)
#pragma unroll
        for (int j = 0; j < 2; ++j)
          if (is_seen(key + j, h))
            scores.s[n].at(h, j) += log2_of_e * one_to_float(rows[h][first + j * bias.kv], bias.kind);
      __syncwarp();  // or the assembler reads for all tiles at once, for which there are no registers
    }
  }
  FMS_DEVICE static float one_to_float(float stored, int) {
    return stored;
  }
  FMS_DEVICE static float one_to_float(unsigned short stored, int kind) {
    return kind == 1 ? to_float<Half>(stored) : to_float<BFloat16>(stored);
  }

  const typename Shape::Params& p_;
  const TilePlace<Shape> tile_;
  KeyRange seen_[Shape::row_halves];  // by the lane's rows
};

}  // namespace flashmoe::cuda
