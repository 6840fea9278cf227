// Compares a merge of two states with the oracle. The bound of an element are the roundings on its way: the difference
// of log-sum-exps, exp (2 ulp), sum, quotient, product, sum.
#pragma once

#include "support/judge.hpp"

namespace flashmoe::testing {

// On the host, each laid out as the problem says.
struct MergedStates {
  const void *o_a, *o_b;
  const float *lse_a, *lse_b;
  const void* o;
  const float* lse;
};

Judgement judge_merge(const fms_merge_problem& problem, const MergedStates& states);

}  // namespace flashmoe::testing
