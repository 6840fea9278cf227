// The tile products of one step as a queue of small pieces, so that they can run between the vector instructions of the
// softmax. The tile unit and the FMA ports work side by side only when both kinds of instruction stand within the few
// hundred that the core looks ahead over: products first and softmax after them cost the sum of both, interleaved by a
// few instructions they cost little more than the slower one (fp16 at head_dim 64: 1.3 to 1.4 times as fast).
//
// A unit is one 32 x 32 x 32 block product on 2 x 2 accumulator tiles (tiles 0-3), in four slices of about equal cost.
#pragma once

#include <immintrin.h>

#include <cstddef>
#include <cstdint>

#include "kernels/cpu/attention/amx_tiles.hpp"
#include "plan/cpu_layout.hpp"

namespace flashmoe::cpu {
namespace {

// Packed keys and values, in a ring when the buffer is smaller than the head.
struct PackedChunks {
  std::byte* bytes = nullptr;
  int64_t capacity = 1;
  int64_t chunk_bytes = 0;
  int64_t value_offset = 0;

  int64_t slot(int64_t chunk) const { return chunk % capacity; }
  int64_t slot_after(int64_t slot) const { return slot + 1 == capacity ? 0 : slot + 1; }
  std::byte* keys_at(int64_t slot) const { return bytes + slot * chunk_bytes; }
  const std::byte* values_at(int64_t slot) const { return keys_at(slot) + value_offset; }
};

// S^T (chunks * 32 keys, 32 rows) = K Q^T.
struct ScoreWork {
  int64_t first_slot = 0;
  int64_t chunks = 0;
  const std::byte* queries = nullptr;  // tiles [part][dim / 32][row half]
  float* scores = nullptr;
  uint64_t low_products = 0;  // one bit a chunk, the first one's lowest: takes low x low too (two parts)
};

// O^T (dim, 32 rows) += V^T P^T.
struct ValueWork {
  int64_t first_slot = 0;
  int64_t chunks = 0;
  const std::byte* weights = nullptr;  // tiles [chunk][part][row half]
  float* outputs = nullptr;
};

// `TakesLow`: chunks of the scores may take low x low. A type of its own, because in the other one, which nearly all
// steps use, even a branch that is never taken would show.
template <int Parts, bool TakesLow = false>
class TileWork {
  static_assert(Parts == 2 || !TakesLow);
  static constexpr int64_t lanes = 32;
  static constexpr int64_t tile_bytes = plan::amx_tile_bytes;
  static constexpr int64_t row_bytes = lanes * 4;

  // Where one unit finds its operands, and what becomes of the accumulators before and after it.
  struct Unit {
    const std::byte* a;  // (32, 32) of keys or dims, as tiles [part][half], `a_part` and `a_half` bytes apart
    const std::byte* b;  // (32, 32 rows), as tiles [part][half], `b_part` and tile_bytes apart
    int64_t a_half, a_part, b_part;
    float* accumulators;
    bool zeroes, loads, stores;
    bool adds;            // what is stored is added to what is there
    bool low_product;     // low x low too: four products instead of three
    bool beside_queries;  // Q is in tiles 4-7: the unit is 16 keys and two dim tiles
  };

 public:
  TileWork(const PackedChunks& packed, int64_t dim_tiles, int64_t value_tiles, const ScoreWork& scores,
           const ValueWork& values)
      : packed_(packed),
        dim_tiles_(dim_tiles),
        value_tiles_(value_tiles),
        scores_(scores),
        values_(values),
        left_(scores.chunks * dim_tiles + values.chunks * value_tiles),
        queries_stay_(Parts == 1 && dim_tiles == 2) {
    if (left_ == 0) return;
    if (queries_stay_ && scores_.chunks > 0) load_queries();
    slot_ = scores_.chunks > 0 ? scores_.first_slot : values_.first_slot;
    make_unit(units_[current_]);
    load_first_operands(unit());
  }

  int64_t left() const { return left_; }

  inline __attribute__((always_inline)) void begin_unit() {
    if (unit().zeroes) zero_accumulators();
    if (unit().loads) load_accumulators(unit().accumulators);
    if (left_ > 1) {
      make_unit(units_[1 - current_]);
    } else {
      units_[1 - current_] = unit();  // the last slice loads something in any case
    }
  }

  // Four slices make the unit. Each loads what the next one multiplies: a product that waits for its operand holds up
  // all products behind it.
  template <int Slice>
  inline __attribute__((always_inline)) void slice() const {
    if constexpr (Parts == 3) {
      slice_of_six_products<Slice>();
    } else if constexpr (Parts == 2) {
      if (TakesLow && unit().low_product) {
        slice_of_four_products<Slice>();
      } else {
        slice_of_three_products<Slice>();
      }
    } else if (unit().beside_queries) {
      slice_beside_queries<Slice>();
    } else {
      slice_of_one_product<Slice>();
    }
  }

  inline __attribute__((always_inline)) void end_unit() {
    if (unit().stores) store_accumulators();
    current_ = 1 - current_;
    --left_;
  }

  void run_unit() {
    begin_unit();
    slice<0>();
    slice<1>();
    slice<2>();
    slice<3>();
    end_unit();
  }

  void run_all() {
    while (left_ > 0) run_unit();
  }

 private:
  const Unit& unit() const { return units_[current_]; }
  const Unit& next_unit() const { return units_[1 - current_]; }

  inline __attribute__((always_inline)) void make_unit(Unit& made) {
    if (scores_.chunks > 0) {
      make_score_unit(made);
    } else {
      make_value_unit(made);
    }
  }

  inline __attribute__((always_inline)) void make_score_unit(Unit& made) {
    const std::byte* keys = packed_.keys_at(slot_);
    const bool last_of_chunk = dim_ == dim_tiles_ - 1;
    made.loads = made.adds = false;
    if constexpr (TakesLow) made.low_product = (scores_.low_products & 1) != 0;
    made.beside_queries = queries_stay_;
    made.b = scores_.queries + dim_ * 2 * tile_bytes;
    made.b_part = dim_tiles_ * 2 * tile_bytes;
    made.a_half = dim_tiles_ * tile_bytes;
    made.a_part = 2 * made.a_half;
    if (queries_stay_) {
      made.a = keys + dim_ * 2 * tile_bytes;
      made.accumulators = scores_.scores + dim_ * 16 * lanes;
      made.zeroes = made.stores = true;
    } else {
      made.a = keys + dim_ * tile_bytes;
      made.accumulators = scores_.scores;
      made.zeroes = dim_ == 0;
      made.stores = last_of_chunk;
    }
    ++dim_;
    if (!last_of_chunk) return;
    dim_ = 0;
    scores_.scores += plan::amx_chunk_keys * lanes;
    if constexpr (TakesLow) scores_.low_products >>= 1;
    --scores_.chunks;
    slot_ = scores_.chunks > 0 ? packed_.slot_after(slot_) : values_.first_slot;
  }

  inline __attribute__((always_inline)) void make_value_unit(Unit& made) {
    // Sums of many keys in fp32 would grow rough from all the small products: a step's are summed up by themselves.
    made.adds = Parts == 3;
    made.zeroes = made.adds && chunk_ == 0;
    // Weights have a sum, and what is left out of it is below 2^-15: less than the rounding of the result.
    if constexpr (TakesLow) made.low_product = false;
    made.beside_queries = false;
    made.a = packed_.values_at(slot_) + 2 * dim_ * tile_bytes;
    made.a_half = tile_bytes;
    made.a_part = 2 * value_tiles_ * tile_bytes;
    made.b = values_.weights + chunk_ * Parts * 2 * tile_bytes;
    made.b_part = 2 * tile_bytes;
    made.accumulators = values_.outputs + dim_ * 32 * lanes;
    made.loads = !made.adds && chunk_ == 0;
    made.stores = chunk_ == values_.chunks - 1;
    ++chunk_;
    slot_ = packed_.slot_after(slot_);
    if (!made.stores) return;
    chunk_ = 0;
    slot_ = values_.first_slot;
    ++dim_;
  }

  void load_queries() const {
    tile_load<4>(scores_.queries, 64);
    tile_load<5>(scores_.queries + tile_bytes, 64);
    tile_load<6>(scores_.queries + 2 * tile_bytes, 64);
    tile_load<7>(scores_.queries + 3 * tile_bytes, 64);
  }

  // Tiles 0-3 accumulate [A half][row half], beside the queries 0-1 [row half].
  inline __attribute__((always_inline)) void zero_accumulators() const {
    tile_zero<0>();
    tile_zero<1>();
    if (unit().beside_queries) return;
    tile_zero<2>();
    tile_zero<3>();
  }
  static void load_accumulators(const float* from) {
    tile_load<0>(from, row_bytes);
    tile_load<1>(from + 16, row_bytes);
    tile_load<2>(from + 16 * lanes, row_bytes);
    tile_load<3>(from + 16 * lanes + 16, row_bytes);
  }
  inline __attribute__((always_inline)) void store_accumulators() {
    float* to = unit().accumulators;
    if constexpr (Parts == 3) {
      if (unit().adds) to = sums_;
    }
    tile_store<0>(to, row_bytes);
    tile_store<1>(to + 16, row_bytes);
    if (unit().beside_queries) return;
    tile_store<2>(to + 16 * lanes, row_bytes);
    tile_store<3>(to + 16 * lanes + 16, row_bytes);
    if constexpr (Parts == 3) {
      if (!unit().adds) return;
      for (int64_t i = 0; i < 32 * lanes; i += 16) {
        float* const sum = unit().accumulators + i;
        _mm512_store_ps(sum, _mm512_add_ps(_mm512_load_ps(sum), _mm512_load_ps(sums_ + i)));
      }
    }
  }

  static inline __attribute__((always_inline)) void load_first_operands(const Unit& unit) {
    if (unit.beside_queries) {
      tile_load<2>(unit.a, 64);
    } else {
      tile_load<4>(unit.a + (Parts - 1) * unit.a_part, 64);
      tile_load<6>(unit.b + (TakesLow && unit.low_product ? unit.b_part : 0), 64);
    }
  }

  // Tiles 4-5 hold A halves, 6-7 B halves; each of the eight is loaded once for twelve products. Small products first:
  // low A x high B, then high x high, then high A x low B.
  template <int Slice>
  inline __attribute__((always_inline)) void slice_of_three_products() const {
    if constexpr (Slice == 0) {
      tile_multiply<0, 4, 6>();
      tile_load<5>(unit().a + unit().a_part + unit().a_half, 64);
      tile_load<7>(unit().b + tile_bytes, 64);
    } else if constexpr (Slice == 1) {
      tile_multiply<2, 5, 6>();
      tile_multiply<1, 4, 7>();
      tile_load<4>(unit().a, 64);
      tile_multiply<3, 5, 7>();
      tile_load<5>(unit().a + unit().a_half, 64);
    } else if constexpr (Slice == 2) {
      tile_multiply<0, 4, 6>();
      tile_multiply<2, 5, 6>();
      tile_load<6>(unit().b + unit().b_part, 64);
      tile_multiply<1, 4, 7>();
      tile_multiply<3, 5, 7>();
      tile_load<7>(unit().b + unit().b_part + tile_bytes, 64);
    } else {
      tile_multiply<0, 4, 6>();
      tile_multiply<2, 5, 6>();
      tile_multiply<1, 4, 7>();
      load_first_operands(next_unit());
      tile_multiply<3, 5, 7>();
    }
  }

  // The same after low x low, whose B is loaded once more at the end: ten loads for sixteen products.
  template <int Slice>
  inline __attribute__((always_inline)) void slice_of_four_products() const {
    if constexpr (Slice == 0) {
      tile_multiply<0, 4, 6>();
      tile_load<5>(unit().a + unit().a_part + unit().a_half, 64);
      tile_load<7>(unit().b + unit().b_part + tile_bytes, 64);
      tile_multiply<2, 5, 6>();
      tile_load<6>(unit().b, 64);
      tile_multiply<1, 4, 7>();
      tile_multiply<3, 5, 7>();
      tile_load<7>(unit().b + tile_bytes, 64);
    } else if constexpr (Slice == 1) {
      tile_multiply<0, 4, 6>();
      tile_multiply<2, 5, 6>();
      tile_multiply<1, 4, 7>();
      tile_load<4>(unit().a, 64);
      tile_multiply<3, 5, 7>();
      tile_load<5>(unit().a + unit().a_half, 64);
    } else {
      slice_of_three_products<Slice>();  // high x high, high A x low B
    }
  }

  // Of three parts, the products of which at most two steps are away from high x high, in an order in which one of both
  // factors stays: 2 x 0, 1 x 0, 1 x 1, 0 x 1, 0 x 2, 0 x 0 (A x B). Fourteen loads for twenty-four products.
  template <int Slice>
  inline __attribute__((always_inline)) void slice_of_six_products() const {
    const std::byte* const a = unit().a;
    const std::byte* const b = unit().b;
    const int64_t a_half = unit().a_half, a_part = unit().a_part, b_part = unit().b_part;
    if constexpr (Slice == 0) {
      tile_multiply<0, 4, 6>();
      tile_load<5>(a + 2 * a_part + a_half, 64);
      tile_load<7>(b + tile_bytes, 64);
      tile_multiply<2, 5, 6>();
      tile_multiply<1, 4, 7>();
      tile_load<4>(a + a_part, 64);
      tile_multiply<3, 5, 7>();
      tile_load<5>(a + a_part + a_half, 64);
      tile_multiply<0, 4, 6>();
      tile_multiply<2, 5, 6>();
      tile_load<6>(b + b_part, 64);
    } else if constexpr (Slice == 1) {
      tile_multiply<1, 4, 7>();
      tile_multiply<3, 5, 7>();
      tile_load<7>(b + b_part + tile_bytes, 64);
      tile_multiply<0, 4, 6>();
      tile_multiply<1, 4, 7>();
      tile_load<4>(a, 64);
      tile_multiply<2, 5, 6>();
      tile_multiply<3, 5, 7>();
      tile_load<5>(a + a_half, 64);
    } else if constexpr (Slice == 2) {
      tile_multiply<0, 4, 6>();
      tile_multiply<2, 5, 6>();
      tile_load<6>(b + 2 * b_part, 64);
      tile_multiply<1, 4, 7>();
      tile_multiply<3, 5, 7>();
      tile_load<7>(b + 2 * b_part + tile_bytes, 64);
      tile_multiply<0, 4, 6>();
      tile_multiply<2, 5, 6>();
      tile_load<6>(b, 64);
    } else {
      tile_multiply<1, 4, 7>();
      tile_multiply<3, 5, 7>();
      tile_load<7>(b + tile_bytes, 64);
      tile_multiply<0, 4, 6>();
      tile_multiply<2, 5, 6>();
      tile_multiply<1, 4, 7>();
      load_first_operands(next_unit());
      tile_multiply<3, 5, 7>();
    }
  }

  template <int Slice>
  inline __attribute__((always_inline)) void slice_of_one_product() const {
    if constexpr (Slice == 0) {
      tile_multiply<0, 4, 6>();
      tile_load<5>(unit().a + unit().a_half, 64);
    } else if constexpr (Slice == 1) {
      tile_load<7>(unit().b + tile_bytes, 64);
      tile_multiply<2, 5, 6>();
    } else if constexpr (Slice == 2) {
      tile_multiply<1, 4, 7>();
      load_first_operands(next_unit());
    } else {
      tile_multiply<3, 5, 7>();
    }
  }

  // Scores of head_dim 33 to 64 in one part: all four Q tiles stay in 4-7 beside two accumulators and two K tiles,
  // which halves the loads.
  template <int Slice>
  inline __attribute__((always_inline)) void slice_beside_queries() const {
    if constexpr (Slice == 0) {
      tile_multiply<0, 2, 4>();
      tile_load<3>(unit().a + tile_bytes, 64);
    } else if constexpr (Slice == 1) {
      tile_multiply<1, 2, 5>();
    } else if constexpr (Slice == 2) {
      tile_multiply<0, 3, 6>();
    } else {
      tile_multiply<1, 3, 7>();
      load_first_operands(next_unit());
    }
  }

  const PackedChunks& packed_;
  int64_t dim_tiles_, value_tiles_;
  ScoreWork scores_;  // what of it no unit was made of yet; done first
  ValueWork values_;
  int64_t left_;
  bool queries_stay_;
  // Of the unit to be made next.
  int64_t slot_ = 0;
  int64_t dim_ = 0;
  int64_t chunk_ = 0;  // of values_
  // The one that runs and the one after it. Not copied: a copy would be read before its fields have left the store
  // buffer.
  Unit units_[2] = {};
  int current_ = 0;
  alignas(64) float sums_[Parts == 3 ? 32 * lanes : 1];  // of a unit that adds
};

}  // namespace
}  // namespace flashmoe::cpu
