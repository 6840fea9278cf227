// The forward pass: one CTA takes a tile of query rows of one kv head and walks over the keys they see.
//
//   rows    the query heads of a group are packed: row r is query r / group of head r % group, so that GQA fills tiles
//   split   CTAs that share a tile's keys. The last one to finish merges what all of them found
//
// docs/kernels.md draws all of this.
#pragma once

#include "kernels/cuda/attention/finish.cuh"
#include "kernels/cuda/attention/walk.cuh"

namespace flashmoe::cuda {

template <class Shape>
FMS_DEVICE void forward(const typename Shape::Params& params) {
  extern __shared__ __align__(1024) unsigned char shared_memory[];
  [[maybe_unused]] auto& listed = *reinterpret_cast<Item*>(shared_memory + Shape::item_begin);
  if constexpr (Shape::takes_list) {
    if (params.splits == 0) {
      if (threadIdx.x < warp_lanes) {
        WorkList<Shape>(params, static_cast<int>(threadIdx.x)).find(static_cast<int>(blockIdx.x), listed);
      }
      __syncthreads();
      if (listed.sequence < 0) return;
    }
  }
  const auto place = [&](uint32 thread) {
    if constexpr (Shape::takes_list) {
      return TilePlace<Shape>(params, thread, params.splits != 0 ? item_of_grid<Shape>(params) : listed);
    } else {
      return TilePlace<Shape>(params, thread, item_of_grid<Shape>(params));
    }
  };
  RowState<Shape> state;
  state.clear(params.lowest);
  const TilePlace<Shape> tile = place(threadIdx.x);
  if (tile.first_row >= tile.row_count) return;
  Walk<Shape>(params, tile, shared_address(shared_memory)).run(state);
  // Where registers are short - beside softcap and bias, in large tiles of the longest heads, where a warp has two row
  // tiles - nothing of the place stays in them through the walk. Nor, in other large tiles, anything of the thread.
  constexpr bool is_large = Shape::rows > 32;
  if constexpr (Shape::is_modified || Shape::row_tiles > 1 || (is_large && Shape::is_longest)) {
    Finish<Shape>(params, place(thread_index_anew()), shared_memory).run(state);
  } else {
    Finish<Shape>(params, is_large && Shape::longest_dim > 64 ? tile.anew() : tile, shared_memory).run(state);
  }
}

}  // namespace flashmoe::cuda
