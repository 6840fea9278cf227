// The oracle: what flashmoe.h promises, in fp64, written to be read against that header and never optimised.
// It shares no code with src/plan, src/kernels/cpu or src/api, and it expects a valid problem.
#pragma once

#include "flashmoe/flashmoe.h"

namespace flashmoe::reference {

// Where to write; any pointer may be null. Dense row-major arrays over the problem's longest lengths. Rows beyond the
// length of a ragged sequence are left untouched.
struct AttentionOutputs {
  double* o = nullptr;    // (batch, q_heads, q_len, value_dim)
  double* lse = nullptr;  // (batch, q_heads, q_len)

  // How sensitive each result is to rounding, for tolerances that are derived instead of typed in. With weights p:
  double* o_magnitude = nullptr;  // sum_j p(j) |v(j)|, shaped as o
  // The largest finite |scale| sum_d |q k| + |bias| + |sink| of a visible key, shaped as lse.
  double* score_magnitude = nullptr;
};

void attention(const fms_attention_problem& problem, const fms_attention_args& args, const AttentionOutputs& outputs);

// o: (batch, heads, len, head_dim), lse: (batch, heads, len).
void merge(const fms_merge_problem& problem, const void* o_a, const float* lse_a, const void* o_b, const float* lse_b,
           double* o, double* lse);

}  // namespace flashmoe::reference
