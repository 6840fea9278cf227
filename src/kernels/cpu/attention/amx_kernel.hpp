// Attention with AMX tiles, 32 query rows and 32 keys at a time, scores transposed:
//
//   S^T (32 keys, 32 rows) = K (keys, D) x Q^T (D, rows)       2 x 2 accumulator tiles
//   P^T = exp2(S^T * scale - max), packed as bf16 pairs of keys, which is exactly the B operand of the second product
//   O^T (D, rows) += V^T (D, keys) x P^T (keys, rows)          2 x 2 accumulator tiles per 32 dims
//
// fp16 values are high + low bf16 parts. The products high*high, high*low and low*high leave out low*low, which is
// below 2^-16 of the factors: too much where scores are large. So norms of the low parts are taken while packing, and
// where their product, by Cauchy and Schwarz, does not rule out a difference that shows, low*low is computed too. The
// weights are split the same way; they have a sum, and what is left out of them never shows.
// fp32 values are three bf16 parts, of which six products are taken: what the other three would add is below 2^-24 of
// the factors, the rounding of fp32 itself.
//
// Steps form a pipeline: while the scores of one step become weights, tiles compute the scores of the next step and add
// the values of the one before (amx_work.hpp).
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "kernels/cpu/attention/amx_pack.hpp"
#include "kernels/cpu/attention/amx_tiles.hpp"
#include "kernels/cpu/attention/amx_work.hpp"
#include "kernels/cpu/attention/finish.hpp"

namespace flashmoe::cpu {
namespace {

// 32 query rows and the keys they see.
struct Subtile {
  int64_t index;
  int64_t first_row, last_row;
  KeyRange seen;     // by any of the rows
  KeyRange all_see;  // by all of them
};

inline Subtile make_subtile(const Head& h, int64_t item_row, int64_t item_last_row, int64_t index, int64_t lanes) {
  Subtile t;
  t.index = index;
  t.first_row = item_row + index * lanes;
  t.last_row = smaller(t.first_row + lanes, item_last_row);
  t.seen = visible_hull(h, t.first_row, t.last_row);
  t.all_see = seen_by_all(h, t.first_row, t.last_row);
  return t;
}

// What the scores may lack of low x low, of the 1e-4 that the log-sum-exp may be off.
inline constexpr float most_left_out = 9e-5F;

// A row's weights may exceed 1 by this power of two before its maximum is raised.
inline constexpr float weight_slack = 8.0F;

template <class T>
class AmxKernel {
  using V = Avx512;
  using F = __m512;
  static constexpr int vectors = 2;
  static constexpr int64_t lanes = 32;
  static_assert(lanes == plan::cpu_tile_policy(FMS_ISA_AMX).lanes, "the workspace is laid out for these");
  static_assert(plan::cpu_tile_policy(FMS_ISA_AMX).kv_tile <= 64 * plan::amx_chunk_keys,
                "a step's chunks have a bit each");
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
        value_tiles_(layout.padded_value_dim / 32),
        packed_{mine_ + layout.pack, layout.pack_chunks, plan::amx_chunk_bytes(plan.problem),
                parts * 2 * dim_tiles_ * tile_bytes},
        packed_flags_(at<uint8_t>(layout.pack_flags, 0)),
        packed_low_squares_(at<float>(layout.pack_low_squares, 0)) {}

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
      run_block(h, first_row, last_row, block);
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
  float* outputs(int64_t t) const { return at<float>(layout_.o, t * layout_.padded_value_dim * lanes); }

  // ---- packing ----

  void pack_chunk(const Head& h, int64_t chunk) {
    const ChunkPacker<T> packer(h);
    const int64_t slot = packed_.slot(chunk);
    packed_flags_[slot] = packer.pack(chunk * chunk_keys, packed_.keys_at(slot), packed_low_squares_[slot]);
  }

  // Packs what the block needs and is not there yet. Items of a head come in order, so the packed range only grows at
  // its end, or starts anew; the buffer is a ring when it is smaller than the head.
  void ensure_packed(const Head& h, KeyRange block) {
    const int64_t first = block.lo / chunk_keys;
    const int64_t last = (block.hi + chunk_keys - 1) / chunk_keys;
    const bool same_head = packed_batch_ == h.batch && packed_kv_head_ == h.kv_head;
    if (!same_head || first < first_packed_ || first > last_packed_) {
      packed_batch_ = h.batch;
      packed_kv_head_ = h.kv_head;
      first_packed_ = last_packed_ = first;
    }
    for (; last_packed_ < last; ++last_packed_) pack_chunk(h, last_packed_);
    first_packed_ = larger(first_packed_, last_packed_ - layout_.pack_chunks);
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
    uint32_t wild = 0;
    __m512i low_squares = _mm512_setzero_si512();
    for (int64_t half = 0; half < 2; ++half) {
      const T* rows[16];
      for (int64_t r = 0; r < 16; ++r) {
        const int64_t row = t.first_row + half * 16 + r;
        const bool used = row < t.last_row;
        rows[r] = used ? q_row<T>(h, row) : nullptr;
        // Lanes without a row see everything: scores of 0 keep their maximum finite, and nobody reads the result.
        const KeyRange seen = used ? visible_keys(h, h.position_of(row)) : KeyRange{0, INT32_MAX};
        *at<int32_t>(layout_.key_lo, t.index * lanes + half * 16 + r) = static_cast<int32_t>(seen.lo);
        *at<int32_t>(layout_.key_hi, t.index * lanes + half * 16 + r) = static_cast<int32_t>(seen.hi);
      }
      const RowWatch<T> watch =
          pack_queries<T>(rows, plan_.problem.head_dim, dim_tiles_, scale_.q_factor < 0,
                          queries(t.index) + half * tile_bytes, dim_tiles_ * 2 * tile_bytes, 2 * tile_bytes);
      if (watch.saw_wild()) {
        for (int64_t r = 0; r < 16; ++r) {
          if (rows[r] != nullptr && is_wild(rows[r], plan_.problem.head_dim)) wild |= uint32_t{1} << (half * 16 + r);
        }
      }
      low_squares = _mm512_max_epu32(low_squares, watch.squares_of_finite_rows());
    }
    wild_queries_[t.index] = wild;
    if constexpr (parts == 2) {
      const float squares = std::bit_cast<float>(_mm512_reduce_max_epu32(low_squares));
      const float scale = plan_.problem.softmax_scale;
      most_low_squares_[t.index] = most_left_out * most_left_out / (scale * scale * squares);
    }
    RowState<V, vectors> state;
    for (int v = 0; v < vectors; ++v) {
      state.row_max[v] = V::set1(-__builtin_inff());
      state.row_sum[v] = V::zero();
    }
    store_state(t.index, state);
    std::memset(outputs(t.index), 0, static_cast<std::size_t>(layout_.padded_value_dim * lanes) * sizeof(float));
  }

  // ---- one block of keys ----

  // One subtile's pass over plan.kv_tile keys.
  struct Step {
    Subtile tile;
    KeyRange keys;            // empty: there is none
    bool mask_hides = false;  // one of them from one of the rows
    int64_t first_chunk() const { return keys.lo / chunk_keys; }
    int64_t chunks() const { return (keys.hi + chunk_keys - 1) / chunk_keys - first_chunk(); }
    bool exists() const { return keys.lo < keys.hi; }
  };

  Step first_step(const Head& h, int64_t first_row, int64_t last_row, int64_t subtile, KeyRange block) const {
    for (; first_row + subtile * lanes < last_row; ++subtile) {
      const Subtile t = make_subtile(h, first_row, last_row, subtile, lanes);
      const Step step = step_from(h, t, larger(block.lo, t.seen.lo), block);
      if (step.exists()) return step;
    }
    return {};
  }

  Step next_step(const Head& h, int64_t first_row, int64_t last_row, const Step& step, KeyRange block) const {
    const Step next = step_from(h, step.tile, step.keys.hi, block);
    return next.exists() ? next : first_step(h, first_row, last_row, step.tile.index + 1, block);
  }

  // A subtile's first step from a key on, without chunks at its ends that a mask hides altogether.
  Step step_from(const Head& h, const Subtile& t, int64_t key, KeyRange block) const {
    for (const int64_t hi = smaller(block.hi, t.seen.hi); key < hi; key = end_of_tile(key)) {
      const KeyRange keys{key, smaller(end_of_tile(key), hi)};
      const MaskedKeys masked = masked_keys<V>(h, t.first_row, t.last_row, keys);
      if (masked.seen.lo >= masked.seen.hi) continue;
      const int64_t lo = larger(keys.lo, masked.seen.lo / chunk_keys * chunk_keys);
      const int64_t end = smaller(keys.hi, plan::round_up(masked.seen.hi, chunk_keys));
      return {t, {lo, end}, masked.hides || lo != masked.seen.lo || end != masked.seen.hi};
    }
    return {};
  }

  int64_t end_of_tile(int64_t key) const { return (key / plan_.kv_tile + 1) * plan_.kv_tile; }

  void run_block(const Head& h, int64_t first_row, int64_t last_row, KeyRange block) {
    Step step = first_step(h, first_row, last_row, 0, block);
    if (!step.exists()) return;
    int buffer = 0;
    with_work(score_work(h, step, buffer), {}, [](auto&& work) { work.run_all(); });
    ValueWork values;  // of the step before
    int64_t values_of = -1;
    while (step.exists()) {
      const Step next = next_step(h, first_row, last_row, step, block);
      with_work(score_work(h, next, 1 - buffer), values, [&](auto&& beside) {
        // Before maxima rescale outputs.
        if (values_of == step.tile.index && !has_maxima(step.tile)) beside.run_all();
        weigh_step(h, step, scores(buffer), weights(buffer), beside);
      });
      values = {packed_.slot(step.first_chunk()), step.chunks(), weights(buffer), outputs(step.tile.index)};
      values_of = step.tile.index;
      step = next;
      buffer = 1 - buffer;
    }
    with_work({}, values, [](auto&& work) { work.run_all(); });
  }

  template <class Body>
  void with_work(const ScoreWork& score_work, const ValueWork& value_work, Body&& body) const {
    if constexpr (parts == 2) {
      if (score_work.low_products != 0)
        return body(TileWork<parts, true>(packed_, dim_tiles_, value_tiles_, score_work, value_work));
    }
    body(TileWork<parts>(packed_, dim_tiles_, value_tiles_, score_work, value_work));
  }

  // Steps alternate between two buffers.
  float* scores(int buffer) const { return at<float>(layout_.scores, buffer * plan_.kv_tile * lanes); }
  std::byte* weights(int buffer) const {
    return at<std::byte>(layout_.weights, buffer * plan_.kv_tile * lanes * 2 * parts);
  }
  ScoreWork score_work(const Head& h, const Step& step, int buffer) const {
    if (!step.exists()) return {};
    return {packed_.slot(step.first_chunk()), step.chunks(), queries(step.tile.index), scores(buffer),
            low_products(h, step)};
  }

  // Which chunks of a step take low x low too. Those that a row sees in part always do: keys that the row does not see
  // must not decide how it is computed.
  uint64_t low_products(const Head& h, const Step& step) const {
    uint64_t chosen = 0;
    if constexpr (parts == 2) {
      const float most = most_low_squares_[step.tile.index];
      int64_t slot = packed_.slot(step.first_chunk());
      for (int64_t c = 0; c < step.chunks(); ++c, slot = packed_.slot_after(slot)) {
        const int64_t key = (step.first_chunk() + c) * chunk_keys;
        const bool all_see_all =
            step.tile.all_see.lo <= key && smaller(key + chunk_keys, h.kv_len) <= step.tile.all_see.hi;
        if (!all_see_all || step.mask_hides || !(packed_low_squares_[slot] <= most)) chosen |= uint64_t{1} << c;
      }
    }
    return chosen;
  }

  // Scores to weights, while `beside` runs.
  template <class Beside>
  void weigh_step(const Head& h, const Step& step, float* scores, std::byte* weights, Beside& beside) {
    const Subtile& t = step.tile;
    const int64_t first_chunk = step.first_chunk();
    const int64_t first_key = first_chunk * chunk_keys;
    const int64_t n = step.chunks() * chunk_keys;
    for (int64_t c = 0; c < step.chunks(); ++c) {
      const bool tame = (packed_flags_[packed_.slot(first_chunk + c)] & keys_wild) == 0;
      if (tame && wild_queries_[t.index] == 0) continue;
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

    if (step.mask_hides) {
      hide_masked<V, vectors>(h, t.first_row, t.last_row, scores, first_key, smaller(n, h.kv_len - first_key));
    }

    RowState<V, vectors> state = load_state(t.index);
    if (!weigh_under_old_maxima(scores, n, scale, state, weights, beside)) {
      F offset[vectors];
      raise_maxima<V, vectors>(scores, n, scale, state, offset, outputs(t.index), layout_.padded_value_dim,
                               weight_slack);
      weigh(scores, n, scale, offset, state.row_sum, weights, beside);
    }
    beside.run_all();
    store_state(t.index, state);
    for (int64_t c = first_chunk; c < first_chunk + step.chunks(); ++c) {
      const uint8_t flags = packed_flags_[packed_.slot(c)];
      const KeyRange keys{larger(step.keys.lo, c * chunk_keys), smaller(step.keys.hi, (c + 1) * chunk_keys)};
      if constexpr (parts == 3) {
        if ((flags & values_tiny) != 0) add_tiny(h, t, keys, weights + (c - first_chunk) * 2 * parts * tile_bytes);
      }
      if ((flags & values_non_finite) == 0) continue;
      add_non_finite<V, T>(h, t.first_row, t.last_row, keys, key_lo, key_hi,
                           [&](int64_t d, int64_t lane) -> float& { return outputs(t.index)[d * lanes + lane]; });
    }
  }

  // Values whose parts, or products with parts of weights, tiles would take for zero: in fp32, to the rows of t.
  void add_tiny(const Head& h, const Subtile& t, KeyRange keys, const std::byte* weights) const {
    const KvRows<T> values = v_rows<T>(h);
    for (int64_t key = keys.lo; key < keys.hi; ++key) {
      F weight[vectors];
      for (int v = 0; v < vectors; ++v) {
        weight[v] = V::zero();
        for (int part = parts - 1; part >= 0; --part) {  // pairs of keys
          const F pairs = V::load_bits(weights + (2 * part + v) * tile_bytes + key % chunk_keys / 2 * 64);
          F even, odd;
          V::split_bits(pairs, even, odd);
          weight[v] = V::add(weight[v], key % 2 == 0 ? even : odd);
        }
      }
      const float* const row = values[key];
      for (int64_t d = 0; d < plan_.problem.value_dim; ++d) {
        const float value = row[d];
        if (!(std::fabs(value) < std::bit_cast<float>(first_ordinary))) continue;  // NaN is none
        float* const sums = outputs(t.index) + d * lanes;
        for (int v = 0; v < vectors; ++v) {
          V::store(sums + v * 16, V::fma(weight[v], V::set1(value), V::load(sums + v * 16)));
        }
      }
    }
  }

  // An infinity times the high and the low part of the other factor may come out as inf - inf, and times a denormal,
  // which tiles take for 0, as NaN; fp32 has finite values that are too large for its parts. Where a key or a query is
  // wild, the dot product is taken again from the values themselves; all others keep theirs to the bit.
  void rescore_chunk(const Head& h, const Subtile& t, int64_t first_key, float* scores) const {
    const KvRows<T> keys = k_rows<T>(h);
    const int64_t dim = plan_.problem.head_dim;
    const uint32_t all_rows = ~uint32_t{0} >> (lanes - (t.last_row - t.first_row));
    for (int64_t j = 0; j < smaller(chunk_keys, h.kv_len - first_key); ++j) {
      const T* k = keys[first_key + j];
      for (uint32_t left = is_wild(k, dim) ? all_rows : wild_queries_[t.index]; left != 0; left &= left - 1) {
        const int64_t lane = std::countr_zero(left);
        scores[j * lanes + lane] = fp32_dot(k, q_row<T>(h, t.first_row + lane), dim) * scale_.q_factor;
      }
    }
  }

  // A row that has seen no finite score has no maximum to go by.
  static bool has_maxima(const RowState<V, vectors>& state) {
    const F none = V::set1(-__builtin_inff());
    return V::all_greater(state.row_max[0], none) && V::all_greater(state.row_max[1], none);
  }
  bool has_maxima(const Subtile& t) const { return has_maxima(load_state(t.index)); }

  // Most steps do not need a new maximum. A weight is a floating-point number, so relative to an older, smaller maximum
  // it is just as exact as long as nothing comes near overflow: the pass over the scores that finds their maximum, and
  // the rescaling, happen only when a weight would exceed 2^8, which leaves values below 2^119 their range, and for the
  // rows of such weights alone: no row's bits depend on another's scores. Returns whether the weights are done.
  template <class Beside>
  bool weigh_under_old_maxima(const float* scores, int64_t n, float scale, RowState<V, vectors>& state,
                              std::byte* weights, Beside& beside) const {
    if (!has_maxima(state)) return false;
    F sums[vectors] = {state.row_sum[0], state.row_sum[1]};
    const F highest = weigh(scores, n, scale, state.row_max, sums, weights, beside);
    if (V::any_greater(highest, V::set1(weight_slack))) {
      beside.run_all();  // values of the step before belong to the outputs that are rescaled now
      return false;
    }
    for (int v = 0; v < vectors; ++v) state.row_sum[v] = sums[v];
    return true;
  }

  // Scores become weights in bf16 tiles [chunk][part][row half] and join the sums; returns the highest exponents. The
  // work of `beside` is spread evenly over the passes, four key pairs each.
  template <class Beside>
  F weigh(const float* scores, int64_t n, float scale, const F (&offset)[vectors], F (&row_sum)[vectors],
          std::byte* weights, Beside& beside) const {
    const F multiplier = V::set1(scale);
    // Locals, because the stores of P might alias what the arguments refer to.
    const F subtrahend[vectors] = {offset[0], offset[1]};
    F even_sum[vectors] = {row_sum[0], row_sum[1]};
    F odd_sum[vectors] = {V::zero(), V::zero()};
    // A long sum is rough for fp32: one of a pass goes into one of a step, and that into the row's.
    constexpr bool sums_in_stages = parts == 3;
    if constexpr (sums_in_stages) even_sum[0] = even_sum[1] = V::zero();
    F highest[2] = {V::set1(-__builtin_inff()), V::set1(-__builtin_inff())};

    const auto weigh_pair = [&](const float* from, std::byte* to) __attribute__((always_inline)) {
      for (int v = 0; v < vectors; ++v) {
        const F even_exponent = V::fms(_mm512_load_ps(from + v * 16), multiplier, subtrahend[v]);
        const F odd_exponent = V::fms(_mm512_load_ps(from + lanes + v * 16), multiplier, subtrahend[v]);
        highest[0] = V::max(even_exponent, highest[0]);
        highest[1] = V::max(odd_exponent, highest[1]);
        const F even = V::exp2<weight_degree<T>>(even_exponent);
        const F odd = V::exp2<weight_degree<T>>(odd_exponent);
        if constexpr (sums_in_stages) {
          odd_sum[v] = V::add(odd_sum[v], V::add(even, odd));
        } else {
          even_sum[v] = V::add(even_sum[v], even);
          odd_sum[v] = V::add(odd_sum[v], odd);
        }
        if constexpr (parts == 1) {
          _mm512_store_si512(to + v * tile_bytes, pack_rounded(even, odd));
        } else if constexpr (parts == 3) {
          const Parts32<T> x = pack_parts(three_parts(even, add_half_ulp(even)), three_parts(odd, add_half_ulp(odd)));
          for (int part = 0; part < parts; ++part) _mm512_store_si512(to + (2 * part + v) * tile_bytes, x.part[part]);
        } else {
          const __m512i even_bits = _mm512_castps_si512(even);
          const __m512i odd_bits = _mm512_castps_si512(odd);
          _mm512_store_si512(to + v * tile_bytes, pack_truncated(even_bits, odd_bits));
          _mm512_store_si512(to + (2 + v) * tile_bytes, pack_rounded(rest_of(even, even_bits), rest_of(odd, odd_bits)));
        }
      }
      // Done before the next tile instructions, not saved up behind them in memory.
      asm(""
          : "+v"(even_sum[0]), "+v"(even_sum[1]), "+v"(odd_sum[0]), "+v"(odd_sum[1]), "+v"(highest[0]),
            "+v"(highest[1]));
    };
    constexpr int64_t pair_floats = 2 * lanes;
    const int64_t passes = n / 8;
    const int64_t units = beside.left();
    int64_t due = 0;  // units times passes
    for (int64_t pass = 0; pass < passes; ++pass) {
      const float* from = scores + pass * 4 * pair_floats;
      std::byte* to = weights + pass / 4 * parts * 2 * tile_bytes + pass % 4 * 4 * 64;
      due += units;
      if (due < passes) {
        for (int64_t j = 0; j < 4; ++j) weigh_pair(from + j * pair_floats, to + j * 64);
      } else if (due < 2 * passes) {
        due -= passes;
        beside.begin_unit();
        beside.template slice<0>();
        weigh_pair(from, to);
        beside.template slice<1>();
        weigh_pair(from + pair_floats, to + 64);
        beside.template slice<2>();
        weigh_pair(from + 2 * pair_floats, to + 2 * 64);
        beside.template slice<3>();
        weigh_pair(from + 3 * pair_floats, to + 3 * 64);
        beside.end_unit();
      } else {
        // Two units or more: half of them between the first pairs, half between the second.
        const int64_t count = due / passes;
        due -= count * passes;
        for (int64_t j = 0; j < 4; j += 2) {
          beside.begin_unit();
          beside.template slice<0>();
          beside.template slice<1>();
          weigh_pair(from + j * pair_floats, to + j * 64);
          beside.template slice<2>();
          beside.template slice<3>();
          beside.end_unit();
          for (int64_t more = (count - 2 + (j == 0 ? 1 : 0)) / 2; more > 0; --more) beside.run_unit();
          weigh_pair(from + (j + 1) * pair_floats, to + (j + 1) * 64);
        }
      }
      if constexpr (sums_in_stages) {
        for (int v = 0; v < vectors; ++v) {
          even_sum[v] = V::add(even_sum[v], odd_sum[v]);
          odd_sum[v] = V::zero();
        }
      }
    }
    for (int v = 0; v < vectors; ++v) {
      row_sum[v] = V::add(even_sum[v], sums_in_stages ? row_sum[v] : odd_sum[v]);
    }
    return V::max(highest[0], highest[1]);
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
  int64_t dim_tiles_;    // of 32, in queries and keys
  int64_t value_tiles_;  // in values
  PackedChunks packed_;
  uint8_t* packed_flags_;        // ChunkFlag bits per slot
  float* packed_low_squares_;    // of the keys, per slot
  int64_t packed_batch_ = -1;    // the head whose chunks
  int64_t packed_kv_head_ = -1;  // [first_packed_, last_packed_) are there
  int64_t first_packed_ = 0;
  int64_t last_packed_ = 0;
  uint32_t wild_queries_[max_subtiles] = {};   // a bit each
  float most_low_squares_[max_subtiles] = {};  // of keys that do without low x low
};

}  // namespace
}  // namespace flashmoe::cpu
