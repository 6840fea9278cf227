// What a launch hands to the kernel that merges two partial results; as params.hpp.
#pragma once

#include "kernels/cuda/attention/params.hpp"

namespace flashmoe::cuda {

inline constexpr const char* merge_name = "merge_states";  // of the kernel
inline constexpr int merge_threads = 128;
inline constexpr int merge_unit_bytes = 16;  // that a lane loads at once, where rows allow it

struct MergeParams {
  const void *o_a, *o_b;
  const float *lse_a, *lse_b;
  void* o;
  float* lse;
  RowStrides o_a_strides, o_b_strides, o_strides;
  RowStrides lse_a_strides, lse_b_strides, lse_strides;
  int rows;  // batch x heads x len; at most 2^30
  int heads, len;
  Division by_heads, by_len;
  int element;     // 1: fp16, 2: bf16, 3: fp32
  int units;       // of a row: 16 bytes if is_aligned, else one element
  int lanes_log2;  // so many lanes share a row; at most a warp
  int is_aligned;  // rows begin and end at multiples of 16 bytes
};

}  // namespace flashmoe::cuda
