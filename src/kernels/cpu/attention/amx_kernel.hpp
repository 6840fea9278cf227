// Attention with AMX tiles, 32 query rows and 32 keys at a time, scores transposed:
//
//   S^T (32 keys, 32 rows) = K (keys, D) x Q^T (D, rows)       2 x 2 accumulator tiles
//   P^T = exp2(S^T * scale - max), packed as bf16 pairs of keys, which is exactly the B operand of the second product
//   O^T (D, rows) += V^T (D, keys) x P^T (keys, rows)          2 x 2 accumulator tiles per 32 dims
//
// fp16 values are high + low bf16 parts; the products high*high, high*low and low*high leave out only low*low, which
// is below 2^-16 of the factors. The weights are split the same way.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "kernels/cpu/attention/amx_pack.hpp"
#include "kernels/cpu/attention/amx_tiles.hpp"
#include "kernels/cpu/attention/finish.hpp"

namespace flashmoe::cpu {
namespace {

// Where the packed keys of the current head are, and which of them are there.
struct PackedHead {
  std::byte* chunks = nullptr;
  uint8_t* flags = nullptr;  // ChunkFlag bits per slot
  int64_t batch = -1;
  int64_t kv_head = -1;
  int64_t first_chunk = 0;  // chunks [first_chunk, last_chunk) are packed
  int64_t last_chunk = 0;
};

// 32 query rows and the keys they see.
struct Subtile {
  int64_t index;
  int64_t first_row, last_row;
  KeyRange seen;     // by any of the rows
  KeyRange all_see;  // by all of them: bounds grow with the row
};

inline Subtile make_subtile(const Head& h, int64_t item_row, int64_t item_last_row, int64_t index, int64_t lanes) {
  Subtile t;
  t.index = index;
  t.first_row = item_row + index * lanes;
  t.last_row = smaller(t.first_row + lanes, item_last_row);
  t.seen = visible_hull(h, t.first_row, t.last_row);
  t.all_see = {visible_keys(h, (t.last_row - 1) / h.group).lo, visible_keys(h, t.first_row / h.group).hi};
  return t;
}

template <class T>
class AmxKernel {
  using V = Avx512;
  using F = __m512;
  static constexpr int vectors = 2;
  static constexpr int64_t lanes = 32;
  static_assert(lanes == plan::cpu_tile_policy(FMS_ISA_AMX).lanes, "the workspace is laid out for these");
  static constexpr int parts = amx_parts_of<T>;
  static constexpr int64_t tile_bytes = plan::amx_tile_bytes;
  static constexpr int64_t chunk_keys = plan::amx_chunk_keys;
  static constexpr int64_t max_subtiles = plan::max_forced_q_tile / lanes;

 public:
  AmxKernel(const fms_attention_plan& plan, const plan::CpuLayout& layout, std::byte* workspace, int64_t thread)
      : plan_(plan),
        layout_(layout),
        workspace_(workspace),
        mine_(workspace + static_cast<std::size_t>(thread) * layout.thread_bytes),
        scale_(plan.problem),
        dim_tiles_(layout.padded_dim / 32),
        chunk_bytes_(plan::amx_chunk_bytes(plan.problem)) {
    packed_.chunks = mine_ + layout.pack;
    packed_.flags = at<uint8_t>(layout.pack_flags, 0);
  }

  // Keys are taken in blocks that stay in L2 while every subtile passes over them; within a block a subtile's queries
  // and accumulators stay in L1 while the keys stream by.
  void run_item(const Head& h, int64_t first_row, int64_t last_row, int64_t split) {
    const KeyRange keys = split_keys(visible_hull(h, first_row, last_row), split, plan_.kv_splits);
    const int64_t subtiles = (last_row - first_row + lanes - 1) / lanes;
    for (int64_t i = 0; i < subtiles; ++i) begin_subtile(h, make_subtile(h, first_row, last_row, i, lanes));
    const int64_t block_keys = layout_.block_keys;
    for (int64_t from = keys.lo / block_keys * block_keys; from < keys.hi; from += block_keys) {
      const KeyRange block{larger(from, keys.lo), smaller(from + block_keys, keys.hi)};
      ensure_packed(h, block);
      for (int64_t i = 0; i < subtiles; ++i) run_subtile(h, make_subtile(h, first_row, last_row, i, lanes), block);
    }
    for (int64_t i = 0; i < subtiles; ++i) end_subtile(h, make_subtile(h, first_row, last_row, i, lanes), split);
  }

 private:
  template <class E>
  E* at(std::size_t offset, int64_t index) const {
    return reinterpret_cast<E*>(mine_ + offset) + index;
  }
  // Q tiles of a subtile: [part][dim / 32][row half].
  std::byte* queries(int64_t t) const { return at<std::byte>(layout_.q, t * parts * dim_tiles_ * 2 * tile_bytes); }
  float* outputs(int64_t t) const { return at<float>(layout_.o, t * layout_.padded_dim * lanes); }

  // ---- packing ----

  int64_t slot(int64_t chunk) const { return chunk % layout_.pack_chunks; }
  const std::byte* k_tiles(int64_t chunk) const { return packed_.chunks + slot(chunk) * chunk_bytes_; }
  const std::byte* v_tiles(int64_t chunk) const { return k_tiles(chunk) + parts * 2 * dim_tiles_ * tile_bytes; }

  void pack_chunk(const Head& h, int64_t chunk) {
    const ChunkPacker<T> packer(h, plan_.problem.head_dim, layout_.padded_dim);
    packed_.flags[slot(chunk)] = packer.pack(chunk * chunk_keys, packed_.chunks + slot(chunk) * chunk_bytes_);
  }

  // Packs what the block needs and is not there yet. Items of a head come in order, so the packed range only grows at
  // its end, or starts anew; the buffer is a ring when it is smaller than the head.
  void ensure_packed(const Head& h, KeyRange block) {
    const int64_t first = block.lo / chunk_keys;
    const int64_t last = (block.hi + chunk_keys - 1) / chunk_keys;
    const bool same_head = packed_.batch == h.batch && packed_.kv_head == h.kv_head;
    if (!same_head || first < packed_.first_chunk || first > packed_.last_chunk) {
      packed_.batch = h.batch;
      packed_.kv_head = h.kv_head;
      packed_.first_chunk = packed_.last_chunk = first;
    }
    for (; packed_.last_chunk < last; ++packed_.last_chunk) pack_chunk(h, packed_.last_chunk);
    packed_.first_chunk = larger(packed_.first_chunk, packed_.last_chunk - layout_.pack_chunks);
  }

  // ---- one subtile: 32 query rows ----

  RowState<V, vectors> load_state(int64_t t) const {
    RowState<V, vectors> state;
    for (int v = 0; v < vectors; ++v) {
      state.row_max[v] = _mm512_load_ps(at<float>(layout_.row_max, t * lanes + v * 16));
      state.row_sum[v] = _mm512_load_ps(at<float>(layout_.row_sum, t * lanes + v * 16));
    }
    return state;
  }

  void store_state(int64_t t, const RowState<V, vectors>& state) const {
    for (int v = 0; v < vectors; ++v) {
      _mm512_store_ps(at<float>(layout_.row_max, t * lanes + v * 16), state.row_max[v]);
      _mm512_store_ps(at<float>(layout_.row_sum, t * lanes + v * 16), state.row_sum[v]);
    }
  }

  void begin_subtile(const Head& h, const Subtile& t) {
    bool non_finite = false;
    for (int64_t half = 0; half < 2; ++half) {
      const T* rows[16];
      for (int64_t r = 0; r < 16; ++r) {
        const int64_t row = t.first_row + half * 16 + r;
        const bool used = row < t.last_row;
        rows[r] = used ? q_row<T>(h, row) : nullptr;
        const KeyRange seen = used ? visible_keys(h, row / h.group) : KeyRange{0, 0};
        *at<int32_t>(layout_.key_lo, t.index * lanes + half * 16 + r) = static_cast<int32_t>(seen.lo);
        *at<int32_t>(layout_.key_hi, t.index * lanes + half * 16 + r) = static_cast<int32_t>(seen.hi);
      }
      non_finite |= pack_queries<T>(rows, plan_.problem.head_dim, dim_tiles_, scale_.q_factor < 0,
                                    queries(t.index) + half * tile_bytes, dim_tiles_ * 2 * tile_bytes, 2 * tile_bytes);
    }
    queries_non_finite_[t.index] = non_finite;
    RowState<V, vectors> state;
    for (int v = 0; v < vectors; ++v) {
      state.row_max[v] = V::set1(-__builtin_inff());
      state.row_sum[v] = V::zero();
    }
    store_state(t.index, state);
    std::memset(outputs(t.index), 0, static_cast<std::size_t>(layout_.padded_dim * lanes) * sizeof(float));
  }

  void run_subtile(const Head& h, const Subtile& t, KeyRange block) {
    const KeyRange keys{larger(block.lo, t.seen.lo), smaller(block.hi, t.seen.hi)};
    if (keys.lo >= keys.hi) return;
    RowState<V, vectors> state = load_state(t.index);
    for (int64_t step = keys.lo / plan_.kv_tile * plan_.kv_tile; step < keys.hi; step += plan_.kv_tile) {
      run_step(h, t, {larger(step, keys.lo), smaller<int64_t>(step + plan_.kv_tile, keys.hi)}, state);
    }
    store_state(t.index, state);
  }

  void run_step(const Head& h, const Subtile& t, KeyRange keys, RowState<V, vectors>& state) {
    const int64_t first_chunk = keys.lo / chunk_keys;
    const int64_t chunks = (keys.hi + chunk_keys - 1) / chunk_keys - first_chunk;
    const int64_t first_key = first_chunk * chunk_keys;
    const int64_t n = chunks * chunk_keys;
    float* scores = at<float>(layout_.scores, 0);
    compute_scores(queries(t.index), first_chunk, chunks, scores);
    for (int64_t c = 0; c < chunks; ++c) {
      const bool finite = (packed_.flags[slot(first_chunk + c)] & keys_non_finite) == 0;
      if (finite && !queries_non_finite_[t.index]) continue;
      rescore_chunk(h, t, (first_chunk + c) * chunk_keys, scores + c * chunk_keys * lanes);
    }

    float scale = scale_.to_log2;
    if (modifies_scores(plan_.problem)) {
      modify_scores<V, vectors>(h, t.first_row, t.last_row, scores, first_key, smaller(n, h.kv_len - first_key), scale);
      scale = 1.0F;
    }
    const int32_t* key_lo = at<int32_t>(layout_.key_lo, t.index * lanes);
    const int32_t* key_hi = at<int32_t>(layout_.key_hi, t.index * lanes);
    // A split begins and ends with a chunk, so only the rows' own bounds can cut one.
    if (first_key < t.all_see.lo) {
      mask_scores<V, vectors>(scores, first_key, smaller(n, t.all_see.lo - first_key), key_lo, key_hi);
    }
    if (first_key + n > t.all_see.hi) {
      const int64_t skip = larger<int64_t>(0, t.all_see.hi - first_key);
      mask_scores<V, vectors>(scores + skip * lanes, first_key + skip, n - skip, key_lo, key_hi);
    }

    float* o = outputs(t.index);
    if (!weigh_under_old_maxima(scores, n, scale, state)) {
      F offset[vectors];
      raise_maxima<V, vectors>(scores, n, scale, state, offset, o, layout_.padded_dim);
      weigh(scores, n, scale, offset, state.row_sum);
    }
    accumulate(first_chunk, chunks, o);
    for (int64_t c = first_chunk; c < first_chunk + chunks; ++c) {
      if ((packed_.flags[slot(c)] & values_non_finite) == 0) continue;
      add_non_finite<V>(v_rows<T>(h), plan_.problem.head_dim, larger(keys.lo, c * chunk_keys),
                        smaller(keys.hi, (c + 1) * chunk_keys), key_lo, key_hi, lanes, o);
    }
  }

  // An infinity times the high and the low part of the other factor may come out as inf - inf, and times a denormal,
  // which tiles take for 0, as NaN. Where a key or a query is not finite, the dot product is taken again from the
  // values themselves; all others keep theirs to the bit.
  void rescore_chunk(const Head& h, const Subtile& t, int64_t first_key, float* scores) const {
    const KvRows<T> keys = k_rows<T>(h);
    const int64_t dim = plan_.problem.head_dim;
    for (int64_t j = 0; j < smaller(chunk_keys, h.kv_len - first_key); ++j) {
      const T* k = keys[first_key + j];
      const bool key_is_finite = dot(k, nullptr, dim) == 0.0F;
      for (int64_t row = t.first_row; row < t.last_row; ++row) {
        const T* q = q_row<T>(h, row);
        if (key_is_finite && dot(q, nullptr, dim) == 0.0F) continue;
        scores[j * lanes + row - t.first_row] = dot(k, q, dim) * scale_.q_factor;
      }
    }
  }

  // In fp32; with null for b, against zeros: 0 exactly when a is finite, else NaN.
  static float dot(const T* a, const T* b, int64_t dim) {
    F sum = V::zero();
    for (int64_t d = 0; d < dim; d += V::width) {
      const auto n = static_cast<int>(smaller<int64_t>(V::width, dim - d));
      const auto load = [&](const T* p) { return n == V::width ? V::load_as(p + d) : V::load_as(p + d, n); };
      sum = V::fma(load(a), b == nullptr ? V::zero() : load(b), sum);
    }
    return V::sum(sum);
  }

  // scores (chunks * 32, 32).
  void compute_scores(const std::byte* q, int64_t first_chunk, int64_t chunks, float* scores) const {
    constexpr int64_t chunk_floats = chunk_keys * lanes;
    if constexpr (parts == 1) {
      if (dim_tiles_ == 2) {
        // All four Q tiles fit beside two accumulators and two K tiles: half as many tile loads per product.
        tile_load<4>(q, 64);
        tile_load<5>(q + tile_bytes, 64);
        tile_load<6>(q + 2 * tile_bytes, 64);
        tile_load<7>(q + 3 * tile_bytes, 64);
        for (int64_t c = 0; c < chunks; ++c) score_chunk_resident(k_tiles(first_chunk + c), scores + c * chunk_floats);
        return;
      }
    }
    for (int64_t c = 0; c < chunks; ++c) score_chunk(q, k_tiles(first_chunk + c), scores + c * chunk_floats);
  }

  // head_dim 33 to 64 in one part, Q tiles [dim / 32][row half] in 4-7. Tiles 0-1 accumulate [row half], 2-3 hold K.
  inline __attribute__((always_inline)) static void score_chunk_resident(const std::byte* k, float* scores) {
    constexpr int64_t row_bytes = lanes * 4;
    for (int half = 0; half < 2; ++half, k += 2 * tile_bytes, scores += 16 * lanes) {
      tile_zero<0>();
      tile_zero<1>();
      tile_load<2>(k, 64);
      tile_multiply<0, 2, 4>();
      tile_multiply<1, 2, 5>();
      tile_load<3>(k + tile_bytes, 64);
      tile_multiply<0, 3, 6>();
      tile_multiply<1, 3, 7>();
      tile_store<0>(scores, row_bytes);
      tile_store<1>(scores + 16, row_bytes);
    }
  }

  // scores (32, 32) of one chunk. Tiles 0-3 accumulate [key half][row half], 4-5 hold K halves, 6-7 Q halves.
  inline __attribute__((always_inline)) void score_chunk(const std::byte* q, const std::byte* k, float* scores) const {
    tile_zero<0>();
    tile_zero<1>();
    tile_zero<2>();
    tile_zero<3>();
    const int64_t k_half = dim_tiles_ * tile_bytes;
    const int64_t k_part = 2 * k_half;
    const int64_t q_part = dim_tiles_ * 2 * tile_bytes;
    for (int64_t c = 0; c < dim_tiles_; ++c) {
      const std::byte* kc = k + c * tile_bytes;
      const std::byte* qc = q + c * 2 * tile_bytes;
      if constexpr (parts == 2) {  // small products first: low K x high Q, then high x high, then high K x low Q
        tile_load<4>(kc + k_part, 64);
        tile_load<6>(qc, 64);
        tile_multiply<0, 4, 6>();
        tile_load<5>(kc + k_part + k_half, 64);
        tile_multiply<2, 5, 6>();
        tile_load<7>(qc + tile_bytes, 64);
        tile_multiply<1, 4, 7>();
        tile_multiply<3, 5, 7>();
        tile_load<4>(kc, 64);
        tile_multiply<0, 4, 6>();
        tile_multiply<1, 4, 7>();
        tile_load<5>(kc + k_half, 64);
        tile_multiply<2, 5, 6>();
        tile_multiply<3, 5, 7>();
        tile_load<6>(qc + q_part, 64);
        tile_multiply<0, 4, 6>();
        tile_multiply<2, 5, 6>();
        tile_load<7>(qc + q_part + tile_bytes, 64);
        tile_multiply<1, 4, 7>();
        tile_multiply<3, 5, 7>();
      } else {
        tile_load<4>(kc, 64);
        tile_load<6>(qc, 64);
        tile_multiply<0, 4, 6>();
        tile_load<5>(kc + k_half, 64);
        tile_multiply<2, 5, 6>();
        tile_load<7>(qc + tile_bytes, 64);
        tile_multiply<1, 4, 7>();
        tile_multiply<3, 5, 7>();
      }
    }
    constexpr int64_t row_bytes = lanes * 4;
    tile_store<0>(scores, row_bytes);
    tile_store<1>(scores + 16, row_bytes);
    tile_store<2>(scores + 16 * lanes, row_bytes);
    tile_store<3>(scores + 16 * lanes + 16, row_bytes);
  }

  // Weights of one key pair, rounded to bf16 and interleaved. They are far from overflow, so adding half an ulp is
  // safe; ties go away from zero, which costs nothing measurable and saves the even-odd correction.
  static __m512i pack_rounded(F even_key, F odd_key) {
    const __m512i half = _mm512_set1_epi32(0x8000);
    const __m512i low = _mm512_srli_epi32(_mm512_add_epi32(_mm512_castps_si512(even_key), half), 16);
    const __m512i high = _mm512_add_epi32(_mm512_castps_si512(odd_key), half);
    return merge_halves(low, high);
  }
  // The upper 16 bits of both, truncated; what is cut off is the low part.
  static __m512i pack_truncated(F even_key, F odd_key) {
    return merge_halves(_mm512_srli_epi32(_mm512_castps_si512(even_key), 16), _mm512_castps_si512(odd_key));
  }
  static __m512i merge_halves(__m512i low, __m512i high) {  // low | (high & 0xffff0000)
    return _mm512_ternarylogic_epi32(low, high, _mm512_set1_epi32(static_cast<int>(0xffff0000U)), 0xf8);
  }
  static F truncated_rest(F x) {
    const __m512i kept = _mm512_and_si512(_mm512_castps_si512(x), _mm512_set1_epi32(static_cast<int>(0xffff0000U)));
    return _mm512_sub_ps(x, _mm512_castsi512_ps(kept));
  }

  // P tiles of a step: [chunk][part][row half].
  std::byte* weights(int64_t chunk) const { return at<std::byte>(layout_.weights, chunk * parts * 2 * tile_bytes); }

  // Most steps do not need a new maximum. A weight is a floating-point number, so relative to an older, smaller maximum
  // it is just as exact as long as nothing comes near overflow: the pass over the scores that finds their maximum, and
  // the rescaling, happen only when a weight would exceed 2^8, which leaves large values their range. Returns whether
  // the weights are done.
  bool weigh_under_old_maxima(const float* scores, int64_t n, float scale, RowState<V, vectors>& state) const {
    const F none = V::set1(-__builtin_inff());
    for (int v = 0; v < vectors; ++v) {
      // A row that has seen no finite score has no maximum to go by.
      if (!V::all_greater(state.row_max[v], none)) return false;
    }
    F sums[vectors] = {state.row_sum[0], state.row_sum[1]};
    const F highest = weigh(scores, n, scale, state.row_max, sums);
    if (V::any_greater(highest, V::set1(8.0F))) return false;
    for (int v = 0; v < vectors; ++v) state.row_sum[v] = sums[v];
    return true;
  }

  // Scores become weights in bf16 tiles and join the sums. Returns the highest exponents.
  F weigh(const float* scores, int64_t n, float scale, const F (&offset)[vectors], F (&row_sum)[vectors]) const {
    const F multiplier = V::set1(scale);
    // Locals, because the stores of P might alias what the arguments refer to.
    const F subtrahend[vectors] = {offset[0], offset[1]};
    F even_sum[vectors] = {row_sum[0], row_sum[1]};
    F odd_sum[vectors] = {V::zero(), V::zero()};
    F highest[2] = {V::set1(-__builtin_inff()), V::set1(-__builtin_inff())};
    std::byte* chunk = weights(0);
    for (int64_t c = 0; c < n; c += chunk_keys, chunk += parts * 2 * tile_bytes) {
      for (int64_t j = 0; j < chunk_keys; j += 2) {
        std::byte* to = chunk + j / 2 * 64;
        for (int v = 0; v < vectors; ++v) {
          const float* s = scores + (c + j) * lanes + v * 16;
          const F even_exponent = V::fms(_mm512_load_ps(s), multiplier, subtrahend[v]);
          const F odd_exponent = V::fms(_mm512_load_ps(s + lanes), multiplier, subtrahend[v]);
          highest[0] = V::max(even_exponent, highest[0]);
          highest[1] = V::max(odd_exponent, highest[1]);
          const F even = V::exp2<weight_degree<T>>(even_exponent);
          const F odd = V::exp2<weight_degree<T>>(odd_exponent);
          even_sum[v] = V::add(even_sum[v], even);
          odd_sum[v] = V::add(odd_sum[v], odd);
          if constexpr (parts == 1) {
            _mm512_store_si512(to + v * tile_bytes, pack_rounded(even, odd));
          } else {
            _mm512_store_si512(to + v * tile_bytes, pack_truncated(even, odd));
            _mm512_store_si512(to + (2 + v) * tile_bytes, pack_rounded(truncated_rest(even), truncated_rest(odd)));
          }
        }
      }
    }
    for (int v = 0; v < vectors; ++v) row_sum[v] = V::add(even_sum[v], odd_sum[v]);
    return V::max(highest[0], highest[1]);
  }

  // o (dim, 32) += V^T (dim, keys) x P^T (keys, 32). Tiles 0-3 accumulate [dim half][row half], 4-5 hold V, 6-7 P.
  void accumulate(int64_t first_chunk, int64_t chunks, float* o) const {
    constexpr int64_t row_bytes = lanes * 4;
    const int64_t v_part = 2 * dim_tiles_ * tile_bytes;
    for (int64_t d = 0; d < dim_tiles_; ++d) {
      float* at_dim = o + d * 32 * lanes;
      tile_load<0>(at_dim, row_bytes);
      tile_load<1>(at_dim + 16, row_bytes);
      tile_load<2>(at_dim + 16 * lanes, row_bytes);
      tile_load<3>(at_dim + 16 * lanes + 16, row_bytes);
      for (int64_t c = 0; c < chunks; ++c) {
        const std::byte* v = v_tiles(first_chunk + c) + 2 * d * tile_bytes;
        const std::byte* p = weights(c);
        if constexpr (parts == 2) {
          tile_load<4>(v + v_part, 64);
          tile_load<6>(p, 64);
          tile_multiply<0, 4, 6>();
          tile_load<5>(v + v_part + tile_bytes, 64);
          tile_multiply<2, 5, 6>();
          tile_load<7>(p + tile_bytes, 64);
          tile_multiply<1, 4, 7>();
          tile_multiply<3, 5, 7>();
          tile_load<4>(v, 64);
          tile_multiply<0, 4, 6>();
          tile_multiply<1, 4, 7>();
          tile_load<5>(v + tile_bytes, 64);
          tile_multiply<2, 5, 6>();
          tile_multiply<3, 5, 7>();
          tile_load<6>(p + 2 * tile_bytes, 64);
          tile_multiply<0, 4, 6>();
          tile_multiply<2, 5, 6>();
          tile_load<7>(p + 3 * tile_bytes, 64);
          tile_multiply<1, 4, 7>();
          tile_multiply<3, 5, 7>();
        } else {
          tile_load<4>(v, 64);
          tile_load<6>(p, 64);
          tile_multiply<0, 4, 6>();
          tile_load<5>(v + tile_bytes, 64);
          tile_multiply<2, 5, 6>();
          tile_load<7>(p + tile_bytes, 64);
          tile_multiply<1, 4, 7>();
          tile_multiply<3, 5, 7>();
        }
      }
      tile_store<0>(at_dim, row_bytes);
      tile_store<1>(at_dim + 16, row_bytes);
      tile_store<2>(at_dim + 16 * lanes, row_bytes);
      tile_store<3>(at_dim + 16 * lanes + 16, row_bytes);
    }
  }

  void end_subtile(const Head& h, const Subtile& t, int64_t split) {
    const RowState<V, vectors> state = load_state(t.index);
    if (plan_.kv_splits == 1) {
      store_lanes<V, vectors, T>(h, t.first_row, t.last_row, state, outputs(t.index));
    } else {
      store_partial_lanes<V, vectors>(plan_, layout_, workspace_, h, t.first_row, t.last_row, split, state,
                                      outputs(t.index));
    }
  }

  const fms_attention_plan& plan_;
  const plan::CpuLayout& layout_;
  std::byte* workspace_;
  std::byte* mine_;
  ScoreScale scale_;
  int64_t dim_tiles_;
  int64_t chunk_bytes_;
  PackedHead packed_;
  bool queries_non_finite_[max_subtiles] = {};
};

}  // namespace
}  // namespace flashmoe::cpu
