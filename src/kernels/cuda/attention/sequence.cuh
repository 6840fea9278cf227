// One sequence of the batch: where its rows stand, how many they are, which keys a packed row sees.
#pragma once

#include "kernels/cuda/atoms/types.cuh"
#include "kernels/cuda/attention/params.hpp"

namespace flashmoe::cuda {

struct KeyRange {
  int lo, hi;
};
struct BlockRange {
  int begin, end;
};

struct Sequence {
  int q_batch, q_begin, q_len;     // the batch is 0 where rows are packed over sequences
  int kv_batch, kv_begin, kv_len;
  int group, shift, window_left, window_right;

  FMS_DEVICE Sequence(const ForwardParams& p, int batch)
      : q_batch(p.q_begins != nullptr ? 0 : batch),
        q_begin(p.q_begins != nullptr ? p.q_begins[batch] : 0),
        q_len(p.q_begins != nullptr ? p.q_begins[batch + 1] - q_begin : p.q_len),
        kv_batch(p.kv_begins != nullptr ? 0 : batch),
        kv_begin(p.kv_begins != nullptr ? p.kv_begins[batch] : 0),
        kv_len(p.kv_begins != nullptr    ? p.kv_begins[batch + 1] - kv_begin
               : p.kv_lengths != nullptr ? p.kv_lengths[batch]
                                         : p.kv_len),
        group(p.group),
        shift(kv_len - q_len),
        window_left(p.window_left),
        window_right(p.window_right) {}

  FMS_DEVICE int first_key(int row) const { return max(row / group + shift - window_left, 0); }
  // One past it.
  FMS_DEVICE int last_key(int row) const { return min(row / group + shift + window_right + 1, kv_len); }
};

FMS_DEVICE const unsigned char* row_at(const void* base, const RowStrides& strides, int batch, int head, int row) {
  return static_cast<const unsigned char*>(base) +
         (batch * strides.batch + head * strides.head + row * strides.row) * 2;
}

// Row `key` of k or v.
template <bool Paged>
FMS_DEVICE const unsigned char* kv_row(const ForwardParams& p, const Sequence& sequence, const void* base,
                                       const RowStrides& strides, int head, int key) {
  if constexpr (Paged) {
    const int slot = static_cast<int>(__umulhi(static_cast<uint32>(key), p.page_magic) >> p.page_shift);
    const int page = p.block_table[sequence.kv_batch * static_cast<long long>(p.block_table_stride) + slot];
    return row_at(base, strides, page, head, key - slot * p.page_size);
  } else {
    return row_at(base, strides, sequence.kv_batch, head, sequence.kv_begin + key);
  }
}

// The blocks that split `index` of `count` takes.
FMS_DEVICE BlockRange share_of(BlockRange blocks, int index, int count) {
  const int total = max(blocks.end - blocks.begin, 0);
  return {blocks.begin + static_cast<int>(static_cast<long long>(total) * index / count),
          blocks.begin + static_cast<int>(static_cast<long long>(total) * (index + 1) / count)};
}

}  // namespace flashmoe::cuda
