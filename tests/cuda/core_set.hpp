// A small set of problems that takes every tile class, feature and way of sharing keys once. Every choice is forced, so
// that a problem has the same plan wherever it runs; only lists are as long as the GPU is wide.
#pragma once

#include <string>
#include <vector>

#include "support/simple_case.hpp"

namespace flashmoe::testing {

struct CoreProblem {
  std::string name;
  fms_attention_problem problem;
  IndexArrays indices;
  fms_plan_options options;

  [[nodiscard]] AttentionCase with_data() const { return normal_case(problem, 7, indices); }
};

// The rows of a tile name its class: 16 decode, 32 small, 64 large, 128 wide.
[[nodiscard]] std::vector<CoreProblem> core_set();

// Dense problems become problems of one kind or another.
void make_ragged(CoreProblem& one, const std::vector<int32_t>& q_lengths, const std::vector<int32_t>& kv_lengths);
void make_paged(CoreProblem& one, int64_t page_size, const std::vector<int32_t>& kv_lengths);
void add_bias(CoreProblem& one, fms_dtype dtype);
CoreProblem& set_value_dim(CoreProblem& one, int64_t value_dim);

}  // namespace flashmoe::testing
