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
    store(state);
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

  // f(key warp), at compile time: fragments are registers, and each key warp ends with a share of their columns.
  template <int First = 0, class F>
  FMS_DEVICE void with_my_share(const F& f) const {
    if (First == Shape::key_warps - 1 || tile_.key_warp() == First) {
      f(Constant<First>{});
    } else if constexpr (First < Shape::key_warps - 1) {
      with_my_share<First + 1>(f);
    }
  }

  // What the key warps found becomes one state, of which each has a share of the columns, and all the sums. All threads
  // come here.
  FMS_DEVICE void merge_key_warps(RowState<Shape>& state) const {
    if constexpr (Shape::key_warps > 1) {
      const auto rows = rows_there();
      constexpr int stride = Shape::row_warps * Shape::column_floats,
                    sums_stride = Shape::row_warps * Shape::sums_floats;
      float* const told = reinterpret_cast<float*>(shared_memory_);
      float* const columns = told + tile_.row_warp() * Shape::column_floats;
      float* const sums = told + (Shape::key_warps - 1) * stride + tile_.row_warp() * Shape::sums_floats;
      const int mine = tile_.key_warp();
      state.store_sums(sums + mine * sums_stride, tile_.lane, rows);
      unrolled<Shape::key_warps, 1>([&](auto w) {
        // From one address, or every store computes its own.
        const int other = made_here(RowState<Shape>::other_of(mine, w) * stride);
        if (mine != w) state.template store_share<w>(columns + other, tile_.lane, rows);
      });
      __syncthreads();
      const auto fades = state.merge_sums(sums, sums_stride, tile_.lane, rows, p_.scale_log2);
      with_my_share([&](auto w) { state.template merge_share<w>(columns, stride, tile_.lane, rows, fades); });
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
    float* const mine = states + static_cast<long long>(split) * stride;
    with_my_share([&](auto w) {
      state.template store_share<w>(mine, tile_.lane, rows);
      if (w == 0) state.store_sums(mine + Shape::column_floats, tile_.lane, rows);
    });
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
  FMS_DEVICE void store(RowState<Shape>& state) const {
    const uint32 results = shared_ + Shape::told_bytes,
                 at = results + Rows::offset(tile_.row(0), 0) + tile_.lane % 4 * 4;
    float factors[Shape::row_halves];
#pragma unroll
    for (int h = 0; h < Shape::row_halves; ++h) {
      const int row = tile_.first_row + tile_.row(h);
      const bool sees_nothing = state.sum[h] == 0.0f;
      float total = state.sum[h], level = state.top[h] * p_.scale_log2, fade = 1.0f;
      if (p_.sinks != nullptr && is_row(h)) {
        const float sink = p_.sinks[tile_.head(p_, row)] * log2_of_e;
        if (sink != minus_infinity()) {
          const float raised = sees_nothing ? sink : fmaxf(level, sink);
          fade = sees_nothing ? 0.0f : exp2_beside(level, raised);
          total = total * fade + exp2_beside(sink, raised);
          level = raised;
        }
      }
      factors[h] = sees_nothing ? 0.0f : fade * reciprocal(total);
      if (sees_nothing) state.forget(h);
      if (p_.lse != nullptr && tile_.key_warp() == 0 && tile_.lane % 4 == 0 && is_row(h)) {
        const float lse = total == 0.0f ? minus_infinity() : (level + log2_fast(total)) * log_of_2;
        p_.lse[tile_.sequence.q_batch * p_.lse_strides.batch + tile_.head(p_, row) * p_.lse_strides.head +
               (tile_.sequence.q_begin + tile_.query(p_, row)) * p_.lse_strides.row] = lse;
      }
    }
    with_my_share([&](auto w) {
      constexpr int mine = decltype(w)::value, begin = Shape::template share_begin<mine>,
                    end = Shape::template share_begin<mine + 1>;
      unrolled<Shape::row_halves, 1>([&](auto half) {
        constexpr int h = decltype(half)::value;
        unrolled<end, 1, begin>([&](auto d) {
          const uint32 pair = pack<T>(state.o[d].at(h, 0) * factors[h], state.o[d].at(h, 1) * factors[h]);
          store_shared<8 * h * Rows::row_bytes + Rows::offset_of(d)>(Rows::turned(at, d), pair);
        });
      });
    });
    if constexpr (Shape::key_warps > 1) {
      __syncthreads();
    } else {
      __syncwarp();
    }
    TileCopy<Shape>(p_, tile_, results).results();
  }

  const typename Shape::Params& p_;
  const TilePlace<Shape> tile_;
  unsigned char* const shared_memory_;
  const uint32 shared_;
};

}  // namespace flashmoe::cuda
