// The planner's choices for a GPU, on kernels as the library has them for an L4, and that a plan says why.
#include <gtest/gtest.h>

#include <bit>
#include <initializer_list>
#include <limits>
#include <string>

#include "plan/cuda_cost.hpp"
#include "plan/explained_for_test.hpp"
#include "plan/planner.hpp"

namespace flashmoe::plan {
namespace {

constexpr int64_t state_bytes(int q_tile, int dim) {
  return int64_t{4} * q_tile * (dim + 8);
}

// Tiles and occupancy of some kernels on an L4, near those that are compiled: large, small, decode, wide.
class L4Kernels final : public CudaKernels {
 public:
  fms_status find(const fms_attention_problem& p, CudaKernel (&found)[max_found], int* count,
                  fms_error*) const override {
    *count = 0;
    const auto add = [&](int dim, int q_tile, int kv_tile, int threads, int held) {
      found[*count] = {*count, dim, q_tile, kv_tile, threads, held, state_bytes(q_tile, dim)};
      ++*count;
    };
    if (p.head_dim <= 64) {
      add(64, 64, 64, 128, 2);
      add(64, 32, 64, 128, 2);
      add(64, 16, 64, 128, 3);
      add(64, 128, 32, 128, 2);
    } else {
      add(128, 64, 32, 128, 2);
      add(128, 32, 64, 128, 1);
      add(128, 16, 64, 128, 1);
    }
    return FMS_OK;
  }
};

constexpr int32_t sms = 58;

struct Shape {
  int64_t batch, q_heads, kv_heads, q_len, kv_len, head_dim;
  bool is_causal = false;
};

fms_attention_problem problem_of(const Shape& s) {
  fms_attention_problem p{};
  p.struct_size = sizeof p;
  p.dtype = FMS_F16;
  p.batch = s.batch;
  p.q_heads = s.q_heads;
  p.kv_heads = s.kv_heads;
  p.q_len = s.q_len;
  p.kv_len = s.kv_len;
  p.head_dim = p.value_dim = s.head_dim;
  p.q = p.o = {s.q_heads * s.q_len * s.head_dim, s.q_len * s.head_dim, s.head_dim};
  p.k = p.v = {s.kv_heads * s.kv_len * s.head_dim, s.kv_len * s.head_dim, s.head_dim};
  p.softmax_scale = 0.125F;
  p.window_left = p.window_right = -1;
  if (s.is_causal) p.window_right = 0;
  return p;
}

fms_status try_plan(const fms_attention_problem& p, fms_attention_plan& plan, fms_error& error, int32_t splits = 0,
                    int32_t q_tile = 0) {
  static const L4Kernels kernels;
  DeviceCaps caps;
  caps.kind = FMS_DEVICE_CUDA;
  caps.gpu = planner_figures(driver_answers(*find_gpu("l4")));
  caps.cuda_kernels = &kernels;
  const fms_plan_options options{sizeof options, 0, splits, q_tile};
  return make_plan(caps, p, &options, &plan, &error);
}

fms_attention_plan plan_of(const fms_attention_problem& p, int32_t splits = 0, int32_t q_tile = 0) {
  fms_attention_plan plan{};
  fms_error error{};
  EXPECT_EQ(try_plan(p, plan, error, splits, q_tile), FMS_OK) << error.message;
  return plan;
}
fms_attention_plan plan_of(const Shape& shape, int32_t splits = 0, int32_t q_tile = 0) {
  return plan_of(problem_of(shape), splits, q_tile);
}

void expect_said(const fms_attention_plan& plan, std::initializer_list<std::string> parts) {
  const std::string text = explained(plan);
  for (const std::string& part : parts) EXPECT_NE(text.find(part), std::string::npos) << part << "\n" << text;
}

TEST(CudaPlanner, DecodeTakesTheSmallestTileAndFillsTheMachine) {
  for (const int64_t head_dim : {64, 128}) {
    for (const int64_t q_heads : {8, 32}) {
      const auto plan = plan_of({1, q_heads, 8, 1, 32768, head_dim});
      EXPECT_EQ(plan.q_tile, 16) << explained(plan);
      // One wave as good as full: 8 heads have 56 CTAs or 64, and the 6 beyond 58 would run when all others are done.
      EXPECT_EQ(plan.work_items, sms / 8 * 8) << explained(plan);
    }
  }
}

TEST(CudaPlanner, TheLongestTilesBeginFirstWhereL2HoldsAllKeysAndValues) {
  const double l2_bytes = planner_figures(driver_answers(*find_gpu("l4"))).l2_resident_bytes;
  const auto is_so = [&](const Shape& shape, int32_t q_tile) {
    return is_longest_first(plan_of(shape, 1, q_tile), l2_bytes);
  };
  EXPECT_TRUE(is_so({1, 8, 8, 512, 512, 128, true}, 64));
  EXPECT_FALSE(is_so({1, 8, 8, 512, 512, 128}, 64)) << "all tiles see as many keys";
  EXPECT_FALSE(is_so({1, 8, 8, 64, 512, 128, true}, 64)) << "one tile";
  EXPECT_TRUE(is_so({2, 8, 8, 2048, 2048, 128, true}, 64));
  EXPECT_FALSE(is_so({4, 8, 8, 2048, 2048, 128, true}, 64)) << "34 million bytes of keys and values";
  fms_attention_problem window = problem_of({1, 8, 8, 512, 512, 128});
  window.window_left = 100;
  EXPECT_TRUE(is_longest_first(plan_of(window, 1, 64), l2_bytes));
  // A grid has at most 65,535 in y and z.
  EXPECT_TRUE(is_so({70000, 1, 1, 64, 64, 64}, 32));
  EXPECT_FALSE(is_so({1, 1, 1, int64_t{70000} * 16, 64, 64, true}, 16));
}

TEST(CudaPlanner, SmallProblemsTakeSmallTiles) {
  EXPECT_EQ(plan_of({1, 1, 1, 16, 16, 64}).q_tile, 16);
  EXPECT_EQ(plan_of({1, 12, 12, 32, 32, 64}).q_tile, 16);
  const auto start = plan_of({1, 1, 1, 128, 128, 64});
  EXPECT_EQ(start.q_tile, 16);
  EXPECT_GE(start.work_items, 8);
}

TEST(CudaPlanner, LargeProblemsTakeLargeTilesAndAreNotSplit) {
  for (const Shape& shape : {Shape{8, 8, 8, 512, 512, 64}, Shape{32, 8, 8, 1024, 1024, 64},
                             Shape{1, 16, 16, 2048, 2048, 64, true}, Shape{1, 32, 8, 4096, 4096, 128, true}}) {
    const auto plan = plan_of(shape);
    EXPECT_GE(plan.q_tile, 64) << explained(plan);
    EXPECT_EQ(plan.kv_splits, 1) << explained(plan);
    EXPECT_EQ(plan.workspace_bytes, 0U);
  }
}

// 64 tiles of 64 rows are two waves for 58 SMs, the second nearly empty. Exactly counted, with what a tile costs an SM,
// no tile without splits is much better than the one that is chosen; that small tiles ask L2 for more is not counted.
TEST(CudaPlanner, AnAlmostEmptyLastWaveIsAvoided) {
  const auto exact = [](const Shape& s, int64_t q_tile, double loop_share) {
    const int64_t ctas = s.batch * s.kv_heads * ((s.q_heads / s.kv_heads * s.q_len + q_tile - 1) / q_tile);
    return static_cast<double>((ctas + sms - 1) / sms * q_tile) / loop_share;
  };
  const auto& shares = planner_figures(driver_answers(*find_gpu("l4"))).policy->loop_share;
  for (const Shape& shape : {Shape{1, 16, 16, 512, 512, 64}, Shape{1, 1, 1, 4096, 4096, 64},
                             Shape{1, 12, 12, 1024, 1024, 64}, Shape{2, 8, 8, 300, 300, 64}}) {
    const auto plan = plan_of(shape);
    const auto share = [&](int64_t q_tile) {  // 128 rows are 4 warps'
      return q_tile == 128 ? shares[4] : shares[std::bit_width(static_cast<unsigned>(q_tile)) - 5];
    };
    for (const int64_t q_tile : {16, 32, 64, 128}) {
      const double chosen = exact(shape, plan.q_tile, share(plan.q_tile));
      EXPECT_LE(chosen, 1.15 * exact(shape, q_tile, share(q_tile))) << q_tile << " rows: " << explained(plan);
    }
  }
}

// What memory bounds is done when memory is: a few SMs that are left over draw nearly all of its bandwidth.
TEST(CudaPlanner, DecodeOfManySequencesIsNotSplitForItsLastWave) {
  const auto plan = plan_of({16, 32, 8, 1, 4096, 128});
  EXPECT_EQ(plan.kv_splits, 1) << explained(plan);
  EXPECT_EQ(plan.q_tile, 16);
}

// Not worth it where prompts are short or fill the SMs.
TEST(CudaPlanner, MostPromptsAreNotSplit) {
  for (const int64_t q_len : {32, 128, 512, 1500, 4096})
    for (const int64_t heads : {1, 8}) {
      if (q_len > 128 && heads == 1) continue;
      EXPECT_EQ(plan_of({1, heads, heads, q_len, q_len, 64}).workspace_bytes, 0U);
    }
}

// But where a head alone leaves half of the SMs idle, the more so if its longest tile is one of them all.
TEST(CudaPlanner, ALongPromptOfOneHeadIsSplit) {
  const auto is_split = [](int64_t head_dim, bool is_causal) {
    const auto plan = plan_of({1, 1, 1, 2048, 2048, head_dim, is_causal});
    EXPECT_GT(plan.kv_splits, 1) << explained(plan);
    EXPECT_LE(plan.kv_splits, 8) << explained(plan);
    EXPECT_GE(plan.work_items, sms) << explained(plan);
  };
  is_split(64, true);
  is_split(128, true);
  is_split(64, false);
}

// A few tiles more than SMs: where they are long, the SMs that get two of them are all that is waited for; short ones
// hide in each other's gaps.
TEST(CudaPlanner, LongTilesBeyondAWholeWaveAreSplit) {
  for (const int64_t head_dim : {64, 128}) {
    const auto few = plan_of({1, 2, 2, 2048, 2048, head_dim}), one = plan_of({1, 1, 1, 4096, 4096, head_dim});
    EXPECT_GT(few.kv_splits, 1) << explained(few);
    EXPECT_GT(one.kv_splits, 1) << explained(one);
    const auto many_short = plan_of({1, 64, 64, 64, 64, head_dim});
    EXPECT_EQ(many_short.work_items, 64) << explained(many_short);
  }
}

TEST(CudaPlanner, AShareIsAtLeastABlockOfKeys) {
  for (const int64_t head_dim : {64, 128})
    for (const int64_t kv_len : {1, 63, 64, 65, 100, 128, 500, 2000, 30000})
      for (const int64_t q_len : {1, 5, 100}) {
        const auto plan = plan_of({1, 1, 1, q_len, kv_len, head_dim});
        EXPECT_LE(plan.kv_splits, (kv_len + plan.kv_tile - 1) / plan.kv_tile) << explained(plan);
      }
}

TEST(CudaPlanner, RaggedBatchesAreCountedByTheirRows) {
  // One sequence of one query, where 2000 might be: CTAs for all SMs to share its keys, and no more.
  auto lone = problem_of({1, 8, 8, 2000, 32768, 64, true});
  lone.features = FMS_RAGGED_Q;
  lone.total_q = 1;
  lone.q = lone.o = {0, 64, 512};
  const auto plan = plan_of(lone);
  EXPECT_GE(plan.work_items, 4 * sms) << explained(plan);
  EXPECT_LE(plan.work_items, 5 * sms) << explained(plan);
}

TEST(CudaPlanner, ForcedChoicesAreTaken) {
  for (const int32_t q_tile : {16, 32, 64, 128})
    for (const int32_t splits : {1, 2, 16, 1024}) {
      const auto plan = plan_of({1, 1, 1, 100, 300, 64}, splits, q_tile);
      EXPECT_EQ(plan.q_tile, q_tile);
      EXPECT_EQ(plan.kv_splits, splits);
      const int64_t tiles = (100 + q_tile - 1) / q_tile;
      EXPECT_EQ(plan.work_items, tiles * splits);
      const uint64_t needed =
          splits == 1 ? 0 : static_cast<uint64_t>(plan.work_items * state_bytes(q_tile, 64) + 4 * tiles);
      EXPECT_EQ(plan.workspace_bytes, needed);
    }
  fms_attention_plan plan{};
  fms_error error{};
  EXPECT_EQ(try_plan(problem_of({1, 1, 1, 100, 300, 64}), plan, error, 0, 48), FMS_NOT_SUPPORTED);
  EXPECT_STREQ(error.argument, "options.q_tile");
}

TEST(CudaPlanner, TheStartingCaseReachesTheWholeMachineWhenForced) {
  EXPECT_GE(plan_of({1, 8, 8, 128, 128, 64}, 128 / 8).work_items, 232);
  EXPECT_GE(plan_of({1, 1, 1, 512, 512, 64}, 512 / 8).work_items, 232);
}

TEST(CudaPlanner, WhatNoGpuCanRunIsRefusedByName) {
  fms_attention_plan plan{};
  fms_error error{};
  auto p = problem_of({1, 1, 1, 8, 8, 64});
  p.dtype = FMS_F32;
  EXPECT_EQ(try_plan(p, plan, error), FMS_NOT_SUPPORTED);
  EXPECT_STREQ(error.argument, "problem.dtype");

  p = problem_of({1, 1, 1, 8, int64_t{1} << 30, 64});
  EXPECT_EQ(try_plan(p, plan, error), FMS_NOT_SUPPORTED) << "keys and windows are added in 32 bits";

  p = problem_of({1, 1, 1, 8, 200, 64});
  p.features = FMS_BIAS;
  p.bias_dtype = FMS_F16;
  p.bias = {0, 0, 1, int64_t{1} << 24, 1};  // 128 keys on is more than 32 bits
  EXPECT_EQ(try_plan(p, plan, error), FMS_NOT_SUPPORTED);
  EXPECT_STREQ(error.argument, "problem.bias.kv");
  p.features = FMS_BIAS2;
  p.bias2_dtype = FMS_F16;
  p.bias2 = p.bias;
  EXPECT_EQ(try_plan(p, plan, error), FMS_NOT_SUPPORTED);
  EXPECT_STREQ(error.argument, "problem.bias2.kv");

  p = problem_of({1, 1, 1, 8, 8, 64});
  p.value_dim = 512;
  p.v = p.o = {8 * 512, 8 * 512, 512};
  EXPECT_EQ(try_plan(p, plan, error), FMS_NOT_SUPPORTED);
  EXPECT_STREQ(error.argument, "problem.value_dim");
  EXPECT_STREQ(error.message, "problem.value_dim is 512; allowed on a GPU: 1 to 256");

  for (const fms_feature feature : {FMS_MASK, FMS_KV_STARTS, FMS_Q_LENGTHS, FMS_TOP_LEFT, FMS_KV_SCALES, FMS_PARTIAL}) {
    p = problem_of({1, 1, 1, 8, 8, 64});
    p.kv_dtype = FMS_KV_F8_E4M3;
    p.features = feature;
    EXPECT_EQ(try_plan(p, plan, error), FMS_NOT_SUPPORTED) << feature;
    EXPECT_STREQ(error.argument, "problem.features");
  }
}

TEST(CudaPlanner, ShorterValuesCostLess) {
  const auto p = problem_of({1, 16, 16, 4096, 4096, 192});
  auto shorter = p;
  shorter.value_dim = 128;
  const CudaWork work(p), less(shorter);
  EXPECT_LT(less.io_bytes, work.io_bytes);
  const CudaKernel kernel{0, 192, 64, 32, 128, 1, state_bytes(64, 192)};
  const CudaKernel less_kernel{0, 192, 64, 32, 128, 1, state_bytes(64, 128), true, 128};
  const PlannerFigures gpu = planner_figures(driver_answers(*find_gpu("l4")));
  const double clocks = CudaCost(kernel, work, gpu).clocks(1), less_clocks = CudaCost(less_kernel, less, gpu).clocks(1);
  EXPECT_LT(less_clocks, clocks);
  EXPECT_GT(less_clocks, clocks * 2 / 3) << "the scores are as many";
}

TEST(CudaPlanner, ThereMayBeMoreHeadsThanAGridIsHigh) {
  EXPECT_EQ(plan_of({70000, 1, 1, 1, 8, 64}).work_items, 70000);
}

TEST(CudaPlanner, UnequalBatchesHaveAListInsteadOfSplits) {
  auto p = problem_of({64, 8, 8, 1, 8192, 64});
  p.features = FMS_KV_LENGTHS;
  const auto plan = plan_of(p);
  EXPECT_EQ(plan.kv_splits, 0);
  EXPECT_GE(plan.work_items, 64 * 8 + sms);
  expect_said(plan, {"Lengths are the device's to read", "one plan serves any lengths"});
  EXPECT_EQ(plan_of(p, 3).kv_splits, 3) << "forced";
  // One prompt of 2,048 among 63 decodes: tiles that there can be, not those of 64 prompts.
  auto chunk = problem_of({64, 8, 8, 2048, 8192, 64, true});
  chunk.features = FMS_RAGGED_Q | FMS_RAGGED_KV;
  chunk.total_q = 63 + 2048;
  chunk.total_kv = 64 * 4096;
  chunk.q = chunk.o = chunk.k = chunk.v = {0, 64, 512};
  const auto listed = plan_of(chunk);
  EXPECT_LE(listed.work_items, 8 * ((63 + 2048) / listed.q_tile + 64) + 4 * sms + 8);
  // More sequences than a CTA should look at.
  EXPECT_GT(plan_of([&] {
              auto many = problem_of({513, 8, 8, 1, 8192, 64});
              many.features = FMS_KV_LENGTHS;
              return many;
            }())
                .kv_splits,
            0);
}

TEST(CudaPlanner, WorkspacesAndGridsDoNotWrapAround) {
  auto p = problem_of({60000, 1, 1, 1 << 29, 64, 64});
  p.features = FMS_RAGGED_Q;
  p.total_q = 1;
  p.q = p.o = {0, 64, 64};
  fms_attention_plan plan{};
  fms_error error{};
  for (const int32_t splits : {1, 1024}) EXPECT_EQ(try_plan(p, plan, error, splits), FMS_NOT_SUPPORTED) << splits;
}

// ---- the explanation -----------------------------------------------------------------------------------------------

TEST(CudaPlanner, APlanSaysHowManyCtasThereAreAndWhy) {
  const auto start = plan_of({1, 1, 1, 128, 128, 64});
  expect_said(start, {"tile of 16 query rows", "8 CTAs on 58 SMs", "0.05 waves", "keys not split", "50 SMs stay idle",
                      "not measured"});
  expect_said(plan_of({1, 1, 1, 128, 128, 64}, 16, 16), {"keys split 16 ways", "128 CTAs", "forced"});
  expect_said(plan_of({1, 32, 8, 1, 32768, 128}), {"4 heads of a group", "would occupy 8 SMs", "occupies 56"});
  expect_said(plan_of({32, 8, 8, 1024, 1024, 64}), {"keys not split", "give every SM work"});
  expect_said(plan_of({1, 8, 8, 512, 16384, 64}, 2), {"keys split", "waves and would leave SMs idle"});
}

}  // namespace
}  // namespace flashmoe::plan
