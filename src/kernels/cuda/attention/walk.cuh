// The walk over the keys that a tile of query rows sees.
//
//   warp    16 rows or 32; holds Q, the scores of its share of a block of keys, and O in fragments (atoms/mma.cuh)
//   block   keys and values in shared memory, two places for each:
//
//             step i      score(i + 1)   softmax(i)   weigh(i)       copies of K(i + 2) and V(i + 1) under way
//
//           The next block is scored before this block's softmax, so that tensor cores and vector units both have work.
//
// Tiles with one place for each have two barriers a step: what was multiplied makes room for its next block, which is
// copied while the other is multiplied. They do not look ahead; other CTAs of the SM fill the gaps, if it holds any.
//
//             step i      softmax(i)   weigh(i)       copy of K(i + 1) under way
//                         score(i + 1)                copy of V(i + 1) under way
//
// Where even that is too much for two CTAs, blocks come piece by piece (Ring in axes.hpp): a barrier for each piece,
// and while it is multiplied the next one is copied. Scores and weights are those of a whole block all the same.
//
// Blocks that every row of the tile sees whole run in a loop of their own, without masks and bounds, from the first to
// the last of them. An example, three blocks of which the third is masked:
//
//   begin       Q, K0, V0, K1 requested       score(0)
//   step whole  V1, K2 requested              score(1)   softmax(0)   weigh(0)
//   step edge   V2 requested                             softmax(1)   weigh(1)        score(2), which is masked
//   step edge                                            softmax(2)   weigh(2)
//
// Were the third one whole too, the second step would be like the first, and the third only the end of one. A block
// that is the only one has no step at all: O begins with it, and is never zero before, unless its values need care.
#pragma once

#include "kernels/cuda/atoms/async_copy.cuh"
#include "kernels/cuda/atoms/mma.cuh"
#include "kernels/cuda/attention/row_state.cuh"
#include "kernels/cuda/attention/score_rules.cuh"
#include "kernels/cuda/attention/tile_copy.cuh"
#include "kernels/cuda/attention/tile_place.cuh"

namespace flashmoe::cuda {

template <class Shape>
class Walk {
  using T = typename Shape::Element;
  using Rows = typename Shape::Rows;
  using KeyRows = typename Shape::KeyRows;
  using ValueRows = typename Shape::ValueRows;
  using Scores = typename Shape::Scores;
  using Tops = typename RowState<Shape>::Tops;
  static constexpr int key_tiles = Shape::key_tiles, dim_tiles = Shape::dim_tiles, row_tiles = Shape::row_tiles;
  // 16 elements of the warp's queries.        // (warp_rows, 16)
  struct Queries {
    uint32 of[row_tiles][4];
  };
  // In shared memory: blocks of keys, then of values.
  static constexpr uint32 values_begin = Shape::is_ring ? 0 : Shape::places * Shape::slice_bytes;
  static constexpr uint32 blocks_end =
      Shape::is_ring ? Shape::ring.places * Shape::ring.place_bytes : values_begin + Shape::places * Shape::part_bytes;
  // Queries that have no place of their own pass through that of the last block of values, which is needed last, or of
  // all.
  static constexpr uint32 query_bytes = Shape::rows * Rows::row_bytes;
  static constexpr uint32 queries_begin = !Shape::keeps_queries || Shape::tile.queries_alone ? blocks_end
                                          : values_begin + query_bytes > blocks_end          ? values_begin
                                                                                             : blocks_end - query_bytes;
  static constexpr bool queries_pass_beside = queries_begin >= values_begin + Shape::part_bytes;

 public:
  FMS_DEVICE Walk(const typename Shape::Params& params, const TilePlace<Shape>& tile, uint32 shared)
      : p_(params), tile_(tile), shared_(shared), keys_(tile.keys(params)), copy_(params, tile, shared_) {
    const int first_key = tile_.key_warp() * Shape::warp_keys, lane = tile_.lane;
    keys_at_ = shared_ + KeyRows::offset(key_at(first_key, lane % 8, lane / 16), lane / 8 % 2);
  }

  FMS_DEVICE void run(RowState<Shape>& state) {
    if (keys_.mine.lo >= keys_.mine.hi) {
      branch_of_its_own();  // or all others pay for the zeros of this one
      return;
    }
    Scores current;
    Tops tops;
    begin(state, current, tops);
    all_blocks(state, current, tops);
  }

 private:
  // The key of a column of one of two neighbouring tiles of scores.
  FMS_DEVICE static int key_at(int first, int column, int tile) {
    if constexpr (Shape::is_modified) {
      return first + Shape::key_of_column(column + tile * 8);
    } else {
      return first + column + tile * 8;
    }
  }

  // 16 elements of the head, the d-th of a round of `Steps`. The number of the round is no constant.
  template <int Steps>
  FMS_DEVICE void load_query(Queries& q, int d, int round, const TilePlace<Shape>& tile) const {
    const uint32 at = shared_ + queries_begin + round * Steps * 32 +
                      Rows::offset(tile.row_warp() * Shape::warp_rows + tile.lane % 16, tile.lane / 16);
#pragma unroll
    for (int m = 0; m < row_tiles; ++m)
      Rows::template with_offset<row_tiles, Steps>(
          m, d, [&](auto offset) { load_matrices<offset>(q.of[m], Rows::turned(at, 2 * d)); });
  }

  // Made where it is needed, so that nothing of it stays in registers through the interior loop.
  FMS_DEVICE ScoreRules<Shape> rules() const {
    return {p_, tile_.anew(), keys_.mine};
  }

  FMS_DEVICE static uint32 other_stage(uint32 stage) {
    return Shape::places == 1 ? 0 : Shape::slice_bytes - stage;
  }
  // The stage of a block of values that goes with one of keys.
  FMS_DEVICE static uint32 value_stage(uint32 stage) {
    if constexpr (Shape::part_bytes == Shape::slice_bytes) {
      return stage;
    } else {
      return stage != 0 ? Shape::part_bytes : 0;
    }
  }

  // Where a piece of a ring stands.
  FMS_DEVICE static constexpr uint32 slice_stage(int slice) {
    return slice % 2 * Shape::ring.place_bytes;
  }
  FMS_DEVICE static constexpr uint32 part_stage(int part) {
    return Shape::is_ring ? (part % 2 + Shape::ring.slices % 2) * Shape::ring.place_bytes : 0;
  }

  // ---- one block ---------------------------------------------------------------------------------------------------

  // S = Q K^T; keys that are not there are zeros in shared memory. Does `meanwhile(0)` when the first products are
  // under way: the tensor cores do not wait for it. Of a ring the first slice has arrived; the others are waited for,
  // and there is a meanwhile for each.
  template <bool Whole, class Meanwhile>
  FMS_DEVICE void score(Scores& to, uint32 stage, Meanwhile meanwhile) const {
    if constexpr (Shape::keeps_queries) {
#pragma unroll
      for (int d = 0; d < Shape::dim / 16; ++d) {
        score_16<Shape::dim / 16>(to, q_[d], d, stage, d == 0);
        if (d == (Shape::dim > 16 ? 1 : 0)) meanwhile(0);
      }
    } else {
      // Edges ask anew, so that their addresses of queries do not stay in registers through the interior loop.
      const TilePlace<Shape> tile = Whole ? tile_ : tile_.anew();
      Queries q;
      const auto score_round = [&](int round, auto is_first) {
        // Rounds begin at multiples of 8 chunks, or there is no swizzle: they move no chunk within the 8.
        const uint32 from = Shape::is_ring ? slice_stage(round) : stage + round * Shape::score_steps * 32;
#pragma unroll
        for (int d = 0; d < Shape::score_steps; ++d) {
          load_query<Shape::score_steps>(q, d, round, tile);
          score_16<Shape::score_steps>(to, q, d, from, is_first && d == 0);
          if (d == 0 && (is_first || Shape::is_ring)) meanwhile(round);
        }
      };
      score_round(0, Constant<1>{});
#pragma unroll 1
      for (int round = 1; round < Shape::dim / 16 / Shape::score_steps; ++round) {
        if constexpr (Shape::is_ring) wait_for_block();
        score_round(round, Constant<0>{});
      }
    }
  }
  // Adds 16 of the head's elements, the d-th of `Steps`. The first ones begin from zero, which costs no register.
  template <int Steps>
  FMS_DEVICE void score_16(Scores& to, const Queries& q, int d, uint32 stage, bool is_first) const {
    const uint32 at = KeyRows::turned(keys_at_, 2 * d) + stage;
#pragma unroll
    for (int n = 0; n < key_tiles; n += 2) {
      uint32 b[4];
      KeyRows::template with_offset<key_tiles / 2, Steps>(n / 2, d, [&](auto offset) { load_matrices<offset>(b, at); });
#pragma unroll
      for (int m = 0; m < row_tiles; ++m) {
        float(&first)[4] = to.s[n].of[m], (&second)[4] = to.s[n + 1].of[m];
        if (is_first) {
          mma_16x8x16<T>(first, q.of[m], b[0], b[1]);
          mma_16x8x16<T>(second, q.of[m], b[2], b[3]);
        } else {
          mma_16x8x16<T>(first, q.of[m], b[0], b[1], first);
          mma_16x8x16<T>(second, q.of[m], b[2], b[3], second);
        }
      }
    }
  }

  // The weights of 16 keys, from score tile `n` on.
  struct Weights {
    uint32 of[row_tiles][4];
  };
  FMS_DEVICE static Weights weights_of(const Scores& weights, int n) {
    Weights a;
#pragma unroll
    for (int m = 0; m < row_tiles; ++m)
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const float(&w)[4] = weights.s[n + i / 2].of[m];
        a.of[m][i] = pack<T>(w[i % 2 * 2], w[i % 2 * 2 + 1]);
      }
    return a;
  }

  // O += weights V; or, if O begins with them, O = weights V, and no register has to be zero before.
  template <bool Begins = false>
  FMS_DEVICE void weigh(RowState<Shape>& state, const Scores& weights, uint32 stage) const {
#pragma unroll
    for (int n = 0; n < key_tiles; n += 2) {
      // Wide tiles: or the assembler loads so much of V at once that registers run out.
      if (!Shape::looks_ahead && Shape::places == 2 && n == key_tiles / 2) __syncwarp();
      weigh_16<key_tiles / 2>(state, weights_of(weights, n), n / 2, stage, Begins && n == 0);
    }
  }
  // Of 16 keys, the i-th of `Count` in shared memory.
  template <int Count = 1>
  FMS_DEVICE void weigh_16(RowState<Shape>& state, const Weights& a, int i, uint32 stage, bool begins = false) const {
#pragma unroll
    for (int d = 0; d < dim_tiles; d += 2) {
      uint32 b[4];
      ValueRows::template with_offset<Count, dim_tiles / 2>(i, d / 2, [&](auto offset) {
        load_matrices_transposed<offset>(b, ValueRows::turned(values_at_, d) + stage);
      });
#pragma unroll
      for (int m = 0; m < row_tiles; ++m) {
        float(&first)[4] = state.o[d].of[m], (&second)[4] = state.o[d + 1].of[m];
        if (begins) {
          mma_16x8x16<T>(first, a.of[m], b[0], b[1]);
          mma_16x8x16<T>(second, a.of[m], b[2], b[3]);
        } else {
          mma_16x8x16<T>(first, a.of[m], b[0], b[1], first);
          mma_16x8x16<T>(second, a.of[m], b[2], b[3], second);
        }
      }
    }
  }

  // Keys that a row does not see have the weight 0, but 0 times NaN or infinity is NaN: in edge blocks such values need
  // care. Rows that see one get NaN; then all of them become zeros, before anything is multiplied.
  FMS_DEVICE void replace_wild_values(RowState<Shape>& state, const ScoreRules<Shape>& rules, int first_key,
                                      uint32 stage) const {
#pragma unroll 1
    for (int n = 0; n < Shape::part_tiles; n += 2) {
      uint32 sees[row_tiles][4];
#pragma unroll
      for (int m = 0; m < row_tiles; ++m)
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          const int tile = n + i / 2, h = 2 * m + i % 2;
          sees[m][i] = pack<T>(rules.is_seen(first_key + tile_.key(tile, 0), h) ? 1.0f : 0.0f,
                               rules.is_seen(first_key + tile_.key(tile, 1), h) ? 1.0f : 0.0f);
        }
#pragma unroll
      for (int d = 0; d < dim_tiles; d += 2) {
        uint32 wild[4];
        const uint32 at = ValueRows::turned(values_at_, d) + ValueRows::offset_of(d);
        load_matrices_transposed(wild, at + stage + n * 8 * ValueRows::row_bytes);
#pragma unroll
        for (uint32& pair : wild) pair = add_zero_times<T>(0, pair) & pack<T>(1.0f, 1.0f);  // NaN & 1 is 1
        __syncwarp();  // or the assembler loads all of V at once, for which there are no registers
#pragma unroll
        for (int m = 0; m < row_tiles; ++m) {
          float met[2][4];
          mma_16x8x16<T>(met[0], sees[m], wild[0], wild[1]);
          mma_16x8x16<T>(met[1], sees[m], wild[2], wild[3]);
#pragma unroll
          for (int i = 0; i < 4; ++i) {
            if (met[0][i] != 0.0f) state.o[d].of[m][i] = not_a_number();
            if (met[1][i] != 0.0f) state.o[d + 1].of[m][i] = not_a_number();
          }
        }
      }
    }
    __syncthreads();
    copy_.clear_my_wild_values(values_begin + stage);
    __syncthreads();
  }

  FMS_DEVICE bool is_last(int first) const {
    return first + Shape::keys >= keys_.mine.hi;
  }
  // Every row sees all keys of the block: short problems have such blocks in the edge path too, and there they need
  // neither a mask nor a look at values that nobody may see.
  FMS_DEVICE bool is_whole(int first) const {
    return first >= keys_.whole.lo && first + Shape::keys <= keys_.whole.hi;
  }

  // What a bias adds to four neighbouring keys can be read at once: blocks are whole only where it can.
  FMS_DEVICE bool adds_fours() const {
    if constexpr (Shape::is_modified) {
      return p_.adds_fours != 0 && keys_.mine.lo % 4 == 0;
    } else {
      return true;
    }
  }

  // Modifies and masks the scores of a block that may be an edge.
  FMS_DEVICE void finish_scores(Scores& scores, int first) const {
    if constexpr (Shape::is_modified) {
      const ScoreRules<Shape> its = rules();
      its.template modify<false>(scores, first, is_whole(first) && adds_fours());
      // Long heads do not ask anew, short ones do: each is a register short if it does as the other.
      if constexpr (Shape::longest_dim > 64) {
        if (!is_whole(first)) hide_unseen(scores, first, its);
        return;
      }
    }
    if (!is_whole(first)) hide_unseen(scores, first, rules());
  }
  FMS_DEVICE void hide_unseen(Scores& scores, int first, const ScoreRules<Shape>& rules) const {
    rules.mask_of(first).hide(scores, first >= keys_.whole.lo);
  }

  // Rows can be copied in chunks.
  FMS_DEVICE bool has_whole_rows() const {
    bool is_long = p_.head_dim == Shape::dim;
    if constexpr (Shape::has_value_dim) is_long = is_long && p_.value_dim == Shape::value_dim;
    return is_long && p_.is_aligned != 0;
  }

  // ---- parts of a step ----------------------------------------------------------------------------------------------

  // For all copies, of all threads.
  FMS_DEVICE static void wait_for_block() {
    wait_for_copies<0>();
    __syncthreads();
  }
  // Of an edge: whether something of the values at `stage` is NaN or infinite. All threads come here.
  FMS_DEVICE bool meets_wild_values(int first, uint32 stage) const {
    wait_for_copies<0>();
    return __syncthreads_or(!is_whole(first) && copy_.my_values_are_wild(values_begin + stage)) != 0;
  }
  FMS_DEVICE void wait_for_edge_values(RowState<Shape>& state, int first, uint32 stage, int part = 0) const {
    if (meets_wild_values(first, stage)) replace_wild_values(state, rules(), first + part * Shape::part_keys, stage);
  }

  // ---- all blocks --------------------------------------------------------------------------------------------------

  // The first block's scores; modified ones all_blocks() finishes. Everything that can be under way meanwhile is.
  FMS_DEVICE void begin(RowState<Shape>& state, Scores& scores, Tops& tops) {
    const int first = keys_.mine.lo, second = first + Shape::keys;
    const bool is_there = Shape::copies_ahead && has_whole_rows() && second <= keys_.mine.hi,
               is_next_whole = is_there && (Shape::copies_in_part || second + Shape::keys <= keys_.mine.hi);
    const auto copy_after_keys = [&](int slice) {
      if (is_there) {
        copy_what_follows_keys<true>(first, slice);
      } else {
        copy_what_follows_keys<false>(first, slice);
      }
    };
    copy_.queries(queries_begin);
    if (is_there) {
      copy_.template keys<true, false>(first, keys_.mine.hi, 0);
    } else {
      copy_.template keys<false>(first, keys_.mine.hi, 0);
    }
    commit_copies();
    if constexpr (queries_pass_beside) copy_after_keys(0);
    if (Shape::places == 2 && second < keys_.mine.hi) {
      if (is_next_whole) {
        copy_.template keys<true>(second, keys_.mine.hi, Shape::slice_bytes);
      } else {
        copy_.template keys<false>(second, keys_.mine.hi, Shape::slice_bytes);
      }
    }
    commit_copies();
    // While the first copies are under way there is nothing else to do.
    typename ScoreRules<Shape>::Mask mask;
    if (!Shape::is_modified && !is_whole(first)) mask = rules().mask_of(first);
    wait_for_copies<1>();
    if (p_.q_sign != 0) copy_.change_signs_of_my_queries(queries_begin);  // a negative scale is a positive one of those
    __syncthreads();
    if constexpr (Shape::keeps_queries) {
#pragma unroll
      for (int d = 0; d < Shape::dim / 16; ++d) load_query<Shape::dim / 16>(q_[d], d, 0, tile_);
    }
    if constexpr (!queries_pass_beside) {
      __syncthreads();
      copy_after_keys(0);
      commit_copies();
    }
    score<false>(scores, 0, [&](int slice) {
      if (slice == 0) return;
      copy_after_keys(slice);
      commit_copies();
    });
    // Only now, so that no register is held for it while queries and the first scores fill them.
    const TilePlace<Shape> tile = tile_.anew();
    const int value = tile.key_warp() * Shape::warp_keys + Shape::key_of_column(tile.lane % 16);
    values_at_ = shared_ + values_begin + ValueRows::offset(value, tile.lane / 16);
    if constexpr (!Shape::is_modified) {
      if (!is_whole(first)) mask.hide(scores, first >= keys_.whole.lo);
      tops = state.first_tops(scores);
    }
  }

  // Of the block from key `first` on: what comes after a slice of its keys.
  template <bool Whole>
  FMS_DEVICE void copy_what_follows_keys(int first, int slice) const {
    if (slice + 1 < Shape::slices) {
      copy_.template keys<Whole, false>(first, keys_.mine.hi, slice_stage(slice + 1), slice + 1);
    } else {
      copy_.template values<Whole>(first, keys_.mine.hi, values_begin + part_stage(0));
    }
  }

  template <bool Whole>
  FMS_DEVICE void copy_part(int first, int part) const {
    copy_.template values<Whole>(first + part * Shape::part_keys, keys_.mine.hi, values_begin + part_stage(part));
    commit_copies();
  }
  // Into the places that are free when all of a block's values are there: of the next block its values and of the one
  // after it the keys, or no more than the keys of the next.
  template <bool Whole>
  FMS_DEVICE void copy_ahead(int second, uint32 stage) const {
    if constexpr (Shape::places == 1) {
      copy_.template keys<Whole, false>(second, keys_.mine.hi, 0);
    } else {
      const int third = second + Shape::keys;
      copy_.template values<Whole>(second, keys_.mine.hi, values_begin + value_stage(other_stage(stage)));
      if (Whole || third < keys_.mine.hi) copy_.template keys<Whole>(third, keys_.mine.hi, stage);
    }
    commit_copies();
  }
  // The block after the one at `stage`. Modified scores that may be an edge's all_blocks() finishes.
  template <bool Whole>
  FMS_DEVICE void score_next(Scores& next, int second, uint32 stage) const {
    if constexpr (Shape::places == 1) {
      wait_for_block();
      const auto copy_next = [&](int slice) {
        copy_what_follows_keys<Whole>(second, slice);
        commit_copies();
      };
      if constexpr (Shape::is_ring) {
        score<Whole>(next, 0, copy_next);
      } else {
        copy_next(0);
        score<Whole>(next, 0, [](int) {});
      }
    } else {
      score<Whole>(next, other_stage(stage), [&](int) {
        if constexpr (Whole && Shape::looks_ahead) copy_ahead<true>(second, stage);
      });
    }
    if constexpr (Whole && Shape::is_modified) rules().template modify<true>(next, second);
    if constexpr (!Whole && !Shape::is_modified) finish_scores(next, second);
  }

  // Finishes the block from key `first` on, which stands at `stage`, and scores the next. Both are whole.
  FMS_DEVICE void step(RowState<Shape>& state, Tops& tops, Scores& next, Scores& current, int first,
                       uint32 stage) const {
    const int second = first + Shape::keys;
    if constexpr (Shape::is_ring) {
      unrolled<Shape::parts, 1>([&](auto part) {
        wait_for_block();
        if constexpr (part + 1 < Shape::parts) {
          copy_part<true>(first, part + 1);
        } else {
          copy_ahead<true>(second, stage);
        }
        if constexpr (part == 0) state.weigh_scores(current, tops, p_.scale_log2);
        weigh_16(state, weights_of(current, 2 * part), 0, part_stage(part));
      });
    } else {
      wait_for_block();
      if constexpr (Shape::looks_ahead) {
        score_next<true>(next, second, stage);
      } else {
        copy_ahead<true>(second, stage);
      }
      state.weigh_scores(current, tops, p_.scale_log2);
      weigh(state, current, value_stage(stage));
    }
    if constexpr (!Shape::looks_ahead) score_next<true>(next, second, stage);
    tops = state.tops_with(next, p_.most_growth);  // beside the last products
  }

  // The same of blocks that may be edges; false: this was the last. It does not look ahead, so that no scores move, and
  // it is one piece of code for all of them, because what wild values need is much. Of a ring's only block `done` parts
  // are weighed already; -1: its scores are no weights yet.
  FMS_DEVICE bool edge_step(RowState<Shape>& state, Tops& tops, Scores& scores, int first, uint32 stage,
                            int done) const {
    const int second = first + Shape::keys;
    const bool is_end = is_last(first);
    if constexpr (Shape::is_ring) {
      if (done < 0) state.weigh_scores(scores, tops, p_.scale_log2);
      weigh_edge_parts<true>(state, scores, first, max(done, 0), is_end);
    } else {
      wait_for_edge_values(state, first, value_stage(stage));
      if (!is_end) copy_ahead<false>(second, stage);
      state.weigh_scores(scores, tops, p_.scale_log2);
      weigh(state, scores, value_stage(stage));
    }
    if (is_end) return false;
    score_next<false>(scores, second, stage);
    if constexpr (!Shape::is_modified) tops = state.tops_with(scores, p_.most_growth);
    return true;
  }
  // Of a ring, from part `part` on, up to the first with wild values unless it takes those. Returns where it ended.
  template <bool TakesWild>
  FMS_DEVICE int weigh_edge_parts(RowState<Shape>& state, const Scores& weights, int first, int part,
                                  bool is_end) const {
#pragma unroll 1
    for (; part < Shape::parts; ++part) {
      if constexpr (TakesWild) {
        wait_for_edge_values(state, first, part_stage(part), part);
      } else if (meets_wild_values(first, part_stage(part))) {
        break;
      }
      if (part + 1 < Shape::parts) {
        copy_part<false>(first, part + 1);
      } else if (TakesWild && !is_end) {
        copy_ahead<false>(first + Shape::keys, 0);
      }
      Weights its_weights;
      unrolled<Shape::parts, 1>([&](auto its) {
        if (its != part) return;
        branch_of_its_own();
        its_weights = weights_of(weights, 2 * its);
      });
      weigh_16(state, its_weights, 0, part_stage(part));
    }
    return part;
  }

  // The only block: nothing was met that would fade, and O begins with it. Returns how many parts it has weighed; what
  // is wild it leaves to edge_step.
  FMS_DEVICE int weigh_only_block(RowState<Shape>& state, const Tops& tops, Scores& scores) const {
    const int first = keys_.mine.lo;
    if constexpr (Shape::is_ring) state.begin_with(scores, tops, p_.scale_log2);  // while values are under way
    if (meets_wild_values(first, part_stage(0))) {
      branch_of_its_own();
      return 0;
    }
    if constexpr (Shape::is_ring) {
      copy_part<false>(first, 1);
      weigh_16(state, weights_of(scores, 0), 0, part_stage(0), true);
      return weigh_edge_parts<false>(state, scores, first, 1, true);
    } else {
      state.begin_with(scores, tops, p_.scale_log2);
      weigh<true>(state, scores, 0);
      return 1;
    }
  }

  // Up to which block a step may take its two for whole. Rows can be copied in chunks; the keys copied meanwhile are of
  // a block that may be missing where copies_ahead, and may end early where copies_in_part.
  FMS_DEVICE int last_whole_step() const {
    if (!has_whole_rows() || !adds_fours()) return -1;
    if constexpr (Shape::places == 1) return keys_.whole.hi - 2 * Shape::keys;  // no more than its two are copied
    const KeyRange &mine = keys_.mine, &whole = keys_.whole;
    const bool may_end = Shape::copies_in_part || (Shape::copies_ahead && (mine.hi - mine.lo) % Shape::keys == 0);
    return (may_end ? whole.hi : min(whole.hi, mine.hi - Shape::keys)) - 2 * Shape::keys;
  }

  FMS_DEVICE void all_blocks(RowState<Shape>& state, Scores& current, Tops& tops) const {
    [[maybe_unused]] Scores ahead;
    Scores& next = Shape::looks_ahead ? ahead : current;
    uint32 stage = 0;
    int first = keys_.mine.lo;
    int done = -1;  // of the first block: edge_step
    if constexpr (Shape::begins_with_only_block) {
      if (is_last(first)) {
        done = weigh_only_block(state, tops, current);
        if (done == Shape::parts) return;
      } else {
        branch_of_its_own();  // or the only block pays for the zeros of the others
      }
    }
    for (;;) {
      if constexpr (Shape::is_modified) {
        // Here of all edges and of the first block, because it is much code.
        finish_scores(current, first);
        tops = state.tops_with(current, p_.most_growth);
      }
      if constexpr (Shape::steps_in_pairs) {
        // So that scores need not move and stages are constants.
        if (stage == 0 && first >= keys_.whole.lo) {
          const int last_step = last_whole_step();
          for (; first + Shape::keys <= last_step; first += 2 * Shape::keys) {
            step(state, tops, next, current, first, 0);
            step(state, tops, current, next, first + Shape::keys, Shape::slice_bytes);
          }
          if (first <= last_step) {
            step(state, tops, next, current, first, 0);
            first += Shape::keys;
            stage = Shape::slice_bytes;
            if (is_last(first) && is_whole(first)) {
              wait_for_block();
              state.weigh_scores(next, tops, p_.scale_log2);
              return weigh(state, next, value_stage(stage));
            }
            branch_of_its_own();  // or the moves of the others stand before it
            current = next;
          }
        }
      } else if (Shape::has_interior && first >= keys_.whole.lo) {
        const int last_step = last_whole_step();
#pragma unroll 1
        for (; first <= last_step; first += Shape::keys, stage = other_stage(stage)) {
          step(state, tops, next, current, first, stage);
          if constexpr (Shape::looks_ahead) current = next;
        }
      }
      if (!edge_step(state, tops, current, first, stage, done)) return;
      done = -1;
      first += Shape::keys;
      stage = other_stage(stage);
    }
  }

  const typename Shape::Params& p_;
  const TilePlace<Shape> tile_;
  const uint32 shared_;
  const typename TilePlace<Shape>::Keys keys_;
  const TileCopy<Shape> copy_;
  uint32 keys_at_, values_at_;                             // this lane's places in the first block of each
  Queries q_[Shape::keeps_queries ? Shape::dim / 16 : 1];  // (warp_rows, dim)
};

}  // namespace flashmoe::cuda
