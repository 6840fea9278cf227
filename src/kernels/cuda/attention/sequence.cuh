// One sequence of the batch: where its rows stand, how many they are, which keys a packed row sees.
#pragma once

#include "kernels/cuda/atoms/types.cuh"
#include "kernels/cuda/attention/division.cuh"
#include "kernels/cuda/attention/params.hpp"

namespace flashmoe::cuda {

struct KeyRange {
  int lo, hi;
};
FMS_DEVICE KeyRange both(KeyRange a, KeyRange b) {
  return {max(a.lo, b.lo), min(a.hi, b.hi)};
}

struct Sequence {
  int batch;
  int q_batch, q_begin, q_len;  // the batch is 0 where rows are packed over sequences
  int kv_batch, kv_begin, kv_len;
  int shift;  // of query 0 to the key it is aligned to

  FMS_DEVICE Sequence(const ForwardParams& p, int batch)
      : batch(batch), q_batch(batch), q_begin(0), q_len(p.q_len), kv_batch(batch), kv_begin(0), kv_len(p.kv_len) {
    if (p.q_begins != nullptr) {
      q_batch = 0;
      q_begin = p.q_begins[batch];
      q_len = p.q_begins[batch + 1] - q_begin;
    }
    if (p.kv_begins != nullptr) {
      kv_batch = 0;
      kv_begin = p.kv_begins[batch];
      kv_len = p.kv_begins[batch + 1] - kv_begin;
    } else if (p.kv_lengths != nullptr) {
      kv_len = p.kv_lengths[batch];
    }
    shift = kv_len - q_len;
  }

  FMS_DEVICE int first_key(const ForwardParams& p, int query) const { return max(query + shift - p.window_left, 0); }
  // One past it.
  FMS_DEVICE int last_key(const ForwardParams& p, int query) const {
    return min(query + shift + p.window_right + 1, kv_len);
  }
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
    const int slot = divide(key, p.by_page_size);
    const int page = p.block_table[sequence.kv_batch * static_cast<long long>(p.block_table_stride) + slot];
    return row_at(base, strides, page, head, key - slot * p.page_size);
  } else {
    return row_at(base, strides, sequence.kv_batch, head, sequence.kv_begin + key);
  }
}

// The part of `keys` that one of `splits` takes: parts begin at multiples of the unit. The last
// ones may be empty. Nothing seen may be a negative `hi`; without it dividing by the unit is a shift.
FMS_DEVICE KeyRange share_of(KeyRange keys, const ForwardParams& p, int split, int splits) {
  const int first = keys.lo / split_unit, total = max((max(keys.hi, 0) + split_unit - 1) / split_unit - first, 0);
  const int units = p.splits != 0 ? divide(total + splits - 1, p.by_splits) : (total + splits - 1) / splits;
  const int begin = (first + min(split * units, total)) * split_unit;
  return {max(begin, keys.lo), min(begin + units * split_unit, keys.hi)};
}

}  // namespace flashmoe::cuda
