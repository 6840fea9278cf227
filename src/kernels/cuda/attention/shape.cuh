// A kernel's compile-time shape, and the scores its warps hold.
#pragma once

#include "kernels/cuda/atoms/shared_memory.cuh"
#include "kernels/cuda/atoms/types.cuh"
#include "kernels/cuda/attention/params.hpp"
#include "kernels/cuda/axes.hpp"

namespace flashmoe::cuda {

// When what was met fades as a row's largest score grows. Fading all of O is a tenth of a step's instructions; if it
// has to have grown by much first, it is hardly ever needed.
enum class Fades { always, if_grown_before_weights, if_grown_after_weights };

template <bool Extended>
struct ParamsOf {
  using Type = ForwardParams;
};
template <>
struct ParamsOf<true> {
  using Type = ExtendedParams;
};

// ValueDim 0: values are as long as keys, of every problem too.
template <class T, int Dim, int ValueDim, TileClass Class, bool Paged, bool Modified>
struct ForwardShape {
  using Element = T;
  static constexpr bool has_value_dim = ValueDim != 0;
  static constexpr int dim = Dim, value_dim = has_value_dim ? ValueDim : Dim;
  static constexpr int longest_dim = longest(dim, value_dim);
  static constexpr bool is_longest = cuda::is_longest(longest_dim);
  static constexpr Tile tile = tile_of(Class, longest_dim, Paged, Modified);
  using Params = typename ParamsOf<has_value_dim || Modified>::Type;
  static constexpr bool is_paged = Paged, is_modified = Modified;
  static constexpr bool takes_list = cuda::takes_list(Class);

  static constexpr int row_warps = tile.row_warps, key_warps = tile.key_warps, warps = row_warps * key_warps;
  static constexpr int threads = tile.threads(), rows = tile.rows(), ctas_per_sm = tile.ctas_per_sm;
  // With one key warp addresses need not ask which it is. (Large tiles of 128 are a register short then.)
  static constexpr bool knows_key_warp = key_warps == 1 && longest_dim != 128;
  static constexpr int row_tiles = tile.row_tiles;  // of a warp, of 16 rows
  static constexpr int row_halves = 2 * row_tiles;  // 8 rows, of which a lane has one
  static constexpr int warp_rows = 16 * row_tiles;
  static constexpr int keys = tile.keys;              // of a block
  static constexpr int places = tile.places;          // for blocks of keys, and for blocks of values; 1 in a ring
  static constexpr int warp_keys = keys / key_warps;  // of them, one warp's
  static constexpr int key_tiles = warp_keys / 8;
  // What is copied at once: slices of the elements of a block's keys, parts of its values. Of one unless in a ring.
  static constexpr bool is_ring = tile.is_ring();
  static constexpr Ring ring{tile, dim, value_dim};
  static constexpr int slices = is_ring ? ring.slices : 1, slice_dim = dim / slices;
  static constexpr int parts = is_ring ? tile.value_parts : 1, part_keys = keys / parts, part_tiles = key_tiles / parts;
  static constexpr int dim_tiles = value_dim / 8;  // of results

  using Rows = SharedRows<dim / 8>;                                               // of queries
  using KeyRows = SharedRows<slice_dim / 8>;                                      // of keys, or a slice of them
  using ValueRows = SharedRows<value_dim / 8>;                                    // of values and results
  static constexpr int state_floats = row_tiles * cuda::state_floats(value_dim);  // of a warp
  static constexpr int column_floats = row_tiles * 16 * value_dim, sums_floats = row_tiles * cuda::sums_floats;
  static constexpr int told_bytes = cuda::told_floats(tile, value_dim) * 4;
  // Of the tiles of results, where a key warp's share begins.
  static constexpr int share_tiles = (dim_tiles + key_warps - 1) / key_warps;
  template <int KeyWarp>
  static constexpr int share_begin = KeyWarp* share_tiles < dim_tiles ? KeyWarp* share_tiles : dim_tiles;
  static constexpr int slice_bytes = keys * KeyRows::row_bytes, part_bytes = part_keys * ValueRows::row_bytes;
  static constexpr int item_begin = shared_bytes(tile, dim, value_dim) - list_item_bytes;  // in shared memory
  static_assert(dim % 16 == 0 && value_dim % 16 == 0 && warp_keys % 16 == 0 && keys % key_warps == 0);
  static_assert(!is_ring || (parts % 2 == 0 && part_tiles == 2 && places == 1 && key_warps == 1));

  static constexpr bool keeps_queries = !tile.queries_in_shared;
  static constexpr bool looks_ahead =
      tile.looks_ahead && !(Modified && longest_dim > 64);  // softcap and bias want registers too
  static constexpr int score_steps = (is_ring ? slice_dim : score_dim(dim, longest_dim)) / 16;
  // Pages, softcap and bias together are so much code for a block that a second loop is not worth its compile time.
  static constexpr bool has_interior = !(Paged && Modified);
  // Where warps wait for each other often, and have little else to do, one more answer to wait for costs more than it
  // saves. Where the next block is scored first, its products stand beside the weights, and the branch behind both.
  static constexpr Fades fades = (key_warps > 1 || Modified) && !is_longest ? Fades::always
                                 : looks_ahead                              ? Fades::if_grown_after_weights
                                                                            : Fades::if_grown_before_weights;
  // The first blocks are copied as whole ones too, and the interior loop's last copies may be of a block that is not
  // there. Pages' addresses take registers for that which the longest heads do not have.
  static constexpr bool copies_ahead = !(Paged && longest_dim > 192);
  // Of the keys of such a block some may be missing: a comparison for each row, for which the tiles of long problems
  // and long heads have no registers either.
  static constexpr bool copies_in_part = copies_ahead && !Modified && (rows <= 32 || longest_dim <= 64);
  // A block that is the only one has code of its own, for which softcap and bias leave no registers. Tiles of 16 rows
  // lose by one more branch, where there are two blocks, what they gain where there is one.
  static constexpr bool begins_with_only_block = !Modified && rows > 16;
  // Twice the code: worth it where a step is products and little else.
  static constexpr bool steps_in_pairs = looks_ahead && !Modified && !Paged;

  // Which of 16 keys is the column `c` of two neighbouring tiles of scores. Where something is added to the scores, a
  // lane has four neighbours of the 16, two in each tile, so that it reads what is added to them at once, and the lanes
  // of a row whole sectors:
  //
  //   columns of lane t      0            1            2            3
  //   first tile           0  1         4  5        10 11        14 15
  //   second tile          2  3         6  7         8  9        12 13
  //
  // The keys of a tile differ modulo 8, so that ldmatrix meets no bank twice.
  __device__ static constexpr int key_of_column(int c) {
    const int t = c % 8 / 2, tile = c / 8;
    return Modified ? 4 * t + 2 * (tile ^ t / 2) + c % 2 : c;
  }

  // Fragments of the warp's row tiles, of one tile of keys or of elements.       // (warp_rows, 8)
  struct RowFragments {
    float of[row_tiles][4];

    // Element j of the lane's two in the row of half h.
    FMS_DEVICE float& at(int h, int j) { return of[h / 2][h % 2 * 2 + j]; }
    FMS_DEVICE float at(int h, int j) const { return of[h / 2][h % 2 * 2 + j]; }
  };

  // One warp's scores of a block, later its weights.          // (warp_rows, warp_keys)
  struct Scores {
    RowFragments s[key_tiles];
  };
};

}  // namespace flashmoe::cuda
