// Random problems over all features on the virtual GPU with every check on, judged by the oracle.
//
//   FMS_GPU_PROBLEMS=n   problems per dtype
//   FMS_GPU_SEED=s       the first seed; with FMS_GPU_PROBLEMS=1 this replays one failure
//   VGPU_DEVICE=h100     another GPU
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <iostream>

#include "cuda/core_set.hpp"
#include "cuda/gpu_run.hpp"
#include "support/environment.hpp"
#include "support/judge.hpp"
#include "support/number_format.hpp"
#include "support/random_problem.hpp"
#include "support/sanitizers.hpp"

namespace flashmoe::testing {
namespace {

const Gpu& differential_gpu() {
  static const Gpu only;
  return only;
}

// A third of the runs leave everything to the planner.
fms_plan_options random_options(uint64_t seed, const fms_attention_problem& problem) {
  Random random(seed ^ 0x6b0);
  if (random.chance(0.33)) return plan_options(0, 0, 0);
  constexpr int32_t tiles[] = {0, 16, 64};
  int32_t splits = static_cast<int32_t>(random.chance(0.4) ? 0 : random.between(1, 9));
  if (random.chance(0.1)) splits = static_cast<int32_t>(std::clamp<int64_t>(problem.kv_len / 8, 1, 1024));
  return plan_options(0, splits, tiles[random.between(0, 2)]);
}

class GpuDifferential : public ::testing::TestWithParam<fms_dtype> {};

uint64_t problem_count() {
  return from_environment("FMS_GPU_PROBLEMS", kSlowBuild ? 6 : 25);
}

// `problems` of the random ones that `is_wanted` takes.
void run_random(fms_dtype dtype, uint64_t problems, bool (*is_wanted)(const fms_attention_problem&),
                int32_t q_tile = 0) {
  const uint64_t first_seed = from_environment("FMS_GPU_SEED", 1);
  Judgement total;
  uint64_t failures = 0, taken = 0;
  for (uint64_t seed = first_seed; taken < problems && failures < 10; ++seed) {
    AttentionCase one = random_case(seed, dtype, {.latent = false, .cpu_features = false});
    if (!is_wanted(one.problem())) continue;
    ++taken;
    const OracleAnswer oracle(one);
    fms_plan_options options = random_options(seed, one.problem());
    if (q_tile != 0) options.q_tile = q_tile;
    one.reset_outputs();
    const RunResult result = differential_gpu().run(one, &options);
    const std::string name = "seed " + std::to_string(seed) + " kv_splits=" + std::to_string(options.kv_splits) +
                             " q_tile=" + std::to_string(options.q_tile) + "\n  " + one.describe();
    if (result.status != FMS_OK) {
      ADD_FAILURE() << to_string(result.error) << "\n  " << name;
      ++failures;
      continue;
    }
    const Judgement judgement = judge(one, oracle);
    const std::string stray = one.stray_write().value_or("");
    const auto findings = differential_gpu().findings();
    if (!judgement.complaint.empty() || !stray.empty() || !findings.empty()) {
      ADD_FAILURE() << judgement.complaint << stray << (findings.empty() ? "" : findings.front().substr(0, 600))
                    << "\n  " << name;
      ++failures;
    }
    total.squared_errors_over_bounds += judgement.squared_errors_over_bounds;
    total.elements += judgement.elements;
    total.worst_error_over_bound = std::max(total.worst_error_over_bound, judgement.worst_error_over_bound);
  }
  const double rms =
      std::sqrt(total.squared_errors_over_bounds / static_cast<double>(std::max<int64_t>(total.elements, 1)));
  std::cout << "  " << dtype_name(dtype) << ": error/bound rms " << rms << ", worst " << total.worst_error_over_bound
            << " over " << total.elements << " elements (virtual)\n";
  EXPECT_LE(rms, 1 / std::sqrt(3.0));
}

TEST_P(GpuDifferential, AgreesWithTheOracleAndHasNoFinding) {
  run_random(GetParam(), problem_count(), [](const fms_attention_problem&) { return true; });
}

// Among all problems these are few.
TEST_P(GpuDifferential, ValuesOfAnotherSize) {
  run_random(GetParam(), (problem_count() + 2) / 3,
             [](const fms_attention_problem& p) { return p.value_dim != p.head_dim; });
}

// Keys of so few chunks that the swizzle moves all of them, beside values for which queries stay in shared memory.
TEST_P(GpuDifferential, ValuesMuchLongerThanKeys) {
  for (const int32_t q_tile : {16, 64}) {
    CoreProblem core{"", simple_problem(GetParam(), {1, 1, 1, 40, 150, 32}), {}, plan_options(0, 1, q_tile)};
    core.problem.window_right = 0;
    set_value_dim(core, 256);
    AttentionCase one = core.with_data();
    const RunResult result = differential_gpu().run(one, &core.options);
    ASSERT_EQ(result.status, FMS_OK) << to_string(result.error);
    EXPECT_EQ(judge(one, OracleAnswer(one)).complaint, "") << q_tile << " rows";
    EXPECT_TRUE(differential_gpu().findings().empty());
  }
}

TEST_P(GpuDifferential, TwoBiasesAndBiasesOfGroups) {
  run_random(GetParam(), (problem_count() + 2) / 3, [](const fms_attention_problem& p) {
    return p.head_dim == p.value_dim && ((p.features & FMS_BIAS2) != 0 || p.bias.group > 1);
  });
}

// Few of these are so large that the planner would take them.
TEST_P(GpuDifferential, WarpsOfTwoRowTiles) {
  constexpr int32_t q_tile = 128;
  run_random(
      GetParam(), (problem_count() + 2) / 3,
      [](const fms_attention_problem& p) {
        constexpr uint32_t others = FMS_PAGED_KV | FMS_BIAS | FMS_BIAS2;
        return (p.features & others) == 0 && p.softcap == 0 && p.softmax_scale != 0 && p.head_dim <= 128 &&
               p.value_dim == p.head_dim;
      },
      q_tile);
}

INSTANTIATE_TEST_SUITE_P(HalfTypes, GpuDifferential, ::testing::Values(FMS_F16, FMS_BF16),
                         [](const auto& param_info) { return std::string(dtype_name(param_info.param)); });

}  // namespace
}  // namespace flashmoe::testing
