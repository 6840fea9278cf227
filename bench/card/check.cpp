#include "check.hpp"

#include <cmath>
#include <span>

#include "cuda/core_set.hpp"
#include "cuda/gpu_run.hpp"
#include "kernels/cuda/launch/instances.hpp"
#include "support/judge.hpp"
#include "support/merge_judge.hpp"
#include "support/number_format.hpp"

namespace flashmoe::card {

using cuda::InstanceAxes;
using cuda::TileClass;
using testing::CoreProblem;
using testing::must;

namespace {

constexpr int q_heads = 4, kv_heads = 2, page_size = 16;

// More than a tile of rows, a few blocks of keys, and a rest of both.
testing::Shape shape_for(const InstanceAxes& axes, int64_t head_dim) {
  const int64_t q_len = axes.tile_class == TileClass::decode ? 3 : axes.tile().rows() / 2 + 5;
  const int64_t kv_len = 3 * int64_t{axes.tile().keys} + 21;
  return {axes.is_paged ? 2 : 1, q_heads, kv_heads, q_len, kv_len, head_dim};
}

// Only this kernel can be chosen: its head sizes are the smallest that hold the problem's, and its tile is forced.
CoreProblem problem_for(const InstanceAxes& axes, bool in_splits) {
  const int shorter = in_splits ? 1 : 0;  // rows that are no multiple of 16 bytes are copied by elements
  const testing::Shape shape = shape_for(axes, axes.dim - shorter);
  CoreProblem one{in_splits ? "3 splits, window, odd head size" : "causal, GQA",
                  testing::simple_problem(axes.dtype, shape),
                  {},
                  testing::plan_options(0, in_splits ? 3 : 1, axes.tile().rows())};
  if (axes.value_dim != 0) testing::set_value_dim(one, axes.value_dim - shorter);
  one.problem.window_right = in_splits ? 5 : 0;
  if (in_splits) one.problem.window_left = 2 * int64_t{axes.tile().keys};
  if (axes.is_paged)
    testing::make_paged(one, page_size, {static_cast<int32_t>(shape.kv_len), static_cast<int32_t>(shape.kv_len / 2)});
  if (axes.is_modified) {
    one.problem.softcap = 20;
    testing::add_bias(one, FMS_F32);
  }
  return one;
}

struct Outcome {
  double error_over_bound = 0;
  std::string complaint{};  // empty: right
};

Outcome outcome_of(const Card& card, const InstanceAxes& axes, const CoreProblem& problem) {
  testing::AttentionCase one = problem.with_data();
  const testing::RunResult result = testing::run_on_gpu(card.device(), card.library(), one, &problem.options);
  if (result.status != FMS_OK) return {0, testing::to_string(result.error)};
  if (result.plan.instance != cuda::code_of(axes))
    return {0, "the plan has another kernel: " + cuda::axes_of(result.plan.instance).name()};
  const testing::Judgement judgement = testing::judge(one, testing::OracleAnswer(one));
  if (!judgement.complaint.empty()) return {judgement.worst_error_over_bound, judgement.complaint};
  return {judgement.worst_error_over_bound, one.stray_write().value_or("")};
}

// Rows of a merge on the host, to be copied there and back.
std::vector<std::byte> rows_of(testing::Random& random, int64_t elements, fms_dtype dtype) {
  std::vector<std::byte> bytes(static_cast<std::size_t>(elements) * testing::element_bytes(dtype));
  for (int64_t i = 0; i < elements; ++i) testing::store(bytes.data(), dtype, i, random.normal());
  return bytes;
}

Outcome merge_outcome(const Card& card, fms_dtype dtype) {
  fms_merge_problem problem;
  fms_merge_problem_init(&problem, dtype, 2, 3, 37, 96);
  const int64_t rows = problem.batch * problem.heads * problem.len, elements = rows * problem.head_dim;
  testing::Random random(11);
  std::vector<std::byte> host[] = {rows_of(random, elements, dtype), rows_of(random, elements, dtype),
                                   rows_of(random, rows, FMS_F32),   rows_of(random, rows, FMS_F32),
                                   rows_of(random, elements, dtype), rows_of(random, rows, FMS_F32)};
  enum { o_a, o_b, lse_a, lse_b, o, lse };
  // A part without weight does not count, whatever its rows hold.
  testing::store(host[lse_a].data(), FMS_F32, 5, -std::numeric_limits<double>::infinity());
  std::vector<runtime::Buffer> there;
  for (const auto& bytes : host) {
    there.push_back(must(runtime::Buffer::create(card.device(), bytes.size())));
    must(there.back().write(bytes));
  }
  const auto at = [&](int which) { return reinterpret_cast<void*>(there[static_cast<std::size_t>(which)].address()); };
  const auto floats = [&](int which) { return static_cast<float*>(at(which)); };
  fms_error error{};
  if (fms_merge_states(card.library(), &problem, at(o_a), floats(lse_a), at(o_b), floats(lse_b), at(o), floats(lse),
                       nullptr, &error) != FMS_OK)
    return {0, testing::to_string(error)};
  must(card.device()->synchronize());
  for (const int written : {o, lse}) must(there[static_cast<std::size_t>(written)].read(host[written]));
  const auto on_host = [&](int which) { return reinterpret_cast<const float*>(host[which].data()); };
  const testing::Judgement judgement = testing::judge_merge(
      problem, {host[o_a].data(), host[o_b].data(), on_host(lse_a), on_host(lse_b), host[o].data(), on_host(lse)});
  return {judgement.worst_error_over_bound, judgement.complaint};
}

void tell(const Card& card, const std::string& kernel, const std::string& problem, const Outcome& outcome,
          CheckResult& result) {
  Line line{{"check", kernel},
            {"problem", problem},
            {"error_over_bound", outcome.error_over_bound},
            {"ok", outcome.complaint.empty()}};
  if (!outcome.complaint.empty()) {
    line["complaint"] = outcome.complaint;
    ++result.failed;
  }
  card.say(line);
}

}  // namespace

CheckResult check_kernels(const Card& card, bool quick, Limit limit) {
  CheckResult result;
  for (const bool in_splits : {false, true}) {
    if (in_splits && quick) break;
    for (const InstanceAxes& axes : cuda::listed_instances()) {
      const CoreProblem problem = problem_for(axes, in_splits);
      if (limit.allows(axes.name() + ": " + problem.name))
        tell(card, axes.name(), problem.name, outcome_of(card, axes, problem), result);
    }
  }
  for (const fms_dtype dtype : {FMS_F16, FMS_BF16, FMS_F32}) {
    const std::string problem = testing::dtype_name(dtype);
    if (limit.allows("merge_states: " + problem))
      tell(card, "merge_states", problem, merge_outcome(card, dtype), result);
  }
  result.is_complete = limit.conclude(card);
  return result;
}

}  // namespace flashmoe::card
