// After the walk: the states of key warps and of splits are merged, and rows are divided by their sums and stored.
#pragma once

#include "kernels/cuda/attention/row_state.cuh"
#include "kernels/cuda/attention/score_rules.cuh"
#include "kernels/cuda/attention/tile_copy.cuh"
#include "kernels/cuda/attention/tile_place.cuh"

namespace flashmoe::cuda {

template <class Shape>
class Finish {
  using T = typename Shape::Element;
  using Rows = typename Shape::ValueRows;

 public:
  FMS_DEVICE Finish(const typename Shape::Params& params, const TilePlace<Shape>& tile, unsigned char* shared_memory)
      : p_(params), tile_(tile), shared_memory_(shared_memory), shared_(shared_address(shared_memory)) {}

  // All threads come here.
  FMS_DEVICE void run(RowState<Shape>& state) const {
    state.add_up();
    __syncthreads();
    // Key warps merge what they found themselves, and then again what they found in the splits: one piece of code.
#pragma unroll 1
    for (bool is_merged = tile_.splits == 1;; is_merged = true) {
      merge_key_warps(state);
      if (is_merged) break;
      if (!gather_splits(state)) return;
    }
    if (tile_.key_warp() == 0) store(state);
  }

 private:
  FMS_DEVICE bool is_row(int h) const {
    return tile_.first_row + tile_.row(h) < tile_.row_count;
  }
  FMS_DEVICE typename RowState<Shape>::RowsThere rows_there() const {
    typename RowState<Shape>::RowsThere rows;
#pragma unroll
    for (int h = 0; h < Shape::row_halves; ++h) rows.are[h] = is_row(h);
    return rows;
  }

  // The first key warp gathers what the others found, in their order. All threads come here.
  FMS_DEVICE void merge_key_warps(RowState<Shape>& state) const {
    if constexpr (Shape::key_warps > 1) {
      const auto rows = rows_there();
      auto* const states = reinterpret_cast<float*>(shared_memory_) + tile_.row_warp() * Shape::state_floats;
      constexpr int stride = Shape::row_warps * Shape::state_floats;
      const int mine = made_here((tile_.key_warp() - 1) * stride);  // or every store subtracts anew
      if (tile_.key_warp() > 0) state.store(states + mine, tile_.lane, rows);
      __syncthreads();
      if (tile_.key_warp() == 0) {
#pragma unroll 1
        for (int i = 0; i < Shape::key_warps - 1; ++i)
          state.merge(states + i * stride, tile_.lane, rows, p_.scale_log2);
      }
      __syncthreads();
    }
  }

  // Every split leaves its state; in the last CTA of a tile to do so each key warp gathers its share of them, in their
  // order. Returns whether this is that CTA. All threads come here.
  FMS_DEVICE bool gather_splits(RowState<Shape>& state) const {
    const auto rows = rows_there();
    // Or all CTAs without splits would prepare addresses for them.
    const int splits = made_here(tile_.splits), split = made_here(tile_.split), first_state = made_here(tile_.states),
              counter = made_here(tile_.counter);
    constexpr int stride = Shape::row_warps * Shape::state_floats;
    float* const states =
        p_.partial + static_cast<long long>(first_state) * stride + tile_.row_warp() * Shape::state_floats;
    if (tile_.key_warp() == 0) state.store(states + static_cast<long long>(split) * stride, tile_.lane, rows);
    __syncthreads();
    // One thread speaks for the CTA: its fences order what the barriers gather and hand on.
    bool is_last = false;
    if (tile_.warp == 0 && tile_.lane == 0) {
      __threadfence();
      is_last = atomicAdd(p_.arrived + counter, 1u) == static_cast<uint32>(splits - 1);
      __threadfence();
      if (is_last) p_.arrived[counter] = 0;  // as the next launch wants to find it
    }
    if (!__syncthreads_or(is_last)) return false;
    state.clear(p_.lowest);
    const int begin = tile_.key_warp() * splits / Shape::key_warps;
    const int end = (tile_.key_warp() + 1) * splits / Shape::key_warps;
#pragma unroll 1
    for (int i = begin; i < end; ++i)
      state.merge(states + static_cast<long long>(i) * stride, tile_.lane, rows, p_.scale_log2);
    return true;
  }

  // Results go through shared memory, so that a warp stores whole rows.
  FMS_DEVICE void store(const RowState<Shape>& state) const {
    const uint32 at = shared_ + Rows::offset(tile_.row(0), 0) + tile_.lane % 4 * 4;
    unrolled<Shape::row_halves, 1>([&](auto h) {
      const int row = tile_.first_row + tile_.row(h);
      const bool sees_nothing = state.sum[h] == 0.0f;
      float total = state.sum[h], level = state.top[h] * p_.scale_log2, fade = 1.0f;
      if (p_.sinks != nullptr && is_row(h)) {
        const float sink = p_.sinks[tile_.head(p_, row)] * log2_of_e;
        if (sink != minus_infinity()) {
          const float raised = sees_nothing ? sink : fmaxf(level, sink);
          fade = sees_nothing ? 0.0f : exp2_fast(level - raised);
          total = total * fade + exp2_fast(sink - raised);
          level = raised;
        }
      }
      constexpr int row_offset = 8 * h * Rows::row_bytes;
      const float factor = sees_nothing ? 0.0f : fade * reciprocal(total);
      unrolled<Shape::dim_tiles, 1>([&](auto d) {
        const uint32 pair = pack<T>(state.o[d].at(h, 0) * factor, state.o[d].at(h, 1) * factor);
        store_shared<row_offset + Rows::offset_of(d)>(Rows::turned(at, d), pair);
      });
      if (p_.lse != nullptr && tile_.lane % 4 == 0 && is_row(h)) {
        const float lse = total == 0.0f ? minus_infinity() : (level + log2_fast(total)) * log_of_2;
        p_.lse[tile_.sequence.q_batch * p_.lse_strides.batch + tile_.head(p_, row) * p_.lse_strides.head +
               (tile_.sequence.q_begin + tile_.query(p_, row)) * p_.lse_strides.row] = lse;
      }
    });
    __syncwarp();
    TileCopy<Shape>(p_, tile_, shared_).results();
  }

  const typename Shape::Params& p_;
  const TilePlace<Shape> tile_;
  unsigned char* const shared_memory_;
  const uint32 shared_;
};

}  // namespace flashmoe::cuda
