// The planner's choices, and that a plan explains them.
#include "plan/planner.hpp"
#include "plan/explained_for_test.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "plan/cpu_layout.hpp"

namespace flashmoe::plan {
namespace {

fms_attention_problem problem(fms_dtype dtype, int64_t batch, int64_t q_heads, int64_t kv_heads, int64_t q_len,
                              int64_t kv_len, int64_t head_dim) {
  fms_attention_problem p{};
  p.struct_size = sizeof p;
  p.dtype = dtype;
  p.batch = batch;
  p.q_heads = q_heads;
  p.kv_heads = kv_heads;
  p.q_len = q_len;
  p.kv_len = kv_len;
  p.head_dim = p.value_dim = head_dim;
  p.q = p.o = {q_heads * q_len * head_dim, q_len * head_dim, head_dim};
  p.k = p.v = {kv_heads * kv_len * head_dim, kv_len * head_dim, head_dim};
  p.lse = {q_heads * q_len, q_len, 1};
  p.softmax_scale = 0.125F;
  p.window_left = p.window_right = -1;
  return p;
}

fms_attention_plan plan_for(const fms_attention_problem& p, fms_cpu_isa isa, int32_t threads,
                            fms_plan_options options = {sizeof(fms_plan_options), 0, 0, 0}) {
  fms_attention_plan plan{};
  fms_error error{};
  EXPECT_EQ(make_plan({FMS_DEVICE_CPU, isa, threads}, p, &options, &plan, &error), FMS_OK) << error.message;
  return plan;
}

TEST(Planner, DecodeReadsKeysOnceAsVectors) {
  const auto plan = plan_for(problem(FMS_F16, 1, 32, 32, 1, 4096, 128), FMS_ISA_AMX, 2);
  EXPECT_EQ(plan.family, FMS_KERNEL_GEMV);
  EXPECT_EQ(plan.cpu_isa, FMS_ISA_AVX512);
  EXPECT_EQ(plan.kv_splits, 1);
  EXPECT_NE(explained(plan).find("gemv"), std::string::npos);
}

TEST(Planner, GroupsAreDecodedOnTilesFromWhereThatIsFaster) {
  const auto isa_of = [](fms_dtype dtype, int64_t group) {
    const auto plan = plan_for(problem(dtype, 1, 8 * group, 8, 1, 4096, 128), FMS_ISA_AMX, 2);
    EXPECT_EQ(plan.family, FMS_KERNEL_GEMV) << group;
    return plan.cpu_isa;
  };
  EXPECT_EQ(isa_of(FMS_BF16, 1), FMS_ISA_AMX) << "nothing has to be packed";
  EXPECT_EQ(isa_of(FMS_BF16, 4), FMS_ISA_AMX);
  EXPECT_EQ(isa_of(FMS_F16, 4), FMS_ISA_AVX512) << "two parts, both of which have to be copied";
  EXPECT_EQ(isa_of(FMS_F16, 8), FMS_ISA_AVX512) << "vectors widened once for eight rows";
  EXPECT_EQ(isa_of(FMS_F16, 16), FMS_ISA_AMX);
  EXPECT_EQ(isa_of(FMS_BF16, 16), FMS_ISA_AMX);
  EXPECT_EQ(plan_for(problem(FMS_BF16, 1, 17, 1, 1, 4096, 128), FMS_ISA_AMX, 2).family, FMS_KERNEL_AMX);
}

// Which limit binds depends on the cache and on the machine, of which a plan knows nothing.
TEST(Planner, NoPlanClaimsToBeBoundByMemory) {
  for (const fms_cpu_isa isa : {FMS_ISA_SCALAR, FMS_ISA_AVX2, FMS_ISA_AVX512, FMS_ISA_AMX}) {
    for (const fms_dtype dtype : {FMS_F32, FMS_F16, FMS_BF16}) {
      for (const int64_t group : {1, 4, 8, 16}) {
        const std::string text = explained(plan_for(problem(dtype, 1, 8 * group, 8, 1, 4096, 128), isa, 2));
        EXPECT_EQ(text.find("memory"), std::string::npos) << text;
        EXPECT_EQ(text.find("bound"), std::string::npos) << text;
      }
    }
  }
}

TEST(Planner, FewItemsAndManyKeysAreSplit) {
  const auto plan = plan_for(problem(FMS_BF16, 1, 4, 1, 1, 32768, 128), FMS_ISA_AMX, 8);
  EXPECT_EQ(plan.kv_splits, 8);
  EXPECT_NE(explained(plan).find("split 8 ways"), std::string::npos);
}

// Work over the busiest thread's, as src/kernels/cpu/attention deals it out: a piece is the thread's in whose share its
// middle lies, and a split is whole chunks of 32 keys.
double decode_balance(int64_t items, int64_t kv_len, int64_t splits, int64_t threads) {
  const int64_t pieces = items * splits, team = std::min(threads, pieces), chunks = kv_len / amx_chunk_keys;
  std::vector<int64_t> work(static_cast<std::size_t>(team));
  for (int64_t piece = 0; piece < pieces; ++piece) {
    const int64_t split = piece % splits;
    work[static_cast<std::size_t>((2 * piece + 1) * team / (2 * pieces))] +=
        chunks * (split + 1) / splits - chunks * split / splits;
  }
  return static_cast<double>(items * chunks) /
         static_cast<double>(threads * *std::max_element(work.begin(), work.end()));
}

// ... wherever splits of 256 keys and more can do it.
TEST(Planner, DecodeStepsAreBalancedAmongThreads) {
  int64_t balanced = 0, hopeless = 0;
  for (const int32_t threads : {1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 256}) {
    for (const int64_t batch : {1, 2, 3, 5, 8, 9, 16, 24, 40, 72, 100, 264}) {
      for (const int64_t kv_len : {2048, 4096, 16384}) {
        const auto plan = plan_for(problem(FMS_BF16, batch, 8, 1, 1, kv_len, 128), FMS_ISA_AMX, threads);
        if (decode_balance(batch, kv_len, plan.kv_splits, threads) >= 0.9) {
          ++balanced;
          continue;
        }
        ++hopeless;
        for (int64_t splits = 1; splits <= kv_len / 256; ++splits) {
          EXPECT_LT(decode_balance(batch, kv_len, splits, threads), 0.9)
              << threads << " threads, " << batch << " items, " << kv_len << " keys: " << splits
              << " splits instead of " << plan.kv_splits;
        }
      }
    }
  }
  EXPECT_GT(balanced, 7 * hopeless);
}

TEST(Planner, Fp32TakesTilesWhereRowsAreMany) {
  const auto kernel_of = [](int64_t q_len, float softmax_scale, int64_t kv_len = 512) {
    auto p = problem(FMS_F32, 1, 1, 1, q_len, kv_len, 64);
    p.softmax_scale = softmax_scale;
    const auto plan = plan_for(p, FMS_ISA_AMX, 1);
    return std::pair(plan.family, plan.cpu_isa);
  };
  EXPECT_EQ(kernel_of(512, 0.125F), std::pair(FMS_KERNEL_AMX, FMS_ISA_AMX));
  EXPECT_EQ(kernel_of(512, 0.0F), std::pair(FMS_KERNEL_TILE, FMS_ISA_AVX512)) << "NaN must be seen";
  EXPECT_EQ(kernel_of(512, -1e20F), std::pair(FMS_KERNEL_TILE, FMS_ISA_AVX512)) << "what is left out would be seen";
  EXPECT_EQ(kernel_of(129, 0.125F), std::pair(FMS_KERNEL_AMX, FMS_ISA_AMX));
  EXPECT_EQ(kernel_of(128, 0.125F), std::pair(FMS_KERNEL_TILE, FMS_ISA_AVX512));
  EXPECT_EQ(kernel_of(512, 0.125F, 128), std::pair(FMS_KERNEL_TILE, FMS_ISA_AVX512));
  EXPECT_EQ(kernel_of(1, 0.125F), std::pair(FMS_KERNEL_GEMV, FMS_ISA_AVX512));
}

TEST(Planner, Fp32OfManyShortSequencesOrNarrowWindowsTakesNoTiles) {
  auto ragged = problem(FMS_F32, 25, 4, 4, 129, 129, 64);
  ragged.features |= FMS_RAGGED_Q;
  ragged.q = ragged.o = {0, 64, 4 * 64};
  ragged.total_q = 129 + 24 * 40;
  EXPECT_EQ(plan_for(ragged, FMS_ISA_AMX, 1).family, FMS_KERNEL_TILE);
  ragged.total_q = 25 * 129;
  EXPECT_EQ(plan_for(ragged, FMS_ISA_AMX, 1).family, FMS_KERNEL_AMX);
  auto window = problem(FMS_F32, 1, 4, 4, 2048, 2048, 64);
  window.window_left = 15;
  window.window_right = 0;
  EXPECT_EQ(plan_for(window, FMS_ISA_AMX, 1).family, FMS_KERNEL_TILE);
  window.window_left = 127;
  EXPECT_EQ(plan_for(window, FMS_ISA_AMX, 1).family, FMS_KERNEL_AMX);
}

// What a step reads stays in L2 while the rows of an item pass over it.
TEST(Planner, StepsOfFp32OnTilesStayInL2) {
  for (const int64_t head_dim : {16, 64, 128, 256, 512}) {
    const auto plan = plan_for(problem(FMS_F32, 1, 1, 1, 4096, 4096, head_dim), FMS_ISA_AMX, 1);
    EXPECT_LE(plan.kv_tile / amx_chunk_keys * amx_chunk_bytes(plan.problem), amx_block_bytes) << head_dim;
    EXPECT_GE(plan.kv_tile, 64) << head_dim;
  }
}

TEST(Planner, TinyProblemsStayOnOneThread) {
  EXPECT_EQ(plan_for(problem(FMS_BF16, 1, 1, 1, 32, 32, 64), FMS_ISA_AMX, 64).threads, 1);
  EXPECT_GT(plan_for(problem(FMS_BF16, 1, 16, 16, 2048, 2048, 64), FMS_ISA_AMX, 64).threads, 32);
}

TEST(Planner, KeysArePackedOncePerHeadUnlessThatIsUselessOrTooLarge) {
  EXPECT_EQ(plan_for(problem(FMS_BF16, 1, 1, 1, 4096, 4096, 64), FMS_ISA_AMX, 8).pack, FMS_PACK_HEAD);
  EXPECT_EQ(plan_for(problem(FMS_BF16, 1, 1, 1, 32, 4096, 64), FMS_ISA_AMX, 8).pack, FMS_PACK_BLOCK);
  EXPECT_EQ(plan_for(problem(FMS_BF16, 1, 1, 1, 4096, 1 << 20, 64), FMS_ISA_AMX, 8).pack, FMS_PACK_BLOCK);
}

TEST(Planner, TheSameProblemGivesTheSamePlanToTheByte) {
  const auto p = problem(FMS_F16, 2, 8, 2, 100, 300, 80);
  const auto a = plan_for(p, FMS_ISA_AMX, 4);
  const auto b = plan_for(p, FMS_ISA_AMX, 4);
  EXPECT_EQ(std::memcmp(&a, &b, sizeof a), 0);
  EXPECT_EQ(a.fingerprint, fingerprint_of(a));
  auto changed = a;
  changed.kv_tile += 1;
  EXPECT_NE(changed.fingerprint, fingerprint_of(changed));
}

TEST(Planner, WhatAFeatureLeavesUnusedIsNotPartOfThePlan) {
  const auto p = problem(FMS_F16, 2, 8, 2, 100, 300, 80);
  auto odd = p;
  odd.lse = {-1, -2, -3};
  odd.bias = odd.bias2 = odd.mask = {7, 7, 7, 7, 7};
  odd.total_q = odd.page_size = -5;
  const auto a = plan_for(p, FMS_ISA_AMX, 4);
  const auto b = plan_for(odd, FMS_ISA_AMX, 4);
  EXPECT_EQ(std::memcmp(&a, &b, sizeof a), 0);
}

TEST(Planner, ForcedChoicesAreTakenAndAbsurdOnesRefused) {
  const auto p = problem(FMS_BF16, 1, 2, 2, 64, 4096, 64);
  const auto plan = plan_for(p, FMS_ISA_AMX, 4, {sizeof(fms_plan_options), 2, 7, 32});
  EXPECT_EQ(plan.threads, 2);
  EXPECT_EQ(plan.kv_splits, 7);
  EXPECT_EQ(plan.q_tile, 32);
  const fms_plan_options absurd{sizeof absurd, -1, 0, 0};
  fms_attention_plan refused{};
  fms_error error{};
  EXPECT_EQ(make_plan({FMS_DEVICE_CPU, FMS_ISA_AMX, 4}, p, &absurd, &refused, &error), FMS_INVALID_ARGUMENT);
  EXPECT_STREQ(error.argument, "options.threads");
}

TEST(Planner, WorkspaceStaysFarBelowTheScoreMatrix) {
  const auto plan = plan_for(problem(FMS_F16, 1, 8, 8, 4096, 4096, 64), FMS_ISA_AMX, 2);
  EXPECT_LT(plan.workspace_bytes, uint64_t{8} * 4096 * 4096 * 2 / 20);
}

TEST(Planner, APlanCanBeMadeAgainFromTheProblemInsideIt) {
  auto plan = plan_for(problem(FMS_F16, 2, 8, 2, 100, 300, 80), FMS_ISA_AMX, 4);
  const auto before = plan;
  ASSERT_EQ(make_plan({FMS_DEVICE_CPU, FMS_ISA_AMX, 4}, plan.problem, nullptr, &plan, nullptr), FMS_OK);
  EXPECT_EQ(std::memcmp(&plan, &before, sizeof plan), 0);
}

TEST(Planner, WorkspacesBeyondAnyMemoryAreRefusedAndDoNotWrapAround) {
  auto p = problem(FMS_F32, 1 << 18, 1, 1, 1 << 30, 64, 16);
  p.features = FMS_RAGGED_Q;
  p.total_q = 1;
  const fms_plan_options options{sizeof options, 1, 1024, 0};
  fms_attention_plan plan{};
  EXPECT_EQ(make_plan({FMS_DEVICE_CPU, FMS_ISA_AVX512, 1}, p, &options, &plan, nullptr), FMS_NOT_SUPPORTED);
}

TEST(Layout, PartsDoNotOverlapAndAreAligned) {
  for (const fms_cpu_isa isa : {FMS_ISA_SCALAR, FMS_ISA_AVX2, FMS_ISA_AVX512, FMS_ISA_AMX}) {
    const auto plan = plan_for(problem(FMS_F16, 2, 4, 2, 100, 300, 72), isa, 3);
    const CpuLayout layout = cpu_layout(plan);
    const std::size_t offsets[] = {layout.q,      layout.o,      layout.row_max, layout.row_sum,
                                   layout.key_lo, layout.key_hi, layout.scores};
    for (std::size_t i = 0; i < std::size(offsets); ++i) {
      EXPECT_EQ(offsets[i] % FMS_WORKSPACE_ALIGNMENT, 0U);
      if (i > 0) {
        EXPECT_LT(offsets[i - 1], offsets[i]);
      }
    }
    EXPECT_GE(layout.total_bytes, layout.thread_bytes * static_cast<std::size_t>(plan.threads));
  }
}

}  // namespace
}  // namespace flashmoe::plan
