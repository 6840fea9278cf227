// What every kernel needs to know about one (batch, kv head): lengths, row addresses, visible keys.
//
// The query rows that share a kv head are numbered position-major: row r is position r / group of query head
// kv_head * group + r % group. Neighbouring rows thus see almost the same keys, and a GQA group fills the lanes of a
// decode step. In an unnamed namespace: see simd/avx512.hpp.
#pragma once

#include <cstdint>
#include <cstring>

#include "flashmoe/flashmoe.h"
#include "kernels/cpu/types.hpp"
#include "plan/cpu_layout.hpp"
#include "plan/index_arrays.hpp"

namespace flashmoe::cpu {
namespace {

template <class T>
inline constexpr T smaller(T a, T b) {
  return a < b ? a : b;
}
template <class T>
inline constexpr T larger(T a, T b) {
  return a > b ? a : b;
}

struct KeyRange {
  int64_t lo, hi;  // [lo, hi), empty when lo >= hi
};

// One (batch, kv head) of a run.
struct Head {
  const fms_attention_problem* problem;
  const fms_attention_args* args;
  int64_t batch, kv_head;
  int64_t group;
  int64_t q_len, kv_len;
  int64_t first_key;  // keys are [first_key, kv_len)
  int64_t shift;      // query position i is aligned to key i + shift
  int64_t q_offset;   // elements to (row 0, query head 0) in q
  int64_t o_offset;   // ... in o
  int64_t lse_offset;
  int64_t k_offset;  // elements to (row 0, this kv head) in k; paged: of page 0
  int64_t v_offset;
  const int32_t* pages;  // this sequence's block table, or null

  [[nodiscard]] int64_t rows() const { return q_len * group; }
  // A decode step has one position: its short items would notice the divisions.
  [[nodiscard]] int64_t position_of(int64_t row) const { return q_len == 1 ? 0 : row / group; }
  [[nodiscard]] int64_t q_head_of(int64_t row) const { return kv_head * group + (q_len == 1 ? row : row % group); }
};

// Keys that are left when those that a mask hides from all rows of a sequence are cut off both ends.
inline KeyRange without_hidden_ends(const fms_attention_problem& p, const fms_attention_args& args, int64_t batch,
                                    KeyRange keys) {
  constexpr int64_t step = 8;  // bytes that are looked at together
  const int64_t stride = p.mask.kv;
  const uint8_t* const bytes = args.mask + batch / plan::bias_group(p.mask) * p.mask.batch;
  const auto are_hidden = [&](int64_t first) {
    uint64_t word = 1;
    if (stride == 1) std::memcpy(&word, bytes + first, sizeof word);
    return word == 0;
  };
  while (keys.lo + step <= keys.hi && are_hidden(keys.lo)) keys.lo += step;
  while (keys.lo < keys.hi && bytes[keys.lo * stride] == 0) ++keys.lo;
  while (keys.lo + step <= keys.hi && are_hidden(keys.hi - step)) keys.hi -= step;
  while (keys.lo < keys.hi && bytes[(keys.hi - 1) * stride] == 0) --keys.hi;
  return keys;
}

inline Head make_head(const fms_attention_problem& p, const fms_attention_args& args, int64_t batch, int64_t kv_head) {
  Head h;
  h.problem = &p;
  h.args = &args;
  h.batch = batch;
  h.kv_head = kv_head;
  h.group = plan::group_size(p);
  const plan::RowRange q_rows = plan::q_rows(p, args, batch);
  const plan::RowRange kv_rows = plan::kv_rows(p, args, batch);
  h.q_len = q_rows.count;
  h.kv_len = kv_rows.count;
  h.first_key = plan::first_key(p, args, batch, h.kv_len);
  h.shift = plan::has(p, FMS_TOP_LEFT) ? 0 : h.kv_len - h.q_len;
  // Not by the head: all heads of a sequence have to cost the same (for_each_item).
  if (plan::has(p, FMS_MASK) && (p.mask.q == 0 || p.q_len == 1) && (p.mask.head == 0 || p.q_heads == 1)) {
    const KeyRange keys = without_hidden_ends(p, args, batch, {h.first_key, h.kv_len});
    h.first_key = keys.lo;
    h.kv_len = keys.hi;
  }
  h.pages = plan::has(p, FMS_PAGED_KV) ? args.block_table + batch * p.block_table_stride : nullptr;
  const int64_t q_batch = plan::has(p, FMS_RAGGED_Q) ? 0 : batch;
  const int64_t kv_batch = plan::has(p, FMS_RAGGED_KV) || h.pages != nullptr ? 0 : batch;
  h.q_offset = q_batch * p.q.batch + q_rows.first * p.q.seq;
  h.o_offset = q_batch * p.o.batch + q_rows.first * p.o.seq;
  h.lse_offset = q_batch * p.lse.batch + q_rows.first * p.lse.seq;
  h.k_offset = kv_batch * p.k.batch + kv_head * p.k.head + kv_rows.first * p.k.seq;
  h.v_offset = kv_batch * p.v.batch + kv_head * p.v.head + kv_rows.first * p.v.seq;
  return h;
}

// The bounds of what a query position sees. Both grow with the position; lo >= hi where it sees nothing.
inline int64_t lowest_key(const Head& h, int64_t position) {
  const int64_t left = h.problem->window_left;
  return left < 0 ? h.first_key : larger<int64_t>(h.first_key, position + h.shift - left);
}
inline int64_t key_after(const Head& h, int64_t position) {
  const int64_t right = h.problem->window_right;
  return right < 0 ? h.kv_len : smaller<int64_t>(h.kv_len, position + h.shift + right + 1);
}

inline KeyRange or_empty(int64_t lo, int64_t hi) {
  return lo < hi ? KeyRange{lo, hi} : KeyRange{0, 0};
}

// Visible keys of a query position.
inline KeyRange visible_keys(const Head& h, int64_t position) {
  return or_empty(lowest_key(h, position), key_after(h, position));
}

// Keys that any of the rows [first, last) sees.
inline KeyRange visible_hull(const Head& h, int64_t first_row, int64_t last_row) {
  return or_empty(lowest_key(h, h.position_of(first_row)), key_after(h, h.position_of(last_row - 1)));
}

// Keys that all of the rows [first, last) see; the bounds as they are, since keys outside either are not seen by all.
inline KeyRange seen_by_all(const Head& h, int64_t first_row, int64_t last_row) {
  return {lowest_key(h, h.position_of(last_row - 1)), key_after(h, h.position_of(first_row))};
}

template <class T>
inline const T* q_row(const Head& h, int64_t row) {
  const fms_attention_problem& p = *h.problem;
  return static_cast<const T*>(h.args->q) + h.q_offset + h.position_of(row) * p.q.seq + h.q_head_of(row) * p.q.head;
}

template <class T>
inline T* o_row(const Head& h, int64_t row) {
  const fms_attention_problem& p = *h.problem;
  return static_cast<T*>(h.args->o) + h.o_offset + h.position_of(row) * p.o.seq + h.q_head_of(row) * p.o.head;
}

inline float* lse_at(const Head& h, int64_t row) {
  const fms_attention_problem& p = *h.problem;
  return h.args->lse + h.lse_offset + h.position_of(row) * p.lse.seq + h.q_head_of(row) * p.lse.head;
}

// Rows of K or V of one head, dense or paged.
template <class T>
struct KvRows {
  const T* base;
  int64_t row_stride;
  int64_t page_stride;
  int64_t page_size, page_count;
  const int32_t* pages;

  [[nodiscard]] const T* operator[](int64_t key) const {
    if (pages == nullptr) return base + key * row_stride;
    return base + plan::page_at(pages + key / page_size, page_count) * page_stride + key % page_size * row_stride;
  }
  // Where the keys of a range are: one look at the block table a page, not one a key.
  void find(KeyRange range, const T** rows) const {
    for (int64_t key = range.lo; key < range.hi;) {
      const T* row = (*this)[key];
      const int64_t left = pages == nullptr ? range.hi : key - key % page_size + page_size;
      const int64_t end = smaller(left, range.hi);
      *rows++ = row;
      while (++key < end) *rows++ = row += row_stride;  // no step beyond the last: of one key any stride is legal
    }
  }
};

template <class T>
inline KvRows<T> k_rows(const Head& h) {
  const fms_attention_problem& p = *h.problem;
  return {static_cast<const T*>(h.args->k) + h.k_offset, p.k.seq, p.k.batch, p.page_size, p.page_count, h.pages};
}

template <class T>
inline KvRows<T> v_rows(const Head& h) {
  const fms_attention_problem& p = *h.problem;
  return {static_cast<const T*>(h.args->v) + h.v_offset, p.v.seq, p.v.batch, p.page_size, p.page_count, h.pages};
}

// Keys of split `split`: whole packed chunks, which never straddle a split.
inline KeyRange split_keys(KeyRange keys, int64_t split, int64_t splits) {
  constexpr int64_t step = plan::amx_chunk_keys;
  const int64_t first_step = keys.lo / step;
  const int64_t steps = (keys.hi + step - 1) / step - first_step;
  const int64_t lo = (first_step + steps * split / splits) * step;
  const int64_t hi = (first_step + steps * (split + 1) / splits) * step;
  return {larger(lo, keys.lo), smaller(hi, keys.hi)};
}

}  // namespace
}  // namespace flashmoe::cpu
