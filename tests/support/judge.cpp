// An implementation is entitled to these errors and no more:
//
// 1. One rounding of the result to the output's format: half the spacing at o.
// 2. One rounding of each weight to the tensors' format before it meets v (the tensor units take operands of that
//    width, and PyTorch does the same): u * sum p|v|.
// 3. fp32 accumulation over the keys, and over D in each score: n * 2^-24 of the sum of magnitudes, the classic bound
//    for any order of summation. A few operations more for the scale, the shift by the maximum and exp.
// 4. fp16 scores may come from operands split into two bf16 halves without the product of the low halves:
//    2^-8 * 2^-8 of the sum of magnitudes.
//
// An error of d in the scores changes the weights by a factor within exp(+-2d) (2: the normalisation moves as well).
#include "support/judge.hpp"

#include <algorithm>
#include <cmath>
#include <sstream>

#include "kernels/reference/attention.hpp"
#include "support/number_format.hpp"

namespace flashmoe::testing {
namespace {

constexpr double kFloatRoundoff = 0x1p-24;
constexpr double kSmallestNormalFloat = 0x1p-126;  // vector units may flush what is below
constexpr int64_t kExtraOperations = 8;
constexpr double kLseTolerance = 1e-4;  // the promise; wider only where one fp32 score already is

}  // namespace

OracleAnswer::OracleAnswer(const AttentionCase& one) {
  const fms_attention_problem& p = one.problem();
  const auto rows = static_cast<size_t>(p.batch * p.q_heads * p.q_len);
  lse.resize(rows);
  score_magnitude.resize(rows);
  o.resize(rows * static_cast<size_t>(p.head_dim));
  o_magnitude.resize(o.size());
  reference::AttentionOutputs outputs;
  outputs.o = o.data();
  outputs.lse = lse.data();
  outputs.o_magnitude = o_magnitude.data();
  outputs.score_magnitude = score_magnitude.data();
  reference::attention(p, one.args(), outputs);
}

double score_error_bound(fms_dtype dtype, int64_t head_dim, double score_magnitude, double softcap) {
  const double operations = static_cast<double>(head_dim + kExtraOperations);
  const double split_operands = dtype == FMS_F16 ? 0x1p-16 : 0.0;
  const double tanh_error = softcap * kExtraOperations * kFloatRoundoff;
  return score_magnitude * (operations * kFloatRoundoff + split_operands) + tanh_error;
}

Judgement judge(const AttentionCase& one, const OracleAnswer& oracle) {
  const fms_attention_problem& p = one.problem();
  Judgement judgement;
  const auto complain = [&](int64_t b, int64_t h, int64_t i, int64_t d, double got, double expected, double bound) {
    if (!judgement.complaint.empty()) {
      return;
    }
    std::ostringstream text;
    text.precision(9);
    text << (d < 0 ? "lse" : "o") << "[b=" << b << ", h=" << h << ", i=" << i;
    if (d >= 0) {
      text << ", d=" << d;
    }
    text << "] is " << got << ", expected " << expected << " within " << bound;
    judgement.complaint = text.str();
  };
  for (int64_t b = 0; b < p.batch; ++b) {
    const double accumulation = static_cast<double>(one.kv_length(b) + kExtraOperations) * kFloatRoundoff;
    for (int64_t h = 0; h < p.q_heads; ++h) {
      for (int64_t i = 0; i < one.q_length(b); ++i) {
        const int64_t row = (b * p.q_heads + h) * p.q_len + i;
        const double score_error =
            score_error_bound(p.dtype, p.head_dim, oracle.score_magnitude[row], static_cast<double>(p.softcap));
        const double weight_error = unit_roundoff(p.dtype) + accumulation + std::expm1(2 * score_error);
        for (int64_t d = 0; d < p.head_dim; ++d) {
          const int64_t element = row * p.head_dim + d;
          const double got = one.o_value(one.o_offset(b, h, i) + d);
          const double expected = oracle.o[element];
          if (!std::isfinite(expected)) {
            // Which of NaN and infinity is left open, except that a poisoned row is NaN throughout.
            const bool as_promised = std::isnan(oracle.lse[row]) ? std::isnan(got) : !std::isfinite(got);
            if (!as_promised) {
              complain(b, h, i, d, got, expected, 0);
            }
            continue;
          }
          const bool no_weight = oracle.o_magnitude[element] == 0 && std::isinf(oracle.lse[row]);
          const double bound = no_weight ? 0
                                         : spacing_at(p.dtype, expected) / 2 +
                                               weight_error * oracle.o_magnitude[element] + kSmallestNormalFloat;
          const double error = std::abs(got - expected);
          if (!(error <= bound)) {
            complain(b, h, i, d, got, expected, bound);
          }
          if (bound > 0) {
            judgement.worst_error_over_bound = std::max(judgement.worst_error_over_bound, error / bound);
            judgement.squared_errors_over_bounds += error / bound * (error / bound);
            ++judgement.elements;
          }
        }
        if (one.has(FMS_LSE)) {
          const double got = one.lse_value(one.lse_offset(b, h, i));
          const double expected = oracle.lse[row];
          const double bound = std::max(kLseTolerance, score_error + std::abs(expected) * kFloatRoundoff);
          const bool matches = std::isnan(expected)   ? std::isnan(got)
                               : std::isinf(expected) ? got == expected
                                                      : std::abs(got - expected) <= bound;
          if (!matches) {
            complain(b, h, i, -1, got, expected, bound);
          }
          if (std::isfinite(expected) && std::isfinite(got)) {
            judgement.worst_lse_error = std::max(judgement.worst_lse_error, std::abs(got - expected));
          }
        }
      }
    }
  }
  return judgement;
}

}  // namespace flashmoe::testing
