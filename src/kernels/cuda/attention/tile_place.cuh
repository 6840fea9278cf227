// Which rows and keys a CTA works on, and a thread of it. The grid is (row tiles, batch x kv heads, splits of the
// keys), or, the longest tiles first, (batch x kv heads, splits, row tiles), or, with a list, as many CTAs as the list
// may have items.
#pragma once

#include "kernels/cuda/attention/sequence.cuh"
#include "kernels/cuda/attention/shape.cuh"
#include "kernels/cuda/attention/work_list.cuh"

namespace flashmoe::cuda {

template <class Shape>
struct TilePlace {
  Sequence sequence;
  int kv_head;
  int first_row, row_count;  // packed: the query heads of a group lie side by side
  int lane, warp;

  int split, splits, states, counter;

  FMS_DEVICE TilePlace(const ForwardParams& p, uint32 thread, const Item& item)
      : sequence(p, item.sequence),
        kv_head(item.kv_head),
        first_row(item.first_row),
        row_count(sequence.q_len * p.group),
        lane(static_cast<int>(thread % warp_lanes)),
        warp(static_cast<int>(thread / warp_lanes)),
        split(item.split),
        splits(item.splits),
        states(item.states),
        counter(item.counter) {}

  // The same, and the compiler does not know that it is.
  FMS_DEVICE TilePlace anew() const {
    TilePlace same = *this;
    const uint32 thread = thread_index_anew();
    same.lane = static_cast<int>(thread % warp_lanes);
    same.warp = static_cast<int>(thread / warp_lanes);
    return same;
  }

  // The compiler does not know how many warps there are.
  FMS_DEVICE int row_warp() const { return Shape::knows_key_warp ? warp : warp % Shape::row_warps; }
  FMS_DEVICE int key_warp() const { return Shape::knows_key_warp ? 0 : warp / Shape::row_warps; }
  // In the tile: the lane's row of half h of the warp's.
  FMS_DEVICE int row(int h) const { return row_warp() * Shape::warp_rows + lane / 4 + 8 * h; }
  // In the block: the key of element i of score tile n.
  FMS_DEVICE int key(int n, int i) const {
    if constexpr (Shape::is_modified) {
      return key_warp() * Shape::warp_keys + n / 2 * 16 + Shape::key_of_column(n % 2 * 8 + lane % 4 * 2 + i % 2);
    } else {
      return key_warp() * Shape::warp_keys + n * 8 + lane % 4 * 2 + i % 2;
    }
  }

  FMS_DEVICE int last_row() const { return min(first_row + Shape::rows, row_count) - 1; }
  // Of the tile's keys.
  struct Keys {
    KeyRange mine;   // what any of its rows sees, and of that the share of this CTA
    KeyRange whole;  // of that, what each of its rows sees
  };
  FMS_DEVICE Keys keys(const ForwardParams& p) const {
    const int first = query(p, first_row), last = query(p, last_row());
    KeyRange any = {sequence.first_key(p, first), sequence.last_key(p, last)};
    const KeyRange all = {sequence.first_key(p, last), sequence.last_key(p, first)};
    if (splits != 1) any = share_of(any, p, split, splits);
    return {any, both(all, any)};
  }

  // Of a packed row.
  FMS_DEVICE static int query(const ForwardParams& p, int row) { return divide(row, p.by_group); }
  FMS_DEVICE int head(const ForwardParams& p, int row) const {
    return kv_head * p.group + row - query(p, row) * p.group;
  }
};

}  // namespace flashmoe::cuda
