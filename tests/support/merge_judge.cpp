#include "support/merge_judge.hpp"

#include <algorithm>
#include <cmath>

#include "kernels/reference/attention.hpp"
#include "support/number_format.hpp"

namespace flashmoe::testing {
namespace {

constexpr double float_roundoff = 0x1p-24, smallest_normal_float = 0x1p-126;
constexpr double steps = 20;

int64_t row_at(const fms_strides& strides, int64_t b, int64_t h, int64_t i) {
  return b * strides.batch + h * strides.head + i * strides.seq;
}

void judge_one(Judgement& judgement, size_t row, double got, double wanted, double bound) {
  const bool is_right = std::isfinite(wanted) ? std::abs(got - wanted) <= bound
                        : std::isnan(wanted)  ? std::isnan(got)
                                              : got == wanted;
  if (!is_right && judgement.complaint.empty())
    judgement.complaint =
        "row " + std::to_string(row) + ": " + std::to_string(got) + ", the oracle " + std::to_string(wanted);
  if (std::isfinite(wanted) && bound > 0)
    judgement.worst_error_over_bound = std::max(judgement.worst_error_over_bound, std::abs(got - wanted) / bound);
}

}  // namespace

Judgement judge_merge(const fms_merge_problem& p, const MergedStates& states) {
  const auto rows = static_cast<size_t>(p.batch * p.heads * p.len);
  const auto dim = static_cast<size_t>(p.head_dim);
  std::vector<double> right(rows * dim), right_lse(rows);
  reference::merge(p, states.o_a, states.lse_a, states.o_b, states.lse_b, right.data(), right_lse.data());
  Judgement judgement;
  for (size_t row = 0; row < rows; ++row) {
    const auto i = static_cast<int64_t>(row) % p.len, h = static_cast<int64_t>(row) / p.len % p.heads;
    const auto b = static_cast<int64_t>(row) / p.len / p.heads;
    const double sums[2] = {states.lse_a[row_at(p.lse_a, b, h, i)], states.lse_b[row_at(p.lse_b, b, h, i)]};
    const double whole = right_lse[row], top = std::max(sums[0], sums[1]);
    judge_one(judgement, row, states.lse[row_at(p.lse, b, h, i)], whole, (std::abs(whole) + steps) * float_roundoff);
    const void* const parts[2] = {states.o_a, states.o_b};
    const int64_t begins[2] = {row_at(p.o_a, b, h, i), row_at(p.o_b, b, h, i)};
    for (int64_t d = 0; d < p.head_dim; ++d) {
      const double wanted = right[row * dim + static_cast<size_t>(d)];
      double bound = spacing_at(p.dtype, wanted) / 2;
      for (int part = 0; part < 2; ++part) {
        if (std::isinf(sums[part])) continue;
        const double weight = std::exp(sums[part] - whole);
        const double value = std::abs(load(parts[part], p.dtype, begins[part] + d));
        bound += value * (weight * (top - sums[part] + steps) * float_roundoff + smallest_normal_float);
      }
      judge_one(judgement, row, load(states.o, p.dtype, row_at(p.o, b, h, i) + d), wanted, bound);
    }
  }
  return judgement;
}

}  // namespace flashmoe::testing
