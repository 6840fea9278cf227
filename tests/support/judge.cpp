// An implementation is entitled to these errors and no more:
//
// 1. One rounding of the result to the output's format: half the spacing at o.
// 2. One rounding of each weight to the tensors' format before it meets v (the tensor units take operands of that
//    width, and PyTorch does the same): u * sum p|v|.
// 3. fp32 accumulation over the keys, and over D in each score: n * 2^-24 of the sum of magnitudes, the classic bound
//    for any order of summation. A few operations more for the scale, the shift by the maximum and exp.
// 4. fp16 scores may come from operands split into two bf16 halves without the product of the low halves:
//    2^-8 * 2^-8 of the sum of magnitudes, as long as that is within the promise for the log-sum-exp.
//
// An error of d in the scores changes the weights by a factor within exp(+-2d) (2: the normalisation moves as well).
// Scores so large that d exceeds 1 leave the weights open, and beyond fp32's range they are infinite: of such rows
// nothing is asked but, in the first case, a finite answer.
#include "support/judge.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <sstream>

#include "kernels/reference/attention.hpp"
#include "support/number_format.hpp"

namespace flashmoe::testing {
namespace {

constexpr double kFloatRoundoff = 0x1p-24;
constexpr double kSmallestNormalFloat = 0x1p-126;  // units may flush what is below, of each key's weight or product
constexpr int64_t kExtraOperations = 8;
constexpr double kLargestScoreError = 1.0;
constexpr double kLargestScore = 0x1p127;
constexpr double kLseTolerance = 1e-4;  // the promise; wider only where one fp32 score already is

}  // namespace

OracleAnswer::OracleAnswer(const AttentionCase& one) {
  const fms_attention_problem& p = one.problem();
  const auto rows = static_cast<size_t>(p.batch * p.q_heads * p.q_len);
  lse.resize(rows);
  score_magnitude.resize(rows);
  o.resize(rows * static_cast<size_t>(p.value_dim));
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
  const double left_out = dtype == FMS_F16 ? std::min(0x1p-16 * score_magnitude, kLseTolerance) : 0.0;
  const double tanh_error = softcap * kExtraOperations * kFloatRoundoff;
  return score_magnitude * operations * kFloatRoundoff + left_out + tanh_error;
}

namespace {

class RowJudge {
 public:
  RowJudge(const AttentionCase& one, const OracleAnswer& oracle, Judgement& judgement, int64_t b, int64_t h, int64_t i)
      : one_(one),
        oracle_(oracle),
        judgement_(judgement),
        b_(b),
        h_(h),
        i_(i),
        row_((b * one.problem().q_heads + h) * one.problem().q_len + i),
        score_error_(score_error_bound(one.problem().dtype, one.problem().head_dim, oracle.score_magnitude[row_],
                                       static_cast<double>(one.problem().softcap))) {}

  void judge() {
    if (oracle_.score_magnitude[row_] > kLargestScore) {
      return;
    }
    for (int64_t d = 0; d < one_.problem().value_dim; ++d) {
      judge_element(d);
    }
    if (one_.has(FMS_LSE)) {
      judge_lse();
    }
  }

 private:
  void judge_element(int64_t d) {
    const fms_dtype dtype = one_.problem().dtype;
    const int64_t element = row_ * one_.problem().value_dim + d;
    const double got = one_.o_value(one_.o_offset(b_, h_, i_) + d);
    const double expected = oracle_.o[element], magnitude = oracle_.o_magnitude[element];
    if (!std::isfinite(expected)) {
      // Which of NaN and infinity is left open, except that a poisoned row is NaN throughout.
      const bool as_promised = std::isnan(oracle_.lse[row_]) ? std::isnan(got) : !std::isfinite(got);
      if (!as_promised) {
        complain("o", d, got, expected, 0);
      }
      return;
    }
    const bool no_weight = magnitude == 0 && std::isinf(oracle_.lse[row_]);
    if (no_weight && got != 0) {
      complain("o", d, got, expected, 0);
    }
    if (no_weight) {
      return;
    }
    if (score_error_ > kLargestScoreError) {
      if (!std::isfinite(got)) {
        complain("o", d, got, expected, std::numeric_limits<double>::infinity());
      }
      return;
    }
    const auto operations = static_cast<double>(one_.kv_length(b_) + kExtraOperations);
    const double weight_error = unit_roundoff(dtype) + operations * kFloatRoundoff + std::expm1(2 * score_error_);
    const double bound = spacing_at(dtype, expected) / 2 + weight_error * magnitude + operations * kSmallestNormalFloat;
    const double error = std::abs(got - expected);
    if (!(error <= bound)) {
      complain("o", d, got, expected, bound);
    }
    judgement_.worst_error_over_bound = std::max(judgement_.worst_error_over_bound, error / bound);
    judgement_.squared_errors_over_bounds += error / bound * (error / bound);
    ++judgement_.elements;
  }

  void judge_lse() {
    const double got = one_.lse_value(one_.lse_offset(b_, h_, i_));
    const double expected = oracle_.lse[row_];
    const double bound = std::max(kLseTolerance, score_error_ + std::abs(expected) * kFloatRoundoff);
    const bool matches = std::isnan(expected)   ? std::isnan(got)
                         : std::isinf(expected) ? got == expected
                                                : std::abs(got - expected) <= bound;
    if (!matches) {
      complain("lse", -1, got, expected, bound);
    }
    if (std::isfinite(expected) && std::isfinite(got)) {
      judgement_.worst_lse_error = std::max(judgement_.worst_lse_error, std::abs(got - expected));
    }
  }

  void complain(const char* name, int64_t d, double got, double expected, double bound) {
    if (!judgement_.complaint.empty()) {
      return;
    }
    std::ostringstream text;
    text.precision(9);
    text << name << "[b=" << b_ << ", h=" << h_ << ", i=" << i_;
    if (d >= 0) {
      text << ", d=" << d;
    }
    text << "] is " << got << ", expected " << expected << " within " << bound;
    judgement_.complaint = text.str();
  }

  const AttentionCase& one_;
  const OracleAnswer& oracle_;
  Judgement& judgement_;
  int64_t b_, h_, i_, row_;
  double score_error_;
};

}  // namespace

Judgement judge(const AttentionCase& one, const OracleAnswer& oracle) {
  Judgement judgement;
  for (int64_t b = 0; b < one.problem().batch; ++b) {
    for (int64_t h = 0; h < one.problem().q_heads; ++h) {
      for (int64_t i = 0; i < one.q_length(b); ++i) {
        RowJudge(one, oracle, judgement, b, h, i).judge();
      }
    }
  }
  return judgement;
}

}  // namespace flashmoe::testing
