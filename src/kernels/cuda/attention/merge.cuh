// Two partial results become one: flashmoe.h, fms_merge_states. A few lanes share a row. Every step is an fp32
// operation that rounds to nearest, as on the CPU, and no product is fused with the sum: swapped parts give the same
// bits.
#pragma once

#include "kernels/cuda/atoms/mma.cuh"
#include "kernels/cuda/attention/division.cuh"
#include "kernels/cuda/attention/merge_params.hpp"

namespace flashmoe::cuda {

struct Single {};  // fp32, beside Half and BFloat16

// A part with lse = -inf has no weight, and its o is not looked at.
FMS_DEVICE bool has_weight(float lse) {
  return __float_as_uint(lse) != 0xff800000u;
}

// NaN or +inf makes the row NaN.
struct MergeWeights {
  bool has_a, has_b;
  float a = 0.0f, b = 0.0f, lse;

  FMS_DEVICE MergeWeights(float lse_a, float lse_b)
      : has_a(has_weight(lse_a)), has_b(has_weight(lse_b)), lse(lse_a >= lse_b ? lse_a : lse_b) {
    if (!has_a && !has_b) return;
    const float top = lse, of_a = expf(lse_a - top), of_b = expf(lse_b - top), sum = of_a + of_b;
    a = __fdiv_rn(of_a, sum);
    b = __fdiv_rn(of_b, sum);
    lse = top + logf(sum);
  }

  FMS_DEVICE float merge(float value_a, float value_b) const {
    return __fadd_rn(__fmul_rn(value_a, a), __fmul_rn(value_b, b));
  }
};

// One element, as it is stored.
template <class T>
struct MergedElement {
  using Stored = unsigned short;
  FMS_DEVICE static Stored of(Stored a, Stored b, const MergeWeights& weights) {
    return static_cast<Stored>(pack<T>(weights.merge(to_float<T>(a), to_float<T>(b)), 0.0f));
  }
};
template <>
struct MergedElement<Single> {
  using Stored = float;
  FMS_DEVICE static Stored of(Stored a, Stored b, const MergeWeights& weights) { return weights.merge(a, b); }
};

// 16 bytes of them.
template <class T>
struct MergedChunk {
  using Stored = uint4;
  FMS_DEVICE static Stored of(const Stored& a, const Stored& b, const MergeWeights& weights) {
    return {word(a.x, b.x, weights), word(a.y, b.y, weights), word(a.z, b.z, weights), word(a.w, b.w, weights)};
  }

 private:
  FMS_DEVICE static float half(uint32 word, int shift) {
    return to_float<T>(static_cast<unsigned short>(word >> shift));
  }
  FMS_DEVICE static uint32 word(uint32 a, uint32 b, const MergeWeights& weights) {
    return pack<T>(weights.merge(half(a, 0), half(b, 0)), weights.merge(half(a, 16), half(b, 16)));
  }
};
template <>
struct MergedChunk<Single> {
  using Stored = float4;
  FMS_DEVICE static Stored of(const Stored& a, const Stored& b, const MergeWeights& weights) {
    return {weights.merge(a.x, b.x), weights.merge(a.y, b.y), weights.merge(a.z, b.z), weights.merge(a.w, b.w)};
  }
};

struct MergedRow {
  int batch, head, row;

  FMS_DEVICE MergedRow(const MergeParams& p, int index) {
    const int of_head = divide(index, p.by_len);
    row = index - of_head * p.len;
    batch = divide(of_head, p.by_heads);
    head = of_head - batch * p.heads;
  }
  FMS_DEVICE long long begin(const RowStrides& strides) const {
    return batch * strides.batch + head * strides.head + row * strides.row;
  }
};

// Units of a row, one lane after the other. Each is read before it is written, so that o may be o_a or o_b.
template <class Unit, int ElementBytes>
FMS_DEVICE void merge_units(const MergeParams& p, const MergedRow& row, int lane, const MergeWeights& weights) {
  using Stored = typename Unit::Stored;
  const auto at = [&](const void* base, const RowStrides& strides) {
    return reinterpret_cast<const Stored*>(static_cast<const char*>(base) + row.begin(strides) * ElementBytes);
  };
  const Stored* const a = at(p.o_a, p.o_a_strides);
  const Stored* const b = at(p.o_b, p.o_b_strides);
  Stored* const o = const_cast<Stored*>(at(p.o, p.o_strides));
  for (int unit = lane; unit < p.units; unit += 1 << p.lanes_log2) {
    Stored of_a{}, of_b{};  // zeros where there is no weight
    if (weights.has_a) of_a = a[unit];
    if (weights.has_b) of_b = b[unit];
    o[unit] = Unit::of(of_a, of_b, weights);
  }
}

template <class T, int ElementBytes>
FMS_DEVICE void merge_elements(const MergeParams& p, const MergedRow& row, int lane, const MergeWeights& weights) {
  if (p.is_aligned != 0) {
    merge_units<MergedChunk<T>, ElementBytes>(p, row, lane, weights);
  } else {
    merge_units<MergedElement<T>, ElementBytes>(p, row, lane, weights);
  }
}

FMS_DEVICE void merge(const MergeParams& p) {
  const int thread = static_cast<int>(threadIdx.x), lane = thread & ((1 << p.lanes_log2) - 1);
  const int index = static_cast<int>(blockIdx.x) * (merge_threads >> p.lanes_log2) + (thread >> p.lanes_log2);
  const bool is_row = index < p.rows;
  const MergedRow row(p, index);
  float lse_a = 0.0f, lse_b = 0.0f;
  if (is_row) {
    lse_a = p.lse_a[row.begin(p.lse_a_strides)];
    lse_b = p.lse_b[row.begin(p.lse_b_strides)];
  }
  // All lanes of the row have read what the first one writes: lse may be lse_a or lse_b.
  __syncwarp();
  if (!is_row) return;
  const MergeWeights weights(lse_a, lse_b);
  if (lane == 0) p.lse[row.begin(p.lse_strides)] = weights.lse;
  if (p.element == 1) {
    merge_elements<Half, 2>(p, row, lane, weights);
  } else if (p.element == 2) {
    merge_elements<BFloat16, 2>(p, row, lane, weights);
  } else {
    merge_elements<Single, 4>(p, row, lane, weights);
  }
}

}  // namespace flashmoe::cuda
