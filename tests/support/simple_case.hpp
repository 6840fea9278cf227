// A plain problem with N(0,1) data, to be changed by the test that wants something special.
#pragma once

#include <span>
#include <utility>

#include "support/attention_case.hpp"
#include "support/library_run.hpp"
#include "support/random_problem.hpp"
#include "support/sanitizers.hpp"

namespace flashmoe::testing {

struct Shape {
  int64_t batch, q_heads, kv_heads, q_len, kv_len, head_dim;
};

// A tile's worth and its tails, a larger one with GQA, a narrow and a wide head, decode with and without GQA.
inline constexpr Shape kAllLawShapes[] = {{1, 4, 1, 37, 153, 64}, {1, 4, 2, 130, 150, 128}, {1, 1, 1, 70, 70, 20},
                                          {1, 1, 1, 19, 40, 250}, {1, 8, 2, 1, 777, 64},    {2, 2, 2, 3, 300, 96}};
inline constexpr Shape kFewLawShapes[] = {{1, 4, 1, 37, 153, 64}, {1, 1, 1, 19, 40, 250}, {2, 4, 2, 1, 300, 20}};
inline constexpr std::span<const Shape> kLawShapes =
    kSlowBuild ? std::span<const Shape>(kFewLawShapes) : std::span<const Shape>(kAllLawShapes);

inline fms_attention_problem simple_problem(fms_dtype dtype, const Shape& shape) {
  fms_attention_problem problem;
  fms_attention_problem_init(&problem, dtype, shape.batch, shape.q_heads, shape.kv_heads, shape.q_len, shape.kv_len,
                             shape.head_dim);
  problem.features = FMS_LSE;
  return problem;
}

inline AttentionCase normal_case(const fms_attention_problem& problem, uint64_t seed = 1, IndexArrays indices = {}) {
  Random random(seed);
  return AttentionCase(problem, std::move(indices),
                       [&](Tensor tensor) { return tensor == Tensor::kMask ? 1.0 : random.normal(); });
}

}  // namespace flashmoe::testing
