// Attention over some of the keys, merged with attention over the others, is attention over all of them.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <tuple>
#include <vector>

#include "kernels/reference/attention.hpp"
#include "support/judge.hpp"
#include "support/number_format.hpp"
#include "support/simple_case.hpp"

namespace flashmoe::testing {
namespace {

constexpr float kNothingSeen = -std::numeric_limits<float>::infinity();  // the LSE of no key
constexpr double kMergeRoundoff = 0x1p-24;

class MergeLaws : public ::testing::TestWithParam<std::tuple<fms_cpu_isa, fms_dtype>> {
 protected:
  fms_dtype dtype() const { return std::get<1>(GetParam()); }
  Context context_ = make_context(std::get<0>(GetParam()));

  // The same data as `whole`, with only the keys first ... last - 1.
  AttentionCase part_of(const AttentionCase& whole, int64_t first, int64_t last) const {
    fms_attention_problem problem = whole.problem();
    problem.kv_len = last - first;
    AttentionCase part = normal_case(problem);
    const fms_attention_args args = whole.args();
    for (int64_t b = 0; b < problem.batch; ++b) {
      for (int64_t g = 0; g < problem.kv_heads; ++g) {
        for (int64_t j = first; j < last; ++j) {
          for (int64_t d = 0; d < problem.head_dim; ++d) {
            part.set(Tensor::kK, part.k_offset(b, g, j - first) + d,
                     load(args.k, dtype(), whole.k_offset(b, g, j) + d));
            part.set(Tensor::kV, part.v_offset(b, g, j - first) + d,
                     load(args.v, dtype(), whole.v_offset(b, g, j) + d));
          }
        }
      }
    }
    return part;
  }
};

TEST_P(MergeLaws, SplitAndMergeIsTheWhole) {
  for (const Shape& shape : kLawShapes) {
    const fms_attention_problem problem = simple_problem(dtype(), shape);
    AttentionCase whole = normal_case(problem);
    const OracleAnswer oracle(whole);
    for (const int64_t cut : {int64_t{0}, int64_t{1}, shape.kv_len / 2, shape.kv_len}) {
      AttentionCase first = part_of(whole, 0, cut);
      AttentionCase second = part_of(whole, cut, shape.kv_len);
      // part_of draws q first from the same seed, so the queries are the whole's.
      ASSERT_EQ(first.q_value(3), whole.q_value(3));
      ASSERT_EQ(plan_and_run(context_.get(), first).status, FMS_OK);
      ASSERT_EQ(plan_and_run(context_.get(), second).status, FMS_OK);
      fms_merge_problem merge;
      fms_merge_problem_init(&merge, dtype(), shape.batch, shape.q_heads, shape.q_len, shape.head_dim);
      const fms_attention_args a = first.args(), b = second.args(), out = whole.args();
      fms_error error{};
      ASSERT_EQ(fms_merge_states(context_.get(), &merge, a.o, a.lse, b.o, b.lse, out.o, out.lse, nullptr, &error),
                FMS_OK)
          << to_string(error);
      const int64_t rows = shape.batch * shape.q_heads * shape.q_len;
      for (int64_t row = 0; row < rows; ++row) {
        const double score_error = score_error_bound(dtype(), shape.head_dim, oracle.score_magnitude[row], 0);
        for (int64_t d = 0; d < shape.head_dim; ++d) {
          const int64_t element = row * shape.head_dim + d;
          const double accumulation = static_cast<double>(shape.kv_len + 16) * kMergeRoundoff;
          // Two roundings of o instead of one: each part was stored in the dtype before it was merged.
          const double bound =
              spacing_at(dtype(), oracle.o[element]) / 2 +
              (2 * unit_roundoff(dtype()) + accumulation + std::expm1(2 * score_error)) * oracle.o_magnitude[element];
          ASSERT_NEAR(whole.o_value(element), oracle.o[element], bound) << "cut " << cut << ' ' << whole.describe();
        }
        ASSERT_NEAR(whole.lse_value(row), oracle.lse[row], 1e-4) << "cut " << cut << ' ' << whole.describe();
      }
      if (cut == 0) {
        EXPECT_EQ(whole.output_bytes(), second.output_bytes()) << "a part without keys changes nothing";
      } else if (cut == shape.kv_len) {
        EXPECT_EQ(whole.output_bytes(), first.output_bytes()) << "a part without keys changes nothing";
      }
    }
  }
}

struct States {
  std::vector<uint8_t> o;
  std::vector<float> lse;
};

States random_states(Random& random, fms_dtype dtype, const fms_merge_problem& problem, const fms_strides& o,
                     const fms_strides& lse) {
  States states;
  const auto extent = [&](const fms_strides& stride, int64_t innermost) {
    return (problem.batch - 1) * stride.batch + (problem.heads - 1) * stride.head + (problem.len - 1) * stride.seq +
           innermost;
  };
  states.o.resize(static_cast<size_t>(extent(o, problem.head_dim)) * element_bytes(dtype));
  states.lse.resize(static_cast<size_t>(extent(lse, 1)));
  for (size_t at = 0; at < states.o.size() / element_bytes(dtype); ++at) {
    store(states.o.data(), dtype, static_cast<int64_t>(at), random.normal());
  }
  for (float& value : states.lse) {
    value = random.chance(0.2) ? kNothingSeen : static_cast<float>(20 * random.normal());
  }
  return states;
}

fms_merge_problem strided_merge(fms_dtype dtype, int64_t head_dim) {
  fms_merge_problem problem;
  fms_merge_problem_init(&problem, dtype, 2, 3, 17, head_dim);
  problem.o_a = {17 * 3 * head_dim + 5, head_dim, 3 * head_dim};  // (B,S,H,D), padded
  problem.lse_b = {200, 1, 3};
  return problem;
}

TEST_P(MergeLaws, AgreesWithTheOracleForAnyStrides) {
  Random random(11);
  for (const int64_t head_dim : {1, 20, 64, 129, 256}) {
    const fms_merge_problem problem = strided_merge(dtype(), head_dim);
    const States a = random_states(random, dtype(), problem, problem.o_a, problem.lse_a);
    const States b = random_states(random, dtype(), problem, problem.o_b, problem.lse_b);
    States out = random_states(random, dtype(), problem, problem.o, problem.lse);
    std::vector<double> o(static_cast<size_t>(2 * 3 * 17 * head_dim)), lse(2 * 3 * 17);
    reference::merge(problem, a.o.data(), a.lse.data(), b.o.data(), b.lse.data(), o.data(), lse.data());
    fms_error error{};
    ASSERT_EQ(fms_merge_states(context_.get(), &problem, a.o.data(), a.lse.data(), b.o.data(), b.lse.data(),
                               out.o.data(), out.lse.data(), nullptr, &error),
              FMS_OK)
        << to_string(error);
    for (size_t row = 0; row < lse.size(); ++row) {
      if (std::isinf(lse[row])) {
        EXPECT_EQ(out.lse[row], lse[row]);
      } else {
        EXPECT_NEAR(out.lse[row], lse[row], 1e-5);
      }
      for (int64_t d = 0; d < head_dim; ++d) {
        const auto element = static_cast<int64_t>(row) * head_dim + d;
        // The weights come from differences of log-sum-exps up to 100, in fp32.
        const double bound = spacing_at(dtype(), o[element]) / 2 + 100 * 8 * kMergeRoundoff;
        EXPECT_NEAR(load(out.o.data(), dtype(), element), o[element], bound) << "row " << row << " d " << d;
      }
    }
  }
}

TEST_P(MergeLaws, TheOutputMayBeAnInput) {
  Random random(12);
  fms_merge_problem problem;
  fms_merge_problem_init(&problem, dtype(), 1, 2, 33, 72);
  const States a = random_states(random, dtype(), problem, problem.o, problem.lse);
  const States b = random_states(random, dtype(), problem, problem.o, problem.lse);
  States apart = a, into_a = a, into_b = b;
  const auto merge = [&](const States& x, const States& y, States& out) {
    return fms_merge_states(context_.get(), &problem, x.o.data(), x.lse.data(), y.o.data(), y.lse.data(), out.o.data(),
                            out.lse.data(), nullptr, nullptr);
  };
  ASSERT_EQ(merge(a, b, apart), FMS_OK);
  ASSERT_EQ(merge(into_a, b, into_a), FMS_OK);
  ASSERT_EQ(merge(a, into_b, into_b), FMS_OK);
  EXPECT_EQ(apart.o, into_a.o);
  EXPECT_EQ(apart.lse, into_a.lse);
  EXPECT_EQ(apart.o, into_b.o);
  EXPECT_EQ(apart.lse, into_b.lse);
}

TEST_P(MergeLaws, ATinyWeightDoesNotHideNaN) {
  Random random(14);
  fms_merge_problem problem;
  fms_merge_problem_init(&problem, dtype(), 1, 1, 5, 40);
  States a = random_states(random, dtype(), problem, problem.o, problem.lse);
  States b = a;
  States out = a;
  std::fill(a.lse.begin(), a.lse.end(), 0.0f);
  std::fill(b.lse.begin(), b.lse.end(), -110.0f);    // exp(-110) is 0 in fp32
  std::fill(b.o.begin(), b.o.end(), uint8_t{0xff});  // NaN
  ASSERT_EQ(fms_merge_states(context_.get(), &problem, a.o.data(), a.lse.data(), b.o.data(), b.lse.data(), out.o.data(),
                             out.lse.data(), nullptr, nullptr),
            FMS_OK);
  EXPECT_NE(out.o, a.o);
}

TEST_P(MergeLaws, APartWithoutWeightMayHoldAnything) {
  Random random(13);
  fms_merge_problem problem;
  fms_merge_problem_init(&problem, dtype(), 1, 1, 5, 40);
  States a = random_states(random, dtype(), problem, problem.o, problem.lse);
  States b = random_states(random, dtype(), problem, problem.o, problem.lse);
  States out = a;
  std::fill(b.o.begin(), b.o.end(), uint8_t{0xff});  // NaN
  std::fill(b.lse.begin(), b.lse.end(), kNothingSeen);
  std::fill(a.lse.begin(), a.lse.end(), 1.25f);
  for (const bool swapped : {false, true}) {
    const States &x = swapped ? b : a, &y = swapped ? a : b;
    ASSERT_EQ(fms_merge_states(context_.get(), &problem, x.o.data(), x.lse.data(), y.o.data(), y.lse.data(),
                               out.o.data(), out.lse.data(), nullptr, nullptr),
              FMS_OK);
    EXPECT_EQ(out.o, a.o);
    EXPECT_EQ(out.lse, a.lse);
  }
  ASSERT_EQ(fms_merge_states(context_.get(), &problem, b.o.data(), b.lse.data(), b.o.data(), b.lse.data(), out.o.data(),
                             out.lse.data(), nullptr, nullptr),
            FMS_OK);
  EXPECT_EQ(out.lse, b.lse);
  EXPECT_EQ(out.o, std::vector<uint8_t>(out.o.size(), 0)) << "nothing merged with nothing is zero";
}

std::string merge_law_name(const ::testing::TestParamInfo<std::tuple<fms_cpu_isa, fms_dtype>>& param_info) {
  return std::string(fms_cpu_isa_name(std::get<0>(param_info.param))) + "_" + dtype_name(std::get<1>(param_info.param));
}

INSTANTIATE_TEST_SUITE_P(EveryIsa, MergeLaws,
                         ::testing::Combine(::testing::ValuesIn(available_isas()), ::testing::ValuesIn(kAllDtypes)),
                         merge_law_name);

}  // namespace
}  // namespace flashmoe::testing
