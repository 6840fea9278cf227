// Pages with head sizes beyond 64 and 128, in a process that has no NVRTC (the test's environment sees to it): what the
// library ships must do. Random problems on the virtual GPU with every check on, judged by the oracle.
//
//   FMS_GPU_PROBLEMS=n   problems per dtype and head size
#include <gtest/gtest.h>

#include <algorithm>

#include "cuda/gpu_run.hpp"
#include "support/environment.hpp"
#include "support/judge.hpp"
#include "support/number_format.hpp"
#include "support/simple_case.hpp"

namespace flashmoe::testing {
namespace {

const Gpu& paged_gpu() {
  static const Gpu only = [] {
    setenv("VGPU_PTXAS", "off", 0);
    return Gpu();
  }();
  return only;
}

// Prefill and decode, GQA, lengths of their own; pages in any order, some of them shared, heads or rows innermost.
AttentionCase paged_case(uint64_t seed, fms_dtype dtype, int64_t head_dim) {
  constexpr int64_t page_sizes[] = {1, 7, 16, 32, 64, 128};
  Random random(seed);
  const bool is_decode = random.chance(0.5);
  const int64_t kv_heads = random.between(1, 2), kv_len = random.between(1, is_decode ? 300 : 120);
  fms_attention_problem p =
      simple_problem(dtype, {random.between(1, 3), kv_heads * random.between(1, 4), kv_heads,
                             is_decode ? random.between(1, 2) : random.between(3, 90), kv_len, head_dim});
  p.features |= FMS_PAGED_KV;
  p.page_size = page_sizes[random.between(0, 5)];
  const int64_t pages = (kv_len + p.page_size - 1) / p.page_size;
  p.page_count = p.batch * pages + random.between(0, 3);
  p.block_table_stride = pages + random.between(0, 2);
  p.k = {kv_heads * p.page_size * head_dim, p.page_size * head_dim, head_dim};
  if (random.chance(0.5)) p.k = {kv_heads * p.page_size * head_dim, head_dim, kv_heads * head_dim};
  p.v = p.k;
  if (random.chance(0.6)) p.window_right = 0;
  if (random.chance(0.3)) p.window_left = random.between(0, kv_len);
  IndexArrays indices;
  if (random.chance(0.5)) {
    p.features |= FMS_KV_LENGTHS;
    for (int64_t b = 0; b < p.batch; ++b) indices.kv_lengths.push_back(static_cast<int32_t>(random.between(0, kv_len)));
  }
  for (int64_t i = 0; i < p.batch * p.block_table_stride; ++i)
    indices.block_table.push_back(static_cast<int32_t>(random.between(0, p.page_count - 1)));
  return normal_case(p, seed, std::move(indices));
}

class Paged : public ::testing::TestWithParam<std::tuple<fms_dtype, int64_t>> {};

TEST_P(Paged, AgreesWithTheOracleWithoutNvrtc) {
  const auto [dtype, head_dim] = GetParam();
  const uint64_t problems = from_environment("FMS_GPU_PROBLEMS", 8);
  for (uint64_t seed = 1; seed <= problems; ++seed) {
    AttentionCase one = paged_case(seed, dtype, head_dim);
    const OracleAnswer oracle(one);
    // The planner's own choice, and tiles and splits that it might not take here.
    constexpr int32_t tiles[] = {0, 16, 64}, splits[] = {0, 1, 3};
    for (const auto& options : {plan_options(0, 0, 0), plan_options(0, splits[seed % 3], tiles[seed / 3 % 3])}) {
      one.reset_outputs();
      const RunResult result = paged_gpu().run(one, &options);
      ASSERT_EQ(result.status, FMS_OK) << to_string(result.error) << "\n  seed " << seed << ' ' << one.describe();
      EXPECT_EQ(judge(one, oracle).complaint, "") << "seed " << seed << ' ' << one.describe();
      EXPECT_EQ(one.stray_write().value_or(""), "");
      // Kernels of 16 and 64 rows are of the head size itself.
      if (result.plan.q_tile != 32) {
        EXPECT_EQ(result.plan.kernel_head_dim, (head_dim + 31) / 32 * 32);
      }
    }
  }
  const auto findings = paged_gpu().findings();
  EXPECT_TRUE(findings.empty()) << findings.front().substr(0, 600);
}

INSTANTIATE_TEST_SUITE_P(HeadSizes, Paged,
                         ::testing::Combine(::testing::Values(FMS_F16, FMS_BF16),
                                            ::testing::Values<int64_t>(96, 192, 256, 250)),
                         [](const ::testing::TestParamInfo<Paged::ParamType>& it) {
                           return std::string(dtype_name(std::get<0>(it.param))) + "_" +
                                  std::to_string(std::get<1>(it.param));
                         });

}  // namespace
}  // namespace flashmoe::testing
