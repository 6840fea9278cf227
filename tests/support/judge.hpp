// Compares outputs with the oracle. The tolerance is not a number somebody typed: it is the sum of the rounding errors
// that an implementation is entitled to, computed for each element from the oracle's own sensitivities (judge.cpp).
#pragma once

#include <string>
#include <vector>

#include "support/attention_case.hpp"

namespace flashmoe::testing {

// The oracle's answer and how sensitive it is; see reference::AttentionOutputs.
struct OracleAnswer {
  explicit OracleAnswer(const AttentionCase& one);
  std::vector<double> o, o_magnitude;        // (batch, q_heads, q_len, value_dim)
  std::vector<double> lse, score_magnitude;  // (batch, q_heads, q_len)
};

struct Judgement {
  std::string complaint;  // empty when everything is within its bound; else the first thing that is not
  double worst_error_over_bound = 0;
  double worst_lse_error = 0;  // where both are finite
  // Over the finite elements, for the RMS over many problems.
  double squared_errors_over_bounds = 0;
  int64_t elements = 0;
};

Judgement judge(const AttentionCase& one, const OracleAnswer& oracle);

// The relative bound on the weights of a row: what the error of its scores can do to exp(score).
double score_error_bound(fms_dtype dtype, int64_t head_dim, double score_magnitude, double softcap);

}  // namespace flashmoe::testing
