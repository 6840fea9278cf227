// Forward attention, o = softmax(q k^T / 8) v, with every choice left open. The tunables of cudadent.toml arrive as
// macros, and `if constexpr` takes one way for each of them: from a thread a row and loads of 2 bytes to tensor cores
// on swizzled tiles that are copied ahead. One change in point.toml is one step of the journey.
//
//   CTA    ROWS query rows of one head, and one of SPLITS shares of its keys
//   tile   KEYS keys and their values in shared memory, in STAGES places
//   state  of a row: the weighted sum of values, the largest score, the sum of weights; states over different keys
//          merge into the state over both, so warps, threads and splits may share a row's keys
#include "tile.cuh"

namespace journey {

// ---- states --------------------------------------------------------------------------------------------------------

constexpr int state_floats = depth + 8;  // in shared memory: o, top, sum; 8 rows apart are 8 banks apart

struct Merged {
  float4 o;  // four neighbouring values
  float top, sum;
};
// `at(i)` is the i-th state of a row: four values of o, and (top, sum).
template <class At>
FMS_DEVICE Merged merge_states(int count, At at) {
  Merged merged{{0.0f, 0.0f, 0.0f, 0.0f}, minus_infinity, 0.0f};
  for (int i = 0; i < count; ++i) merged.top = fmaxf(merged.top, at(i).level->x);
  for (int i = 0; i < count; ++i) {
    const float2 level = *at(i).level;
    const float4 o = *at(i).o;
    const float factor = weight(level.x, level_of(merged.top));
    merged.sum += level.y * factor;
    merged.o.x += o.x * factor;
    merged.o.y += o.y * factor;
    merged.o.z += o.z * factor;
    merged.o.w += o.w * factor;
  }
  return merged;
}

struct StateAt {
  const float4* o;
  const float2* level;
};

// A row without any weight is 0 / 0.
FMS_DEVICE void store_result(unsigned char* row, int d, const Merged& merged) {
  const float factor = 1.0f / merged.sum;
  *reinterpret_cast<uint2*>(row + 2 * d) = {pack<Half>(merged.o.x * factor, merged.o.y * factor),
                                            pack<Half>(merged.o.z * factor, merged.o.w * factor)};
}

struct Call {
  const unsigned char *q, *k, *v;  // (S, depth) of this head
  unsigned char* o;                // (S, depth) of this head
  float* partial;                  // (splits, heads, S, depth)
  float2* levels;                  // (splits, heads, S): top, sum
  int length;

  FMS_DEVICE int64 state_of(int split, int row) const {
    return (static_cast<int64>(split) * gridDim.y + blockIdx.y) * length + row;
  }
};

// The splits of `count` rows from `first` on.
FMS_DEVICE void combine_splits(const Call& call, int first, int count) {
  for (int i = threadIdx.x; i < count * (depth / 4); i += blockDim.x) {
    const int row = first + i / (depth / 4), d = i % (depth / 4) * 4;
    if (row >= call.length) return;
    const Merged merged = merge_states(splits, [&](int split) {
      const int64 at = call.state_of(split, row);
      return StateAt{reinterpret_cast<const float4*>(call.partial + at * depth + d), call.levels + at};
    });
    store_result(call.o + static_cast<int64>(row) * row_bytes, d, merged);
  }
}

// ---- a thread or several for a row ---------------------------------------------------------------------------------

class ScalarRow {
  static constexpr int parts = threads / rows;  // neighbouring threads of a row; each takes every parts-th key

 public:
  static constexpr int owners = 1;  // states of a row after the walk

  FMS_DEVICE void load_queries(const unsigned char* shared, const Call& call, int first) {
#pragma unroll
    for (int d = 0; d < depth; d += piece_values) {
      Values values{};
      if constexpr (queries == Queries::staged) {
        values = values_at(shared + place(row_, 2 * d));
      } else if (queries == Queries::direct && first + row_ < call.length) {
        values = values_at(call.q + static_cast<int64>(first + row_) * row_bytes + 2 * d);
      }
#pragma unroll
      for (int i = 0; i < piece_values; ++i) q_[d + i] = values.of[i];
    }
  }

  FMS_DEVICE void take(const unsigned char* shared_q, const unsigned char* k, const unsigned char* v, int there) {
#pragma unroll 1
    for (int key = part_; key < there; key += parts) {
      float score = 0.0f;
#pragma unroll
      for (int d = 0; d < depth; d += piece_values) {
        const Values k_values = values_at(k + place(key, 2 * d));
        Values q_values;
        if constexpr (queries == Queries::in_shared) q_values = values_at(shared_q + place(row_, 2 * d));
#pragma unroll
        for (int i = 0; i < piece_values; ++i)
          score += (queries == Queries::in_shared ? q_values.of[i] : q_[d + i]) * k_values.of[i];
      }
      const float top = fmaxf(top_, score), level = level_of(top);
      const float fade = weight(top_, level), share = weight(score, level);
      top_ = top;
      sum_ = sum_ * fade + share;
#pragma unroll
      for (int d = 0; d < depth; d += piece_values) {
        const Values v_values = values_at(v + place(key, 2 * d));
#pragma unroll
        for (int i = 0; i < piece_values; ++i) o_[d + i] = o_[d + i] * fade + share * v_values.of[i];
      }
    }
  }

  FMS_DEVICE void store(float* states) {
#pragma unroll
    for (int other = 1; other < parts; other *= 2) {
      const float top = fmaxf(top_, __shfl_xor_sync(all_lanes, top_, other));
      const float factor = weight(top_, level_of(top));
      top_ = top;
      sum_ *= factor;
      sum_ += __shfl_xor_sync(all_lanes, sum_, other);
#pragma unroll
      for (int d = 0; d < depth; ++d) {
        o_[d] *= factor;
        o_[d] += __shfl_xor_sync(all_lanes, o_[d], other);
      }
    }
    float* const state = states + row_ * state_floats;
#pragma unroll
    for (int d = 0; d < depth; ++d)
      if (d % parts == part_) state[d] = o_[d];
    if (part_ == 0) store_pair(state + depth, top_, sum_);
  }

 private:
  const int row_ = static_cast<int>(threadIdx.x) / parts, part_ = static_cast<int>(threadIdx.x) % parts;
  float q_[depth], o_[depth] = {};
  float top_ = minus_infinity, sum_ = 0.0f;
};

// ---- 16 rows for a warp --------------------------------------------------------------------------------------------

class MatrixRows {
  static constexpr int row_warps = rows / 16, key_warps = warps / row_warps > 0 ? warps / row_warps : 1;
  static constexpr int warp_keys = keys / key_warps, depth_tiles = depth / 8;
  static constexpr int key_tiles = warp_keys >= 16 ? warp_keys / 8 : 2;  // fewer only where this class is not used

 public:
  static constexpr int owners = key_warps;

  FMS_DEVICE void load_queries(const unsigned char* shared, const Call& call, int first) {
#pragma unroll
    for (int d = 0; d < depth / 16; ++d) {
      if constexpr (queries == Queries::staged) load_query(q_[d], shared, d);
      if (queries == Queries::direct && d % 2 == 0) load_two_queries(d, call, first);
    }
  }

  FMS_DEVICE void take(const unsigned char* shared_q, const unsigned char* k, const unsigned char* v, int there) {
    float scores[key_tiles][4];  // (16, warp_keys)
    score(scores, shared_q, k);
    if (there < keys) {
#pragma unroll
      for (int n = 0; n < key_tiles; ++n)
#pragma unroll
        for (int i = 0; i < 4; ++i)
          if (first_key_ + 8 * n + lane_ % 4 * 2 + i % 2 >= there) scores[n][i] = minus_infinity;
    }
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      float top = top_[h];
#pragma unroll
      for (int n = 0; n < key_tiles; ++n) top = fmaxf(top, fmaxf(scores[n][2 * h], scores[n][2 * h + 1]));
      top = quad_max(top);
      const float level = level_of(top), fade = weight(top_[h], level);
      top_[h] = top;
      sum_[h] *= fade;
#pragma unroll
      for (int d = 0; d < depth_tiles; ++d) {
        o_[d][2 * h] *= fade;
        o_[d][2 * h + 1] *= fade;
      }
#pragma unroll
      for (int n = 0; n < key_tiles; ++n)
#pragma unroll
        for (int i = 2 * h; i < 2 * h + 2; ++i) {
          scores[n][i] = weight(scores[n][i], level);
          sum_[h] += scores[n][i];
        }
    }
    weigh(scores, v);
  }

  FMS_DEVICE void store(float* states) {
    const float sums[2] = {quad_sum(sum_[0]), quad_sum(sum_[1])};
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      float* const state = states + (key_warp_ * rows + row_of(h)) * state_floats;
#pragma unroll
      for (int d = 0; d < depth_tiles; ++d) store_pair(state + 8 * d + lane_ % 4 * 2, o_[d][2 * h], o_[d][2 * h + 1]);
      if (lane_ % 4 == 0) store_pair(state + depth, top_[h], sums[h]);
    }
  }

 private:
  FMS_DEVICE int row_of(int half) const {
    return row_warp_ * 16 + lane_ / 4 + 8 * half;
  }

  FMS_DEVICE void load_query(uint32 (&q)[4], const unsigned char* shared, int d) const {
    load_matrices(q, shared_address(shared + place(row_warp_ * 16 + lane_ % 16, 32 * d + lane_ / 16 * 16)));
  }

  // 32 values of a row at once, 16 bytes a lane: fragments want 4 bytes of every 16, and would tear the sectors.
  FMS_DEVICE void load_two_queries(int d, const Call& call, int first) {
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const int row = first + row_of(h);
      const unsigned char* const at = call.q + static_cast<int64>(row) * row_bytes + 32 * d + lane_ % 4 * 16;
      uint4 piece{};
      if (row < call.length) piece = *reinterpret_cast<const uint4*>(at);
      uint32 words[4] = {piece.x, piece.y, piece.z, piece.w};
      transpose_quad(words);
#pragma unroll
      for (int i = 0; i < 4; ++i) q_[d + i / 2][i % 2 * 2 + h] = words[i];
    }
  }

  FMS_DEVICE void score(float (&scores)[key_tiles][4], const unsigned char* shared_q, const unsigned char* k) {
#pragma unroll
    for (int d = 0; d < depth / 16; ++d) {
      if constexpr (queries == Queries::in_shared) load_query(q_[d], shared_q, d);
#pragma unroll
      for (int n = 0; n < key_tiles; n += 2) {
        const int key = first_key_ + 8 * n + lane_ % 8 + lane_ / 16 * 8;
        uint32 b[4];
        load_matrices(b, shared_address(k + place(key, 32 * d + lane_ / 8 % 2 * 16)));
        if (d == 0) {
          mma_16x8x16<Half>(scores[n], q_[d], b[0], b[1]);
          mma_16x8x16<Half>(scores[n + 1], q_[d], b[2], b[3]);
        } else {
          mma_16x8x16<Half>(scores[n], q_[d], b[0], b[1], scores[n]);
          mma_16x8x16<Half>(scores[n + 1], q_[d], b[2], b[3], scores[n + 1]);
        }
      }
    }
  }

  FMS_DEVICE void weigh(const float (&weights)[key_tiles][4], const unsigned char* v) {
#pragma unroll
    for (int n = 0; n < key_tiles; n += 2) {
      const uint32 a[4] = {pack<Half>(weights[n][0], weights[n][1]), pack<Half>(weights[n][2], weights[n][3]),
                           pack<Half>(weights[n + 1][0], weights[n + 1][1]),
                           pack<Half>(weights[n + 1][2], weights[n + 1][3])};
#pragma unroll
      for (int d = 0; d < depth_tiles; d += 2) {
        uint32 b[4];
        load_matrices_transposed(b,
                                 shared_address(v + place(first_key_ + 8 * n + lane_ % 16, 16 * d + lane_ / 16 * 16)));
        mma_16x8x16<Half>(o_[d], a, b[0], b[1], o_[d]);
        mma_16x8x16<Half>(o_[d + 1], a, b[2], b[3], o_[d + 1]);
      }
    }
  }

  const int lane_ = static_cast<int>(threadIdx.x) % warp_lanes, warp_ = static_cast<int>(threadIdx.x) / warp_lanes;
  const int row_warp_ = warp_ % row_warps, key_warp_ = warp_ / row_warps, first_key_ = key_warp_ * warp_keys;
  uint32 q_[depth / 16][4];       // (16, depth)
  float o_[depth_tiles][4] = {};  // (16, depth)
  float top_[2] = {minus_infinity, minus_infinity}, sum_[2] = {};
};

template <bool>
struct RowsOf {
  using Type = ScalarRow;
};
template <>
struct RowsOf<true> {
  using Type = MatrixRows;
};
using Rows = RowsOf<multiplies_matrices>::Type;

// ---- one CTA -------------------------------------------------------------------------------------------------------

// Keys `begin` to `end` in tiles; with several stages the next ones are on their way while one is taken.
struct Tiles {
  const Call& call;
  unsigned char* places;
  int begin, end;

  FMS_DEVICE void copy(int first, int stage) const {
    unsigned char* const to = places + stage * 2 * tile_bytes;
    if (first < end) {
      copy_rows<keys>(to, call.k, first, end);
      copy_rows<keys>(to + tile_bytes, call.v, first, end);
    }
    if constexpr (copies_async) commit_copies();
  }

  FMS_DEVICE void start() const {
#pragma unroll
    for (int stage = 0; stage < stages - 1; ++stage) copy(begin + stage * keys, stage);
  }

  FMS_DEVICE void walk(Rows& mine, const unsigned char* shared_q) const {
    int stage = 0;
#pragma unroll 1
    for (int first = begin; first < end; first += keys) {
      if constexpr (stages == 1) {
        __syncthreads();
        copy(first, 0);
        if constexpr (copies_async) wait_for_copies<0>();
        __syncthreads();
      } else {
        wait_for_copies<stages - 2>();
        __syncthreads();
        copy(first + (stages - 1) * keys, (stage + stages - 1) % stages);
      }
      const unsigned char* const tile = places + stage * 2 * tile_bytes;
      mine.take(shared_q, tile, tile + tile_bytes, min(end - first, keys));
      stage = (stage + 1) % stages;
    }
  }
};

// What the CTA's rows know: the result, or a split's share of it.
FMS_DEVICE void finish(const Call& call, const float* states, int first) {
  for (int i = threadIdx.x; i < rows * (depth / 4); i += threads) {
    const int row = i / (depth / 4), d = i % (depth / 4) * 4;
    if (first + row >= call.length) break;
    const Merged merged = merge_states(Rows::owners, [&](int owner) {
      const float* const state = states + (owner * rows + row) * state_floats;
      return StateAt{reinterpret_cast<const float4*>(state + d), reinterpret_cast<const float2*>(state + depth)};
    });
    if constexpr (splits == 1) {
      store_result(call.o + static_cast<int64>(first + row) * row_bytes, d, merged);
    } else {
      const int64 at = call.state_of(static_cast<int>(blockIdx.z), first + row);
      *reinterpret_cast<float4*>(call.partial + at * depth + d) = merged.o;
      if (d == 0) call.levels[at] = {merged.top, merged.sum};
    }
  }
}

// Whether all other splits of these rows have left theirs. One thread speaks for the CTA: its fences order what the
// barriers gather and hand on.
FMS_DEVICE bool is_last_split(int* arrived) {
  __syncthreads();
  bool is_last = false;
  if (threadIdx.x == 0) {
    __threadfence();
    is_last = atomicAdd(arrived + blockIdx.y * gridDim.x + blockIdx.x, 1) == splits - 1;
    __threadfence();
  }
  return __syncthreads_or(is_last);
}

FMS_DEVICE Call call_of(const void* q, const void* k, const void* v, void* o, float* partial, float2* levels,
                        int length) {
  const int64 head = static_cast<int64>(blockIdx.y) * length * row_bytes;
  return {static_cast<const unsigned char*>(q) + head,
          static_cast<const unsigned char*>(k) + head,
          static_cast<const unsigned char*>(v) + head,
          static_cast<unsigned char*>(o) + head,
          partial,
          levels,
          length};
}

}  // namespace journey

using namespace journey;

// Grid: (tiles of rows, heads, splits).
extern "C" __global__ void __launch_bounds__(threads)
    attention(const void* q, const void* k, const void* v, void* o, float* partial, float2* levels, int* arrived,
              int length) {
  extern __shared__ __align__(128) unsigned char shared[];
  const Call call = call_of(q, k, v, o, partial, levels, length);
  const int first = static_cast<int>(blockIdx.x) * rows;
  unsigned char* const shared_q = shared + stages * 2 * tile_bytes;
  const int share = (length + keys * splits - 1) / (keys * splits) * keys;  // of a split
  const int begin = static_cast<int>(blockIdx.z) * share;
  const Tiles tiles{call, shared, begin, min(begin + share, length)};
  if constexpr (queries != Queries::direct) {
    copy_rows<rows>(shared_q, call.q, first, length);
    if constexpr (copies_async) commit_copies();
  }
  tiles.start();  // on their way behind the queries, which are waited for
  if constexpr (queries != Queries::direct) {
    if constexpr (copies_async) wait_for_copies<stages - 1>();
    __syncthreads();
  }
  Rows mine;
  mine.load_queries(shared_q, call, first);
  tiles.walk(mine, shared_q);
  if constexpr (copies_async) wait_for_copies<0>();
  __syncthreads();
  auto* const states = reinterpret_cast<float*>(shared);
  mine.store(states);
  __syncthreads();
  finish(call, states, first);
  if constexpr (last_cta_combines) {
    if (is_last_split(arrived)) combine_splits(call, first, rows);
  }
}

// Grid: (16 rows, heads); where the splits are not combined by the last of them.
extern "C" __global__ void __launch_bounds__(256) combine(void* o, float* partial, float2* levels, int length) {
  combine_splits(call_of(nullptr, nullptr, nullptr, o, partial, levels, length), static_cast<int>(blockIdx.x) * 16, 16);
}
