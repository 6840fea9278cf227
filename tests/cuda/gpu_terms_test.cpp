// Values of another size than keys, a second bias and biases of groups on the virtual GPU with every check on, by the
// kernels that the library has inside: there is no NVRTC here.
#include <gtest/gtest.h>

#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "cuda/core_set.hpp"
#include "cuda/gpu_run.hpp"
#include "kernels/cuda/launch/instances.hpp"
#include "support/judge.hpp"

namespace flashmoe::testing {
namespace {

constexpr float infinity_f32 = std::numeric_limits<float>::infinity(),
                nan_f32 = std::numeric_limits<float>::quiet_NaN();

const Gpu& terms_gpu() {
  static const Gpu only;
  return only;
}

// Runs and judges; the kernel's name.
std::string run(AttentionCase& one, const fms_plan_options& options) {
  one.reset_outputs();
  const RunResult result = terms_gpu().run(one, &options);
  EXPECT_EQ(result.status, FMS_OK) << to_string(result.error);
  if (result.status != FMS_OK) return "";
  EXPECT_EQ(judge(one, OracleAnswer(one)).complaint, "");
  EXPECT_EQ(one.stray_write().value_or(""), "");
  const auto findings = terms_gpu().findings();
  EXPECT_TRUE(findings.empty()) << findings.front().substr(0, 600);
  return cuda::axes_of(result.plan.instance).name();
}

struct Way {
  const char* name;
  int32_t q_tile, splits;
  std::function<void(CoreProblem&)> change;
};

const Way ways[] = {
    {"all keys, whole blocks", 64, 1, [](CoreProblem&) {}},
    {"causal", 64, 1, [](CoreProblem& c) { c.problem.window_right = 0; }},
    {"a window", 64, 1,
     [](CoreProblem& c) {
       c.problem.window_left = 70;
       c.problem.window_right = 3;
     }},
    {"decode, split", 16, 5, [](CoreProblem&) {}},
    {"causal, split", 64, 3, [](CoreProblem& c) { c.problem.window_right = 0; }},
    {"sinks, a negative scale", 16, 1,
     [](CoreProblem& c) {
       c.problem.features |= FMS_SINKS;
       c.problem.softmax_scale = -c.problem.softmax_scale;
     }},
    {"lengths, listed", 0, 0,
     [](CoreProblem& c) {
       c.problem.features |= FMS_KV_LENGTHS;
       c.indices.kv_lengths = {0, 333};
     }},
    {"lengths, in a grid", 64, 2,
     [](CoreProblem& c) {
       c.problem.features |= FMS_KV_LENGTHS;
       c.indices.kv_lengths = {333, 17};
     }},
};

struct Sizes {
  int64_t head_dim, value_dim;
};

TEST(GpuValues, OfAnotherSizeRunInWhatTheLibraryHasInside) {
  // The instance's own; smaller ones; longer values than keys; a size that is copied element by element.
  constexpr Sizes all[] = {{192, 128}, {96, 64}, {64, 128}, {40, 37}};
  for (const fms_dtype dtype : {FMS_F16, FMS_BF16})
    for (const Sizes& sizes : all)
      for (const Way& way : ways) {
        if (sizes.head_dim != 192 && dtype == FMS_BF16) continue;
        SCOPED_TRACE(std::string(way.name) + ", " + std::to_string(sizes.head_dim) + "/" +
                     std::to_string(sizes.value_dim));
        CoreProblem core{way.name,
                         simple_problem(dtype, {2, 4, 2, 33, 333, sizes.head_dim}),
                         {},
                         plan_options(0, way.splits, way.q_tile)};
        set_value_dim(core, sizes.value_dim);
        way.change(core);
        AttentionCase one = core.with_data();
        EXPECT_NE(run(one, core.options).find("_d192_v128_"), std::string::npos);
      }
}

TEST(GpuValues, ThatNobodyMaySeeMayBeNaN) {
  CoreProblem core{"", simple_problem(FMS_F16, {1, 1, 1, 50, 90, 192}), {}, plan_options(0, 1, 64)};
  core.problem.window_right = 0;
  set_value_dim(core, 128);
  AttentionCase one = core.with_data();
  for (const int64_t key : {45, 70, 89})
    one.set(Tensor::kV, one.v_offset(0, 0, key) + key, key == 70 ? nan_f32 : infinity_f32);
  run(one, core.options);
}

// What pair attention adds: a bias that neighbours of the batch share, and a mask of keys.
CoreProblem two_terms(fms_dtype dtype, const Shape& shape, fms_dtype bias_dtype, fms_dtype bias2_dtype, int64_t group) {
  CoreProblem core{"", simple_problem(dtype, shape), {}, {}};
  fms_attention_problem& p = core.problem;
  p.features |= FMS_BIAS | FMS_BIAS2;
  p.bias_dtype = bias_dtype;
  p.bias = {p.q_heads * p.q_len * p.kv_len, p.q_len * p.kv_len, p.kv_len, 1, group};
  p.bias2_dtype = bias2_dtype;
  p.bias2 = {p.kv_len, 0, 0, 1, 1};
  return core;
}

TEST(GpuBiases, TwoTermsAndGroupsInEveryWay) {
  constexpr fms_dtype dtypes[] = {FMS_F16, FMS_BF16, FMS_F32};
  int drawn = 0;
  // Rows of 336 begin where four elements can be read at once, those of 333 seldom.
  for (const int64_t kv_len : {333, 336})
    for (const Way& way : ways) {
      const fms_dtype dtype = drawn % 2 == 0 ? FMS_F16 : FMS_BF16;
      const int64_t dim = drawn % 3 == 0 ? 128 : kv_len == 333 ? 64 : 32;
      const int64_t group = 1 + drawn % 3;
      const Shape shape{2, 4, 2, 33, kv_len, dim};
      CoreProblem core = two_terms(dtype, shape, dtypes[drawn % 3], dtypes[(drawn + 1) % 3], group);
      SCOPED_TRACE(std::string(way.name) + ", groups of " + std::to_string(group));
      way.change(core);
      AttentionCase one = core.with_data();
      EXPECT_NE(run(one, plan_options(0, way.splits, way.q_tile)).find("_modified"), std::string::npos);
      ++drawn;
    }
}

TEST(GpuBiases, GroupsThatDoNotDivideTheBatchAndASecondTermAlone) {
  CoreProblem core = two_terms(FMS_F16, {5, 2, 1, 9, 70, 64}, FMS_F32, FMS_BF16, 2);
  core.problem.bias2.group = 3;
  AttentionCase both = core.with_data();
  run(both, plan_options(0, 1, 32));
  core.problem.features &= ~static_cast<uint32_t>(FMS_BIAS);
  AttentionCase second = core.with_data();
  run(second, plan_options(0, 1, 16));
}

TEST(GpuBiases, NaNAndInfinityInEitherTerm) {
  for (const Tensor tensor : {Tensor::kBias, Tensor::kBias2})
    for (const float wild : {-infinity_f32, infinity_f32, nan_f32}) {
      SCOPED_TRACE(wild);
      CoreProblem core = two_terms(FMS_BF16, {2, 2, 1, 20, 150, 64}, FMS_F32, FMS_F16, 2);
      AttentionCase one = core.with_data();
      const bool is_first = tensor == Tensor::kBias;
      const auto at = [&](int64_t row, int64_t key) {
        return is_first ? one.bias_offset(1, 1, row, key) : one.bias2_offset(1, 1, row, key);
      };
      one.set(tensor, at(7, 100), wild);
      // A whole row of -inf sees nothing.
      for (int64_t key = 0; wild == -infinity_f32 && key < core.problem.kv_len; ++key)
        one.set(tensor, at(11, key), wild);
      run(one, plan_options(0, 2, 32));
    }
}

}  // namespace
}  // namespace flashmoe::testing
