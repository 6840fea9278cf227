// What is fixed when a kernel is compiled, as data that host and device code share. Everything else - causal and window
// bounds, sinks, LSE, ragged batches, strides, GQA packing, splits - is decided at run time.
// docs/adr/0011-instance-axes.md.
#pragma once

namespace flashmoe::cuda {

enum class TileClass : int { large = 0, small = 1, decode = 2, wide = 3 };
inline constexpr int tile_classes = 4;
inline constexpr const char* tile_class_names[tile_classes] = {"large", "small", "decode", "wide"};

inline constexpr int max_dim = 256, dim_step = 16;
// Splits of the keys begin at multiples of this many.
inline constexpr int split_unit = 8;

// Unequal batches: one sequence of a list has at most this many splits, and a CTA's item takes so many bytes.
inline constexpr int most_list_splits = 1024, list_item_bytes = 32;

// Most wide tiles compute their place from the grid twice, for want of registers; that of a list they would have to
// keep.
constexpr bool takes_list(TileClass tile_class) {
  return tile_class != TileClass::wide;
}

// The shape of a CTA. A warp owns one or two tiles of 16 query rows; two share every fragment of keys and values. With
// several key warps each takes its share of every block of keys, and they combine at the end.
struct Tile {
  int row_warps, key_warps;
  int keys;                // of a block, all key warps together
  int ctas_per_sm;         // what registers are limited for
  bool looks_ahead;        // the next block is scored before this block's softmax: registers hold the scores of both
  bool queries_in_shared;  // not in registers
  int places = 2;          // in shared memory for blocks of keys, and as many for blocks of values; 1 in a ring
  int row_tiles = 1;       // of a warp
  // Queries on their way to registers have a place of their own. Else they pass through that of the last blocks of
  // values; if it is the first one's too, its copy has to wait for them.
  bool queries_alone = false;
  int value_parts = 0;  // of a block, where it comes piece by piece (Ring); 0: it comes at once

  [[nodiscard]] constexpr int rows() const { return 16 * row_tiles * row_warps; }
  [[nodiscard]] constexpr bool is_ring() const { return value_parts != 0; }
  [[nodiscard]] constexpr int threads() const { return 32 * row_warps * key_warps; }
};

constexpr int longest(int dim, int value_dim) {
  return dim > value_dim ? dim : value_dim;
}

// Of heads so long O takes half of a thread's registers, and of a whole block an SM of 100 KB would hold one CTA.
constexpr bool is_longest(int dim) {
  return dim > 240;
}

// `dim` is the longer one of keys and values. Beyond 64 blocks are shorter where a tile is small: with 64 keys of 128
// an SM of 100 KB would hold one CTA, and all others of a small problem would wait for it. With one place for each it
// holds two of 64 keys; pages and modified scores together have no registers for that. Of the longest heads it holds
// two large tiles if blocks come piece by piece; with pages one of 48 keys that has one place for each; modified scores
// have no registers for so many. Queries have a place of their own where they would keep the first values waiting and
// an SM of 100 KB holds as many CTAs.
constexpr Tile tile_of(TileClass tile_class, int dim, bool is_paged, bool is_modified) {
  const bool is_long = dim > 128;
  switch (tile_class) {
    case TileClass::wide:
      if (dim <= 64) return {4, 1, 32, 2, true, true, 2, 2};
      return {8, 1, 64, 1, false, is_long, 2, 1, !is_long};
    // Of short heads a few registers less than wanted are enough, and let an SM hold one CTA more.
    case TileClass::small:
      return {2, 2, dim <= 64 ? 64 : 32, dim <= 64 && (is_paged || is_modified) ? 3 : 2, true, is_long};
    case TileClass::decode:
      return {1, dim <= 64 ? 4 : 2, dim <= 64 ? 64 : 32, dim <= 64 && is_modified ? 4 : 2, true, is_long};
    case TileClass::large:
      break;
  }
  // Modified scores: or a register is missing on one architecture of six.
  if (dim == 128 && !(is_paged && is_modified)) return {4, 1, 64, 2, false, false, 1, 1, !is_modified};
  if (is_longest(dim)) {
    if (is_modified) return {4, 1, 32, 1, false, true};
    if (is_paged) return {4, 1, 48, 1, false, true, 1};
    return {4, 1, 64, 2, false, true, 1, 1, false, 4};
  }
  const bool passes_all_values = dim > 64 && dim < 128;
  return {4, 1, dim <= 64 ? 64 : dim == 128 ? 48 : 32, is_long ? 1 : 2, true, is_long, 2, 1, passes_all_values};
}

// Bytes from row to row in shared memory (atoms/shared_memory.cuh).
constexpr int shared_row_bytes(int dim) {
  const int chunks = dim / 8;
  const bool is_power_of_two = (chunks & (chunks - 1)) == 0;
  return 16 * (is_power_of_two || chunks % 2 == 1 ? chunks : chunks + 1);
}

// So many elements of keys are scored in unrolled code, the others in a loop of it: where queries stay in shared memory
// registers are short, and unrolled code wants more of them.
constexpr int score_dim(int dim, int longest_dim) {
  return longest_dim <= 192 || dim <= 64 ? dim : dim % 64 == 0 ? 64 : 16;
}

// Of keys in a ring: whole steps of products. 64 elements where that makes an even number, else 48, else one step.
constexpr int slice_dim(int dim) {
  if (dim <= 64) return dim;
  if (dim % 128 == 0) return 64;
  return dim % 48 == 0 ? 48 : 16;
}

// A block that comes piece by piece: all its keys, a slice of their elements at a time, then its values, some keys'
// at a time. A piece is copied while the one before it is multiplied, so these two never stand in one place. Slices
// take turns in the first two, and so do parts, an even number of them; after an odd number of slices in the last two
// of three.
//
//   slices 4   place   0 1 0 1   parts   0 1 0 1   the next block's slices   0 1 ...
//   slices 3           0 1 0             1 2 1 2                             0 1 ...
struct Ring {
  int slices, places, place_bytes;

  constexpr Ring(const Tile& tile, int dim, int value_dim)
      : slices(dim / slice_dim(dim)),
        places(2 + slices % 2),
        place_bytes(longest(tile.keys * shared_row_bytes(dim / slices),
                            tile.is_ring() ? tile.keys / tile.value_parts * shared_row_bytes(value_dim) : 0)) {}
};

// What 16 rows know after a part of the keys (attention/row_state.cuh).
constexpr int sums_floats = 16 * 8;
constexpr int state_floats(int value_dim) {
  return 16 * value_dim + sums_floats;
}
// What key warps tell each other: everything but the share of the columns that each of them ends with.
constexpr int told_floats(const Tile& tile, int value_dim) {
  if (tile.key_warps == 1) return 0;
  return tile.rows() / 16 * ((tile.key_warps - 1) * 16 * value_dim + tile.key_warps * sums_floats);
}

// As many blocks of keys as of values, or a ring. Queries have a place of their own or pass through that of the values,
// what key warps tell each other and behind it results through all of it. At the end an item of a list.
constexpr int shared_bytes(const Tile& tile, int dim, int value_dim) {
  const int held = tile.places * tile.keys;
  const int keys = held * shared_row_bytes(dim);
  const Ring ring(tile, dim, value_dim);
  const int blocks = tile.is_ring() ? ring.places * ring.place_bytes : keys + held * shared_row_bytes(value_dim);
  const int queries = tile.rows() * shared_row_bytes(dim);
  const int end = told_floats(tile, value_dim) * 4 + tile.rows() * shared_row_bytes(longest(dim, value_dim));
  const bool pass = !tile.queries_in_shared && !tile.queries_alone;
  const int used = pass ? longest(blocks, keys + queries) : blocks + queries;
  return longest(used, end) + list_item_bytes;
}

}  // namespace flashmoe::cuda
