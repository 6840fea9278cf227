// Lengths and places that index arrays give. The arrays are the caller's memory, and may change between their check and
// any later look: each value is read once where it is used, and brought inside its bounds there. Checked values stay as
// they are. Forced inline: the units of each ISA must not share a copy.
#pragma once

#include <cstdint>

#include "flashmoe/flashmoe.h"
#include "plan/problem.hpp"

namespace flashmoe::plan {

// One read, whatever the compiler would like to do twice.
inline __attribute__((always_inline)) int64_t read_index(const int32_t* entry) {
  return __atomic_load_n(entry, __ATOMIC_RELAXED);
}

inline __attribute__((always_inline)) int64_t between(int64_t value, int64_t low, int64_t high) {
  const int64_t raised = value > low ? value : low;
  return raised < high ? raised : high;
}

// Rows [first, first + count) of a packed tensor, or of a batch's own.
struct RowRange {
  int64_t first, count;
};

inline __attribute__((always_inline)) RowRange packed_rows(const int32_t* offsets, int64_t sequence, int64_t longest,
                                                           int64_t total) {
  const int64_t first = between(read_index(offsets + sequence), 0, total);
  const int64_t last = between(read_index(offsets + sequence + 1), first, total);
  return {first, between(last - first, 0, longest)};
}

inline __attribute__((always_inline)) RowRange q_rows(const fms_attention_problem& p, const fms_attention_args& args,
                                                      int64_t sequence) {
  if (has(p, FMS_RAGGED_Q)) return packed_rows(args.cu_q, sequence, p.q_len, p.total_q);
  return {0, has(p, FMS_Q_LENGTHS) ? between(read_index(args.q_lengths + sequence), 0, p.q_len) : p.q_len};
}

inline __attribute__((always_inline)) RowRange kv_rows(const fms_attention_problem& p, const fms_attention_args& args,
                                                       int64_t sequence) {
  if (has(p, FMS_RAGGED_KV)) return packed_rows(args.cu_kv, sequence, p.kv_len, p.total_kv);
  if (has(p, FMS_PAGED_KV) && p.page_count == 0) return {0, 0};
  const int64_t keys = has(p, FMS_KV_LENGTHS) ? between(read_index(args.kv_lengths + sequence), 0, p.kv_len) : p.kv_len;
  return {0, keys};
}

// The first of `keys` keys that exists; `keys` when none does.
inline __attribute__((always_inline)) int64_t first_key(const fms_attention_problem& p, const fms_attention_args& args,
                                                        int64_t sequence, int64_t keys) {
  return has(p, FMS_KV_STARTS) ? between(read_index(args.kv_starts + sequence), 0, keys) : 0;
}

// The page of an entry of a block table; there is at least one.
inline __attribute__((always_inline)) int64_t page_at(const int32_t* entry, int64_t page_count) {
  const int64_t page = read_index(entry);
  return static_cast<uint64_t>(page) < static_cast<uint64_t>(page_count) ? page : 0;
}

}  // namespace flashmoe::plan
