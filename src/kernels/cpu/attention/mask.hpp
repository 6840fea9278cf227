// The caller's mask, a byte for each query row and key: 0 hides the key, as if it were not there. Masks that are the
// same for all rows of a sequence have already cut hidden keys off its ends (make_head). What is left is looked at 64
// keys at a time: keys that no row sees are skipped, and nothing is done where every row sees every key.
#pragma once

#include <cstdint>
#include <cstring>

#include "kernels/cpu/attention/softmax.hpp"

namespace flashmoe::cpu {
namespace {

class MaskRows {
 public:
  explicit MaskRows(const Head& h) : head_(h), bytes_(h, h.args->mask, h.problem->mask) {}

  [[nodiscard]] const uint8_t* at(int64_t row, int64_t key) const { return bytes_.at(head_, row, key); }
  void find(int64_t first_row, int64_t last_row, int64_t key, int64_t count, const uint8_t** rows) const {
    bytes_.find(head_, first_row, last_row, key, count, rows);
  }
  [[nodiscard]] int64_t key_stride() const { return bytes_.strides.kv; }

  // Calls visit(bytes, first, last) for rows [first_row, last_row): those from first to last share their bytes, which
  // begin with those of `key`. Divides once, not for each row.
  template <class Visit>
  void for_each_run(int64_t first_row, int64_t last_row, int64_t key, Visit&& visit) const {
    const fms_bias_strides& s = bytes_.strides;
    const bool heads_differ = s.head != 0 && head_.group > 1;
    int64_t head = first_row % head_.group;
    const uint8_t* position = at(first_row - head, key);
    for (int64_t row = first_row; row < last_row;) {
      const int64_t run = heads_differ ? 1 : (s.q == 0 ? last_row - row : head_.group - head);
      const int64_t end = smaller(row + run, last_row);
      visit(heads_differ ? position + head * s.head : position, row, end);
      row = end;
      if ((head += run) < head_.group) continue;
      head = 0;
      position += s.q;
    }
  }
  [[nodiscard]] bool is_same(int64_t first_row, int64_t last_row) const {
    const bool heads_differ = bytes_.strides.head != 0 && head_.group > 1;
    if (heads_differ) return last_row - first_row <= 1;
    return bytes_.strides.q == 0 || first_row / head_.group == (last_row - 1) / head_.group;
  }

  // `count` bytes as neighbours: where they lie, or copied. Those behind the first n are 0.
  const uint8_t* neighbours(const uint8_t* from, int64_t n, int64_t count, uint8_t* copy) const {
    if (key_stride() == 1 && n >= count) return from;
    std::memset(copy, 0, static_cast<std::size_t>(count));
    for (int64_t j = 0; j < smaller(n, count); ++j) copy[j] = from[j * key_stride()];
    return copy;
  }

  // Bit j: whether byte j is not 0, of the first n and at most 64.
  template <class V>
  [[nodiscard]] uint64_t word(const uint8_t* from, int64_t n) const {
    uint8_t copy[64];
    return V::nonzero_bytes(neighbours(from, n, 64, copy));
  }

 private:
  const Head& head_;
  BiasRows<uint8_t> bytes_;
};

inline bool has_mask(const Head& h) {
  return plan::has(*h.problem, FMS_MASK);
}

inline bool mask_shows(const Head& h, int64_t row, int64_t key) {
  return !has_mask(h) || *MaskRows(h).at(row, key) != 0;
}

// What a mask leaves of some keys for some rows.
struct MaskedKeys {
  KeyRange seen;  // from the first to the last key that any of the rows sees
  bool hides;     // one of these from one of the rows
};

inline constexpr int64_t most_mask_words = plan::cpu_most_kv_tile / 64;

template <class V>
inline MaskedKeys masked_keys(const Head& h, int64_t first_row, int64_t last_row, KeyRange keys) {
  if (!has_mask(h) || keys.lo >= keys.hi) return {keys, false};
  const MaskRows mask(h);
  const int64_t n = keys.hi - keys.lo, words = (n + 63) / 64;
  uint64_t any[most_mask_words];
  uint64_t all[most_mask_words];
  for (int64_t w = 0; w < words; ++w) {
    any[w] = 0;
    all[w] = ~uint64_t{0};
  }
  mask.for_each_run(first_row, last_row, keys.lo, [&](const uint8_t* bytes, int64_t, int64_t) {
    for (int64_t w = 0; w < words; ++w) {
      const uint64_t word = mask.template word<V>(bytes + w * 64 * mask.key_stride(), n - w * 64);
      any[w] |= word;
      all[w] &= word;
    }
  });
  int64_t first = 0;
  while (first < words && any[first] == 0) ++first;
  if (first == words) return {{0, 0}, true};
  int64_t last = words - 1;
  while (any[last] == 0) --last;
  const int64_t lo = first * 64 + __builtin_ctzll(any[first]), hi = last * 64 + 64 - __builtin_clzll(any[last]);
  bool hides = false;
  for (int64_t w = first; w <= last; ++w) {
    uint64_t inside = ~uint64_t{0};
    if (w == first) inside &= ~uint64_t{0} << (lo - w * 64);
    if (w == last) inside &= ~uint64_t{0} >> (w * 64 + 64 - hi);
    hides |= (~all[w] & inside) != 0;
  }
  return {{keys.lo + lo, keys.lo + hi}, hides};
}

// Scores (n keys, lanes) of rows [first_row, last_row) become -inf where the mask hides the key.
template <class V, int Vectors>
inline void hide_masked(const Head& h, int64_t first_row, int64_t last_row, float* scores, int64_t first_key,
                        int64_t n) {
  constexpr int64_t lanes = Vectors * V::width;
  const MaskRows mask(h);
  if (mask.is_same(first_row, last_row)) {
    const uint8_t* const byte = mask.at(first_row, first_key);
    for (int64_t j = 0; j < n; ++j) {
      if (byte[j * mask.key_stride()] != 0) continue;
      for (int v = 0; v < Vectors; ++v) V::store(scores + j * lanes + v * V::width, V::set1(-__builtin_inff()));
    }
    return;
  }
  constexpr int64_t step = 4 * V::width;  // keys whose bytes are moved about in fours
  const uint8_t* rows[lanes];
  mask.find(first_row, last_row, first_key, lanes, rows);
  for (int64_t v = 0; v < Vectors && first_row + v * V::width < last_row; ++v) {
    for (int64_t j = 0; j < n; j += step) {
      typename V::F block[V::width];  // (row, fours of keys), then transposed
      for (int lane = 0; lane < V::width; ++lane) {
        uint8_t copy[step];
        const uint8_t* row = rows[v * V::width + lane];
        if (row == nullptr) row = rows[v * V::width];  // no row: what the first one sees, so that scores stay finite
        block[lane] = V::load_bits(mask.neighbours(row + j * mask.key_stride(), n - j, step, copy));
      }
      V::transpose(block);
      for (int64_t k = 0; k < smaller(step, n - j); ++k) {
        float* const at = scores + (j + k) * lanes + v * V::width;
        V::store(at, V::keep_bytes(V::load(at), block[k / 4], static_cast<int>(k % 4)));
      }
    }
  }
}

}  // namespace
}  // namespace flashmoe::cpu
