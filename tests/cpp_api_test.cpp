// The C++ layer adds lifetimes, values and exceptions to the C ABI, and nothing to the numerics: that is what is
// tested.
#include <flashmoe/attention.hpp>

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <type_traits>
#include <utility>
#include <vector>

namespace {

using flashmoe::Context;
using flashmoe::Error;
using flashmoe::Layout;
using flashmoe::Plan;
using flashmoe::Problem;
using flashmoe::Workspace;

static_assert(std::is_copy_constructible_v<Problem> && std::is_copy_constructible_v<Plan>);
static_assert(!std::is_copy_constructible_v<Context> && std::is_nothrow_move_constructible_v<Context>);

std::vector<float> ramp(std::int64_t elements, float step) {
  std::vector<float> values(static_cast<std::size_t>(elements));
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = std::sin(static_cast<float>(i) * step);
  return values;
}

// (B, H, S, D) -> (B, S, H, D)
std::vector<float> transposed(const std::vector<float>& bhsd, std::int64_t heads, std::int64_t rows, std::int64_t dim) {
  std::vector<float> bshd(bhsd.size());
  const auto batch = static_cast<std::int64_t>(bhsd.size()) / (heads * rows * dim);
  for (std::int64_t b = 0; b < batch; ++b)
    for (std::int64_t h = 0; h < heads; ++h)
      for (std::int64_t s = 0; s < rows; ++s)
        for (std::int64_t d = 0; d < dim; ++d)
          bshd[static_cast<std::size_t>(((b * rows + s) * heads + h) * dim + d)] =
              bhsd[static_cast<std::size_t>(((b * heads + h) * rows + s) * dim + d)];
  return bshd;
}

TEST(CppProblem, DefaultsFollowTheQueries) {
  const Problem problem(FMS_F16, {.batch = 2, .q_heads = 4, .q_len = 7, .head_dim = 32});
  EXPECT_EQ(problem.raw().kv_heads, 4);
  EXPECT_EQ(problem.raw().kv_len, 7);
  EXPECT_EQ(problem.raw().window_left, -1);
  EXPECT_EQ(problem.raw().window_right, -1);
  EXPECT_FLOAT_EQ(problem.raw().softmax_scale, 1.0f / std::sqrt(32.0f));
  EXPECT_NO_THROW(problem.check());
}

TEST(CppProblem, SettersReachTheCStruct) {
  const fms_bias_strides strides{.batch = 0, .head = 0, .q = 9, .kv = 1, .group = 1};
  const Problem problem = Problem(FMS_BF16, {.q_heads = 4, .kv_heads = 2, .q_len = 3, .kv_len = 9, .head_dim = 8})
                              .causal()
                              .softmax_scale(0.25f)
                              .softcap(30.0f)
                              .lse()
                              .sinks()
                              .bias(FMS_F32, strides);
  EXPECT_EQ(problem.raw().features, static_cast<std::uint32_t>(FMS_LSE | FMS_SINKS | FMS_BIAS));
  EXPECT_EQ(problem.raw().window_right, 0);
  EXPECT_EQ(problem.raw().softmax_scale, 0.25f);
  EXPECT_EQ(problem.raw().softcap, 30.0f);
  EXPECT_EQ(problem.raw().bias_dtype, FMS_F32);
  EXPECT_EQ(problem.raw().bias.q, 9);
  EXPECT_NO_THROW(problem.check());
}

TEST(CppProblem, ErrorNamesTheArgument) {
  const Problem problem(FMS_F32, {.q_heads = 4, .kv_heads = 3});
  try {
    problem.check();
    FAIL() << "3 kv heads do not divide 4 query heads";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), FMS_INVALID_ARGUMENT);
    EXPECT_STREQ(error.argument(), "problem.kv_heads");
    EXPECT_NE(std::string(error.what()).find('3'), std::string::npos) << error.what();
  }
}

TEST(CppPlan, IsAValue) {
  const Context context(FMS_ISA_SCALAR);
  const Problem problem(FMS_F32, {.q_len = 16});
  const Plan plan = context.plan(problem, {.threads = 1});
  const Plan copy = plan;
  EXPECT_EQ(plan, copy);
  EXPECT_EQ(plan, context.plan(problem, {.threads = 1}));
  EXPECT_NE(plan, context.plan(Problem(problem).causal(), {.threads = 1}));
  EXPECT_EQ(plan.raw().threads, 1);
}

TEST(CppPlan, TextsAreWhole) {
  const Plan plan = Context().plan(Problem(FMS_F16, {.q_heads = 8, .q_len = 128}).causal());
  for (const std::string& text : {plan.explain(), plan.json()}) {
    EXPECT_GT(text.size(), 20u);
    EXPECT_EQ(std::strlen(text.c_str()), text.size()) << text;
  }
  EXPECT_EQ(plan.json().front(), '{');
  EXPECT_EQ(plan.json().back(), '}');
}

TEST(CppContext, MoveLeavesOneOwner) {
  Context first(FMS_ISA_SCALAR);
  const Context second = std::move(first);
  EXPECT_EQ(second.cpu_isa(), FMS_ISA_SCALAR);
}

TEST(CppContext, UnknownDeviceThrows) {
  fms_context_options options{sizeof(fms_context_options), FMS_DEVICE_CUDA, 0, FMS_ISA_AUTO};
  EXPECT_THROW(Context{options}, Error);
}

TEST(CppRun, LayoutsAgreeToTheBit) {
  constexpr flashmoe::Shape shape{.batch = 2, .q_heads = 4, .kv_heads = 2, .q_len = 5, .kv_len = 37, .head_dim = 24};
  const auto q = ramp(shape.batch * shape.q_heads * shape.q_len * shape.head_dim, 0.31f);
  const auto k = ramp(shape.batch * shape.kv_heads * shape.kv_len * shape.head_dim, 0.17f);
  const auto v = ramp(shape.batch * shape.kv_heads * shape.kv_len * shape.head_dim, 0.07f);
  const Context context;

  std::vector<float> o(q.size());
  context.run(context.plan(Problem(FMS_F32, shape).causal()),
              {.q = q.data(), .k = k.data(), .v = v.data(), .o = o.data()});

  const auto q_bshd = transposed(q, shape.q_heads, shape.q_len, shape.head_dim);
  const auto k_bshd = transposed(k, shape.kv_heads, shape.kv_len, shape.head_dim);
  const auto v_bshd = transposed(v, shape.kv_heads, shape.kv_len, shape.head_dim);
  std::vector<float> o_bshd(q.size());
  const Plan plan = context.plan(Problem(FMS_F32, shape, Layout::bshd).causal());
  const Workspace workspace(plan);
  const fms_run_info info =
      context.run(plan, {.q = q_bshd.data(), .k = k_bshd.data(), .v = v_bshd.data(), .o = o_bshd.data()}, workspace);

  EXPECT_EQ(o_bshd, transposed(o, shape.q_heads, shape.q_len, shape.head_dim));
  EXPECT_EQ(info.cpu_isa, plan.raw().cpu_isa);
  EXPECT_EQ(info.family, plan.raw().family);
}

TEST(CppRun, RaggedAndPagedKeysGiveTheDenseAnswer) {
  constexpr std::int64_t heads = 2, q_len = 3, kv_len = 8, dim = 16, page_size = 4;
  const auto q = ramp(heads * q_len * dim, 0.31f);
  const auto k = ramp(heads * kv_len * dim, 0.17f);
  const auto v = ramp(heads * kv_len * dim, 0.07f);
  const flashmoe::Shape shape{.q_heads = heads, .q_len = q_len, .kv_len = kv_len, .head_dim = dim};
  const Context context;
  std::vector<float> dense(q.size()), dense_lse(heads * q_len), other(q.size()), other_lse(heads * q_len);
  context.run(context.plan(Problem(FMS_F32, shape, Layout::bshd).causal().lse()),
              {.q = q.data(), .k = k.data(), .v = v.data(), .o = dense.data(), .lse = dense_lse.data()});

  const std::int32_t cu_q[] = {0, q_len}, cu_kv[] = {0, kv_len};
  context.run(context.plan(Problem(FMS_F32, shape).ragged_q(q_len).ragged_kv(kv_len).causal().lse()),
              {.q = q.data(),
               .k = k.data(),
               .v = v.data(),
               .o = other.data(),
               .lse = other_lse.data(),
               .cu_q = cu_q,
               .cu_kv = cu_kv});
  for (std::size_t i = 0; i < dense.size(); ++i) EXPECT_NEAR(other[i], dense[i], 1e-5f);
  for (std::size_t i = 0; i < dense_lse.size(); ++i) EXPECT_NEAR(other_lse[i], dense_lse[i], 1e-5f);

  const std::int32_t block_table[] = {0, 1}, kv_lengths[] = {kv_len};
  context.run(context.plan(Problem(FMS_F32, shape, Layout::bshd).paged_kv(page_size, 2, 2).kv_lengths().causal().lse()),
              {.q = q.data(),
               .k = k.data(),
               .v = v.data(),
               .o = other.data(),
               .lse = other_lse.data(),
               .kv_lengths = kv_lengths,
               .block_table = block_table});
  for (std::size_t i = 0; i < dense.size(); ++i) EXPECT_NEAR(other[i], dense[i], 1e-5f);
}

TEST(CppRun, MissingPointerThrows) {
  const Context context;
  const Plan plan = context.plan(Problem(FMS_F32, {.q_len = 2}));
  EXPECT_THROW(context.run(plan, {}), Error);
}

TEST(CppMerge, EqualHalvesAverage) {
  fms_merge_problem problem;
  fms_merge_problem_init(&problem, FMS_F32, 1, 1, 1, 2);
  const float o_a[] = {1, 2}, o_b[] = {3, 6}, lse_part[] = {0.5f};
  float o[2], lse[1];
  Context().merge_states(problem, {.o_a = o_a, .lse_a = lse_part, .o_b = o_b, .lse_b = lse_part, .o = o, .lse = lse});
  EXPECT_NEAR(o[0], 2.0f, 1e-6f);
  EXPECT_NEAR(o[1], 4.0f, 1e-6f);
  EXPECT_NEAR(lse[0], 0.5f + std::log(2.0f), 1e-6f);
}

}  // namespace
