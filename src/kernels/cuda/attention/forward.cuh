// The forward pass over many query rows: one CTA takes a tile of rows of one kv head and walks over the keys they see.
//
//   rows    the query heads of a group are packed: row r is query r / group of head r % group, so that GQA fills tiles
//   warp    16 rows; holds Q, the scores of a block of keys and O in fragments (atoms/mma.cuh)
//   block   `Keys` keys. Shared memory holds two blocks of K and two of V:
//
//             step i      score(i + 1)   softmax(i)   weigh(i)       copies of K(i + 2) and V(i + 1) under way
//
//           The next block is scored before this block's softmax, so that tensor cores and vector units both have work.
//
// Interior blocks, which every row of the tile sees whole, run in a loop of their own without masks and bounds.
#pragma once

#include "kernels/cuda/atoms/async_copy.cuh"
#include "kernels/cuda/atoms/mma.cuh"
#include "kernels/cuda/atoms/row_math.cuh"
#include "kernels/cuda/atoms/shared_memory.cuh"
#include "kernels/cuda/attention/params.hpp"
#include "kernels/cuda/attention/sequence.cuh"

namespace flashmoe::cuda {

// What is fixed when an instance is compiled.
template <class T, int Dim, int Keys, int Warps, bool Paged, bool Modified>
struct ForwardShape {
  using Element = T;
  static constexpr int dim = Dim, keys = Keys, warps = Warps;
  static constexpr bool is_paged = Paged, is_modified = Modified;

  static constexpr int threads = Warps * warp_lanes;
  static constexpr int rows = 16 * Warps;
  static constexpr int chunks = Dim / 8;  // of 16 bytes in a row
  using Rows = SharedRows<chunks>;
  static constexpr int tile_bytes = Keys * Rows::row_bytes;
  static_assert(Dim % 16 == 0 && Keys % 16 == 0);
};

template <class Shape>
class Forward {
  using T = typename Shape::Element;
  using Rows = typename Shape::Rows;
  static constexpr int key_tiles = Shape::keys / 8, dim_tiles = Shape::dim / 8;
  static constexpr int chunks = Shape::chunks, threads = Shape::threads;
  static constexpr float minus_infinity = -__builtin_huge_valf();

  struct Scores {
    float s[key_tiles][4];
  };

 public:
  FMS_DEVICE explicit Forward(const ForwardParams& params)
      : p_(params),
        sequence_(params, static_cast<int>(blockIdx.y) / params.kv_heads),
        kv_head_(static_cast<int>(blockIdx.y) % params.kv_heads),
        lane_(static_cast<int>(threadIdx.x) % warp_lanes),
        warp_(static_cast<int>(threadIdx.x) / warp_lanes),
        tile_first_(static_cast<int>(blockIdx.x) * Shape::rows) {
    extern __shared__ __align__(1024) unsigned char shared_memory[];
    shared_ = shared_address(shared_memory);
    keys_at_ = shared_ + Rows::offset(lane_ % 8 + lane_ / 16 * 8, lane_ / 8 % 2);
    values_at_ = shared_ + 2 * Shape::tile_bytes + Rows::offset(lane_ % 16, lane_ / 16);
    const int row = static_cast<int>(threadIdx.x) / chunks, chunk = static_cast<int>(threadIdx.x) % chunks;
    copy_to_ = shared_ + Rows::offset(row, chunk);
    k_ = row_at(p_.k, p_.k_strides, sequence_.kv_batch, kv_head_, sequence_.kv_begin + row) + chunk * 16;
    v_ = row_at(p_.v, p_.v_strides, sequence_.kv_batch, kv_head_, sequence_.kv_begin + row) + chunk * 16;
  }

  FMS_DEVICE void run() {
    const int row_count = sequence_.q_len * p_.group;
    if (tile_first_ >= row_count) return;
    last_row_ = min(tile_first_ + Shape::rows, row_count) - 1;
    begin_rows();
    const KeyRange seen{sequence_.first_key(tile_first_), sequence_.last_key(last_row_)};
    const KeyRange whole{sequence_.first_key(last_row_), sequence_.last_key(tile_first_)};
    BlockRange blocks{seen.lo / Shape::keys, (max(seen.hi, 0) + Shape::keys - 1) / Shape::keys};
    blocks = share_of(blocks, static_cast<int>(blockIdx.z), p_.splits);
    if (blocks.begin < blocks.end) {
      load_queries(row_count);
      const bool has_interior = p_.is_aligned != 0 && p_.head_dim == Shape::dim;
      walk(blocks, {(whole.lo + Shape::keys - 1) / Shape::keys, has_interior ? whole.hi / Shape::keys : 0});
    }
    __syncthreads();
#pragma unroll
    for (int h = 0; h < 2; ++h) sum_[h] = quad_sum(sum_[h]);
    if (p_.splits > 1 && !combine_splits()) return;
    finish(row_count);
  }

 private:
  // ---- copies ------------------------------------------------------------------------------------------------------

  // In interior blocks a thread copies the same chunk of every row_step-th row, so that its addresses differ by
  // constants.
  static constexpr int row_step = threads / chunks;
  static constexpr bool is_regular =
      !Shape::is_paged && threads % chunks == 0 && row_step % 8 == 0 && Shape::keys % row_step == 0;

  FMS_DEVICE void copy_regular(uint32 to, const unsigned char* from, long long row_bytes, int first_key) const {
#pragma unroll
    for (int i = 0; i < Shape::keys / row_step; ++i)
      copy_async(to + Rows::offset(i * row_step, 0), from + (first_key + i * row_step) * row_bytes);
  }

  // Chunk by chunk; what is not there becomes zero.
  template <bool Whole>
  FMS_DEVICE void copy_pieces(uint32 to, const void* base, const RowStrides& strides, int first_key) const {
    constexpr int pieces = Shape::keys * chunks;
#pragma unroll
    for (int i = 0; i < (pieces + threads - 1) / threads; ++i) {
      const int piece = static_cast<int>(threadIdx.x) + i * threads;
      if (pieces % threads != 0 && piece >= pieces) break;
      const int row = piece / chunks, chunk = piece % chunks;
      const bool is_there = Whole || first_key + row < sequence_.kv_len;
      const unsigned char* from =
          kv_row<Shape::is_paged>(p_, sequence_, base, strides, kv_head_, is_there ? first_key + row : 0);
      copy_chunk<Whole>(to + Rows::offset(row, chunk), from, chunk, is_there);
    }
  }

  template <bool Whole>
  FMS_DEVICE void copy_keys(int block, uint32 stage) const {
    if constexpr (Whole && is_regular) {
      copy_regular(copy_to_ + stage, k_, p_.k_strides.row * 2, block * Shape::keys);
    } else {
      copy_pieces<Whole>(shared_ + stage, p_.k, p_.k_strides, block * Shape::keys);
    }
  }
  template <bool Whole>
  FMS_DEVICE void copy_values(int block, uint32 stage) const {
    if constexpr (Whole && is_regular) {
      copy_regular(copy_to_ + 2 * Shape::tile_bytes + stage, v_, p_.v_strides.row * 2, block * Shape::keys);
    } else {
      copy_pieces<Whole>(shared_ + 2 * Shape::tile_bytes + stage, p_.v, p_.v_strides, block * Shape::keys);
    }
  }

  // One chunk of a row of q, k or v. Rows that do not begin at multiples of 16 bytes are read element by element.
  template <bool Whole>
  FMS_DEVICE void copy_chunk(uint32 to, const unsigned char* row, int chunk, bool is_there) const {
    const int there = Whole ? 8 : is_there ? min(p_.head_dim - chunk * 8, 8) : 0;
    if (Whole || p_.is_aligned) {
      if constexpr (Whole) {
        copy_async(to, row + chunk * 16);
      } else {
        copy_async_or_zero(to, there > 0 ? row + chunk * 16 : row, there > 0);
      }
      return;
    }
    uint32 words[4] = {};
    const auto* elements = reinterpret_cast<const unsigned short*>(row) + chunk * 8;
#pragma unroll
    for (int i = 0; i < 8; ++i)
      if (i < there) words[i / 2] |= static_cast<uint32>(elements[i]) << (i % 2 * 16);
    store_shared(to, uint4{words[0], words[1], words[2], words[3]});
  }

  FMS_DEVICE void load_queries(int row_count) {
    constexpr int pieces = Shape::rows * chunks;
    static_assert(pieces % threads == 0);
#pragma unroll
    for (int i = 0; i < pieces / threads; ++i) {
      const int piece = static_cast<int>(threadIdx.x) + i * threads;
      const int row = piece / chunks;
      const bool is_there = tile_first_ + row < row_count;
      copy_chunk<false>(shared_ + Rows::offset(row, piece % chunks),
                        query_side_row(p_.q, p_.q_strides, is_there ? tile_first_ + row : 0), piece % chunks, is_there);
    }
    commit_copies();
    wait_for_copies<0>();
    __syncthreads();
#pragma unroll
    for (int d = 0; d < Shape::dim / 16; ++d) {
      load_matrices(q_[d], shared_ + Rows::offset(warp_ * 16 + lane_ % 16, 2 * d + lane_ / 16));
#pragma unroll
      for (int i = 0; i < 4; ++i) q_[d][i] ^= p_.q_sign;
    }
    __syncthreads();
  }

  // A packed row of q or o.
  FMS_DEVICE const unsigned char* query_side_row(const void* base, const RowStrides& strides, int row) const {
    return row_at(base, strides, sequence_.q_batch, kv_head_ * p_.group + row % p_.group,
                  sequence_.q_begin + row / p_.group);
  }

  // ---- one block ---------------------------------------------------------------------------------------------------

  FMS_DEVICE void score(Scores& to, uint32 stage) const {
#pragma unroll
    for (int d = 0; d < Shape::dim / 16; ++d) {
#pragma unroll
      for (int n = 0; n < key_tiles; n += 2) {
        uint32 b[4];
        load_matrices(b, Rows::move_on(keys_at_, 2 * d) + stage + n * 8 * Rows::row_bytes);
        if (d == 0) {  // from zero, which costs no register
          mma_16x8x16<T>(to.s[n], q_[d], b[0], b[1]);
          mma_16x8x16<T>(to.s[n + 1], q_[d], b[2], b[3]);
        } else {
          mma_16x8x16<T>(to.s[n], q_[d], b[0], b[1], to.s[n]);
          mma_16x8x16<T>(to.s[n + 1], q_[d], b[2], b[3], to.s[n + 1]);
        }
      }
    }
  }

  FMS_DEVICE bool is_seen(int key, int h) const { return key >= seen_[h].lo && key < seen_[h].hi; }
  // The key of element i of tile n in block `block`.
  FMS_DEVICE int key_of(int block, int n, int i) const { return block * Shape::keys + n * 8 + lane_ % 4 * 2 + i % 2; }

  // Softcap and bias: scores become logits in units of log2.
  FMS_DEVICE void modify(Scores& scores, int block) const {
    const long long row_0 = bias_row(0), row_1 = bias_row(1);
#pragma unroll
    for (int n = 0; n < key_tiles; ++n)
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        float s = scores.s[n][i] * p_.scale;
        if (p_.softcap > 0.0f) s = p_.softcap * hyperbolic_tangent(s / p_.softcap);
        const int key = key_of(block, n, i);
        if (p_.bias != nullptr && is_seen(key, i / 2)) s += bias_at((i < 2 ? row_0 : row_1) + key * p_.bias_kv);
        scores.s[n][i] = s * log2_of_e;
      }
  }
  FMS_DEVICE long long bias_row(int h) const {
    const int row = min(tile_first_ + warp_ * 16 + lane_ / 4 + 8 * h, last_row_);
    return static_cast<int>(blockIdx.y) / p_.kv_heads * p_.bias_batch +
           (kv_head_ * p_.group + row % p_.group) * p_.bias_head + row / p_.group * p_.bias_q;
  }
  FMS_DEVICE float bias_at(long long index) const {
    switch (p_.bias_kind) {
      case 1:
        return to_float<Half>(static_cast<const unsigned short*>(p_.bias)[index]);
      case 2:
        return to_float<BFloat16>(static_cast<const unsigned short*>(p_.bias)[index]);
      default:
        return static_cast<const float*>(p_.bias)[index];
    }
  }

  FMS_DEVICE void mask(Scores& scores, int block) const {
#pragma unroll
    for (int n = 0; n < key_tiles; ++n)
#pragma unroll
      for (int i = 0; i < 4; ++i)
        if (!is_seen(key_of(block, n, i), i / 2)) scores.s[n][i] = minus_infinity;
  }

  FMS_DEVICE void softmax(Scores& scores) {
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      float block_top = top_[h];
#pragma unroll
      for (int n = 0; n < key_tiles; ++n)
        block_top = fmaxf(block_top, fmaxf(scores.s[n][2 * h], scores.s[n][2 * h + 1]));
      block_top = quad_max(block_top);
      const float offset = block_top * p_.scale_log2;
      const float fade = exp2_fast(top_[h] * p_.scale_log2 - offset);
      top_[h] = block_top;
      sum_[h] *= fade;
#pragma unroll
      for (int d = 0; d < dim_tiles; ++d) {
        o_[d][2 * h] *= fade;
        o_[d][2 * h + 1] *= fade;
      }
      float block_sum = 0.0f;
#pragma unroll
      for (int n = 0; n < key_tiles; ++n)
#pragma unroll
        for (int j = 0; j < 2; ++j) {
          float& s = scores.s[n][2 * h + j];
          s = exp2_fast(s * p_.scale_log2 - offset);
          block_sum += s;
        }
      sum_[h] += block_sum;
    }
  }

  FMS_DEVICE void weigh(const Scores& weights, uint32 stage) {
#pragma unroll
    for (int n = 0; n < key_tiles; n += 2) {
      const float(&w)[key_tiles][4] = weights.s;
      const uint32 a[4] = {pack<T>(w[n][0], w[n][1]), pack<T>(w[n][2], w[n][3]), pack<T>(w[n + 1][0], w[n + 1][1]),
                           pack<T>(w[n + 1][2], w[n + 1][3])};
#pragma unroll
      for (int d = 0; d < dim_tiles; d += 2) {
        uint32 b[4];
        load_matrices_transposed(b, Rows::move_on(values_at_, d) + stage + n * 8 * Rows::row_bytes);
        mma_16x8x16<T>(o_[d], a, b[0], b[1], o_[d]);
        mma_16x8x16<T>(o_[d + 1], a, b[2], b[3], o_[d + 1]);
      }
    }
  }

  // Keys that a row does not see have the weight 0, but 0 times NaN or infinity is NaN: in edge blocks such values need
  // care. Each thread looks at the chunks it copied itself; it has waited for them.
  FMS_DEVICE bool my_values_are_wild(uint32 stage) const {
    constexpr int pieces = Shape::keys * chunks;
    bool is_wild = false;
#pragma unroll
    for (int i = 0; i < (pieces + threads - 1) / threads; ++i) {
      const int piece = static_cast<int>(threadIdx.x) + i * threads;
      if (pieces % threads != 0 && piece >= pieces) break;
      const uint4 four = load_shared(shared_ + 2 * Shape::tile_bytes + stage + Rows::offset(piece / chunks, piece % chunks));
      is_wild |= wild_halves<T>(four.x) != 0 || wild_halves<T>(four.y) != 0 || wild_halves<T>(four.z) != 0 ||
                 wild_halves<T>(four.w) != 0;
    }
    return is_wild;
  }

  FMS_DEVICE void weigh_edge(const Scores& weights, int block, uint32 stage, bool has_wild_values) {
    if (!has_wild_values) {
      weigh(weights, stage);
      return;
    }
    // The finite values as ever; beside them, which rows see a value that is not: those get NaN.
#pragma unroll 1
    for (int n = 0; n < key_tiles; n += 2) {
      uint32 a[4], sees[4];
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int tile = n + i / 2, first = i % 2 * 2;
        a[i] = pack<T>(pick(weights, tile, first), pick(weights, tile, first + 1));
        sees[i] = pack<T>(is_seen(key_of(block, tile, first), i % 2) ? 1.0f : 0.0f,
                          is_seen(key_of(block, tile, first + 1), i % 2) ? 1.0f : 0.0f);
      }
#pragma unroll
      for (int d = 0; d < dim_tiles; d += 2) {
        uint32 b[4], wild[4];
        load_matrices_transposed(b, Rows::move_on(values_at_, d) + stage + n * 8 * Rows::row_bytes);
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          const uint32 halves = wild_halves<T>(b[i]);
          wild[i] = halves & pack<T>(1.0f, 1.0f);
          b[i] &= ~halves;
        }
        float met[2][4];
        mma_16x8x16<T>(o_[d], a, b[0], b[1], o_[d]);
        mma_16x8x16<T>(o_[d + 1], a, b[2], b[3], o_[d + 1]);
        mma_16x8x16<T>(met[0], sees, wild[0], wild[1]);
        mma_16x8x16<T>(met[1], sees, wild[2], wild[3]);
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          if (met[0][i] != 0.0f) o_[d][i] = __int_as_float(0x7fffffff);
          if (met[1][i] != 0.0f) o_[d + 1][i] = __int_as_float(0x7fffffff);
        }
      }
    }
  }
  // An element by a run-time tile number, without a copy of the fragments in local memory.
  FMS_DEVICE static float pick(const Scores& scores, int tile, int i) {
    float picked = 0.0f;
#pragma unroll
    for (int n = 0; n < key_tiles; ++n)
      if (n == tile) picked = scores.s[n][i];
    return picked;
  }

  // ---- all blocks --------------------------------------------------------------------------------------------------

  // `stage` is the place of block i, the other that of i + 1. Whole: so are the blocks i to i + 2.
  template <bool Whole>
  FMS_DEVICE void step(Scores& next, Scores& current, int block, uint32 stage, int end) {
    const uint32 other = Shape::tile_bytes - stage;
    wait_for_copies<0>();
    [[maybe_unused]] bool has_wild_values = false;
    if constexpr (Whole) {
      __syncthreads();
    } else {
      has_wild_values = __syncthreads_or(my_values_are_wild(stage));
    }
    if (Whole || block + 1 < end) copy_values<Whole>(block + 1, other);
    if (Whole || block + 2 < end) copy_keys<Whole>(block + 2, stage);
    commit_copies();
    score(next, other);
    if constexpr (Shape::is_modified) modify(next, block + 1);
    if constexpr (!Whole) mask(next, block + 1);
    softmax(current);
    if constexpr (Whole) {
      weigh(current, stage);
    } else {
      weigh_edge(current, block, stage, has_wild_values);
    }
  }

  FMS_DEVICE void walk(BlockRange blocks, BlockRange whole) {
    int block = blocks.begin;
    whole.end = min(whole.end, blocks.end);
    copy_keys<false>(block, 0);
    commit_copies();
    copy_values<false>(block, 0);
    if (block + 1 < blocks.end) copy_keys<false>(block + 1, Shape::tile_bytes);
    commit_copies();
    wait_for_copies<1>();
    __syncthreads();
    Scores current, next;
    score(current, 0);
    if constexpr (Shape::is_modified) modify(current, block);
    mask(current, block);
    uint32 stage = 0;
    while (block + 1 < blocks.end) {
      if (block >= whole.begin && stage == 0) {
        for (; block + 3 < whole.end; block += 2) {
          step<true>(next, current, block, 0, blocks.end);
          step<true>(current, next, block + 1, Shape::tile_bytes, blocks.end);
        }
      }
      step<false>(next, current, block, stage, blocks.end);
      current = next;
      ++block;
      stage = Shape::tile_bytes - stage;
    }
    wait_for_copies<0>();
    const bool has_wild_values = __syncthreads_or(my_values_are_wild(stage));
    softmax(current);
    weigh_edge(current, block, stage, has_wild_values);
  }

  // ---- rows --------------------------------------------------------------------------------------------------------

  FMS_DEVICE void begin_rows() {
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const int row = min(tile_first_ + warp_ * 16 + lane_ / 4 + 8 * h, last_row_);
      seen_[h] = {sequence_.first_key(row), sequence_.last_key(row)};
      // Below every score, yet its product with the scale is finite: a row that sees nothing needs no case of its own.
      top_[h] = -3e38f / fmaxf(p_.scale_log2, 1.0f);
      sum_[h] = 0.0f;
    }
#pragma unroll
    for (int d = 0; d < dim_tiles; ++d)
#pragma unroll
      for (int i = 0; i < 4; ++i) o_[d][i] = 0.0f;
  }

  // Results go through shared memory, so that a warp stores whole rows.
  FMS_DEVICE void finish(int row_count) {
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const int row_in_tile = warp_ * 16 + lane_ / 4 + 8 * h, row = tile_first_ + row_in_tile;
      const int head = kv_head_ * p_.group + row % p_.group;
      const bool sees_nothing = sum_[h] == 0.0f;
      float total = sum_[h], level = top_[h] * p_.scale_log2, fade = 1.0f;
      if (p_.sinks != nullptr && row < row_count) {
        const float sink = p_.sinks[head] * log2_of_e;
        if (sink != minus_infinity) {
          const float raised = sees_nothing ? sink : fmaxf(level, sink);
          fade = sees_nothing ? 0.0f : exp2_fast(level - raised);
          total = total * fade + exp2_fast(sink - raised);
          level = raised;
        }
      }
      const float factor = fade / total;
#pragma unroll
      for (int d = 0; d < dim_tiles; ++d) {
        const uint32 pair = sees_nothing ? 0u : pack<T>(o_[d][2 * h] * factor, o_[d][2 * h + 1] * factor);
        store_shared(shared_ + Rows::offset(row_in_tile, d) + lane_ % 4 * 4, pair);
      }
      if (p_.lse != nullptr && lane_ % 4 == 0 && row < row_count) {
        const float lse = total == 0.0f ? minus_infinity : (level + log2_fast(total)) * log_of_2;
        p_.lse[sequence_.q_batch * p_.lse_strides.batch + head * p_.lse_strides.head +
               (sequence_.q_begin + row / p_.group) * p_.lse_strides.row] = lse;
      }
    }
    __syncwarp();
#pragma unroll
    for (int i = 0; i < 16 * chunks / warp_lanes; ++i) {
      const int piece = lane_ + i * warp_lanes;
      const int row_in_tile = warp_ * 16 + piece / chunks, chunk = piece % chunks, row = tile_first_ + row_in_tile;
      const uint4 bytes = load_shared(shared_ + Rows::offset(row_in_tile, chunk));
      if (row < row_count) store_chunk(const_cast<unsigned char*>(query_side_row(p_.o, p_.o_strides, row)), chunk, bytes);
    }
  }
  FMS_DEVICE void store_chunk(unsigned char* row, int chunk, uint4 bytes) const {
    const int there = min(p_.head_dim - chunk * 8, 8);
    if (p_.is_aligned && there == 8) {
      *reinterpret_cast<uint4*>(row + chunk * 16) = bytes;
      return;
    }
    const uint32 words[4] = {bytes.x, bytes.y, bytes.z, bytes.w};
#pragma unroll
    for (int i = 0; i < 8; ++i)
      if (i < there)
        reinterpret_cast<unsigned short*>(row)[chunk * 8 + i] = static_cast<unsigned short>(words[i / 2] >> (i % 2 * 16));
  }

  // ---- splits ------------------------------------------------------------------------------------------------------

  // Every split leaves its state; the last CTA of a row tile to do so combines all of them, in their order. Returns
  // whether this is that one.
  FMS_DEVICE bool combine_splits() {
    constexpr int row_floats = Shape::dim + 2;
    const long long tile = static_cast<long long>(blockIdx.y) * gridDim.x + blockIdx.x;
    float* const states = p_.partial + tile * p_.splits * Shape::rows * row_floats;
    const auto row_of = [&](int split, int h) {
      return states + (static_cast<long long>(split) * Shape::rows + warp_ * 16 + lane_ / 4 + 8 * h) * row_floats;
    };
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      float* const row = row_of(static_cast<int>(blockIdx.z), h);
#pragma unroll
      for (int d = 0; d < dim_tiles; ++d)
        *reinterpret_cast<float2*>(row + d * 8 + lane_ % 4 * 2) = {o_[d][2 * h], o_[d][2 * h + 1]};
      if (lane_ % 4 == 0) *reinterpret_cast<float2*>(row + Shape::dim) = {top_[h], sum_[h]};
    }
    __threadfence();
    bool is_last = false;
    __syncthreads();
    if (threadIdx.x == 0) {
      is_last = atomicAdd(p_.arrived + tile, 1u) == static_cast<uint32>(p_.splits - 1);
      if (is_last) p_.arrived[tile] = 0;  // as the next launch wants to find it
    }
    if (!__syncthreads_or(is_last)) return false;
    __threadfence();
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      float top = row_of(0, h)[Shape::dim];
      for (int split = 1; split < p_.splits; ++split) top = fmaxf(top, row_of(split, h)[Shape::dim]);
      float sum = 0.0f;
#pragma unroll
      for (int d = 0; d < dim_tiles; ++d) o_[d][2 * h] = o_[d][2 * h + 1] = 0.0f;
      for (int split = 0; split < p_.splits; ++split) {
        const float* const row = row_of(split, h);
        const float2 state = *reinterpret_cast<const float2*>(row + Shape::dim);
        if (state.y == 0.0f) continue;  // saw nothing
        const float fade = exp2_fast(state.x * p_.scale_log2 - top * p_.scale_log2);
        sum += state.y * fade;
#pragma unroll
        for (int d = 0; d < dim_tiles; ++d) {
          const float2 pair = *reinterpret_cast<const float2*>(row + d * 8 + lane_ % 4 * 2);
          o_[d][2 * h] += pair.x * fade;
          o_[d][2 * h + 1] += pair.y * fade;
        }
      }
      top_[h] = top;
      sum_[h] = sum;
    }
    return true;
  }

  const ForwardParams& p_;
  const Sequence sequence_;
  const int kv_head_, lane_, warp_;
  const int tile_first_;         // row of the CTA
  int last_row_;
  uint32 shared_;                // two blocks of keys, then two of values
  uint32 keys_at_, values_at_;   // this lane's places in the first of each
  uint32 copy_to_;               // interior blocks: what this thread copies first
  const unsigned char *k_, *v_;  // and from where
  KeyRange seen_[2];                     // of the lane's rows
  uint32 q_[Shape::dim / 16][4];
  float o_[dim_tiles][4];
  float top_[2], sum_[2];
};

}  // namespace flashmoe::cuda
