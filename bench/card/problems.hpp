// The fixed table of problems that are timed: python/flashmoe_science/card_problems.json, which the Python side and the
// predictions read too.
#pragma once

#include <string>
#include <vector>

#include "cuda/core_set.hpp"

namespace flashmoe::card {

struct TimedProblem {
  std::string name;
  bool is_quick;  // small enough for rehearsals
  int64_t batch, q_heads, kv_heads, q_len, kv_len, head_dim;
  bool is_causal;
  int64_t page_size;  // 0: K and V are in one piece; else pages, and lengths that the device knows

  // fp16, the tensors of each head in one piece.
  [[nodiscard]] testing::CoreProblem problem() const;
  // One KV head of one sequence, which does what all others do beside it.
  [[nodiscard]] TimedProblem of_one_head() const;
};

[[nodiscard]] std::vector<TimedProblem> timed_problems();

}  // namespace flashmoe::card
