// Checks of a problem description: everything that can be decided without looking at data.
#pragma once

#include "flashmoe/flashmoe.h"

namespace flashmoe::plan {

[[nodiscard]] fms_status check_problem(const fms_attention_problem& problem, fms_error* error);
[[nodiscard]] fms_status check_merge_problem(const fms_merge_problem& problem, fms_error* error);

inline bool has(const fms_attention_problem& problem, fms_feature feature) {
  return (problem.features & static_cast<uint32_t>(feature)) != 0;
}

// Features by which sequences of a batch differ in length.
inline constexpr uint32_t lengths_per_sequence =
    FMS_RAGGED_Q | FMS_RAGGED_KV | FMS_KV_LENGTHS | FMS_KV_STARTS | FMS_Q_LENGTHS;

inline int64_t element_bytes(fms_dtype dtype) {
  return dtype == FMS_F32 ? 4 : 2;
}

// Of an element of k and v.
inline int64_t kv_element_bytes(const fms_attention_problem& problem) {
  return has(problem, FMS_KV_SCALES) ? 1 : element_bytes(problem.dtype);
}

// The type of o.
inline fms_dtype output_dtype(const fms_attention_problem& problem) {
  return has(problem, FMS_PARTIAL) ? FMS_F32 : problem.dtype;
}

// Neighbours of the batch that share an entry of a bias, and how many entries there are.
inline int64_t bias_group(const fms_bias_strides& strides) {
  return strides.group > 1 ? strides.group : 1;
}
inline int64_t bias_entries(const fms_attention_problem& problem, const fms_bias_strides& strides) {
  return (problem.batch + bias_group(strides) - 1) / bias_group(strides);
}

// Query heads that share one kv head.
inline int64_t group_size(const fms_attention_problem& problem) {
  return problem.q_heads / problem.kv_heads;
}

// A causal mask or a window: rows see different keys.
[[nodiscard]] inline bool is_masked(const fms_attention_problem& problem) {
  return problem.window_left >= 0 || problem.window_right >= 0;
}
// Keys an average query row sees: what the mask leaves of them.
[[nodiscard]] double visible_keys_per_row(const fms_attention_problem& problem);

inline bool is_empty(const fms_attention_problem& problem) {
  return problem.batch == 0 || problem.q_len == 0;
}

}  // namespace flashmoe::plan
