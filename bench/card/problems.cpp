#include "problems.hpp"

#include <nlohmann/json.hpp>

#include "problem_table.hpp"

namespace flashmoe::card {

testing::CoreProblem TimedProblem::problem() const {
  testing::CoreProblem made{name, {}, {}, testing::plan_options(0, 0, 0)};
  fms_attention_problem_init(&made.problem, FMS_F16, batch, q_heads, kv_heads, q_len, kv_len, head_dim);
  if (is_causal) made.problem.window_right = 0;
  if (page_size != 0)
    testing::make_paged(made, page_size,
                        std::vector<int32_t>(static_cast<std::size_t>(batch), static_cast<int32_t>(kv_len)));
  return made;
}

TimedProblem TimedProblem::of_one_head() const {
  TimedProblem one = *this;
  one.batch = one.kv_heads = 1;
  one.q_heads = q_heads / kv_heads;
  return one;
}

std::vector<TimedProblem> timed_problems() {
  std::vector<TimedProblem> all;
  for (const auto& row : nlohmann::json::parse(problem_table))
    all.push_back({row.at("name"), row.at("quick"), row.at("batch"), row.at("q_heads"), row.at("kv_heads"),
                   row.at("q_len"), row.at("kv_len"), row.at("head_dim"), row.at("causal"), row.at("page_size")});
  return all;
}

}  // namespace flashmoe::card
