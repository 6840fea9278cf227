// What a kernel is told: divisions that are exact, chunks only where rows allow them, 32 bits only where they hold.
#include "kernels/cuda/launch/forward_params.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <tuple>
#include <utility>

namespace flashmoe::cuda {
namespace {

// As the device does it (attention/division.cuh).
int divided(int n, Division by) {
  return static_cast<int>((static_cast<uint64_t>(2 * static_cast<uint32_t>(n)) * by.magic >> 32) >> by.shift);
}

TEST(Division, IsExactForEveryNumberTheKernelsDivide) {
  constexpr int largest = std::numeric_limits<int>::max();
  for (const int divisor : {1,
                            2,
                            3,
                            4,
                            5,
                            6,
                            7,
                            8,
                            9,
                            11,
                            12,
                            13,
                            16,
                            17,
                            31,
                            32,
                            33,
                            63,
                            64,
                            65,
                            100,
                            127,
                            128,
                            255,
                            641,
                            997,
                            1000,
                            1023,
                            1024,
                            65535,
                            65537,
                            1 << 20,
                            (1 << 20) + 1,
                            (1 << 30) - 1,
                            1 << 30,
                            largest}) {
    const Division by = division_by(divisor);
    const auto check = [&](int64_t n) {
      if (n < 0 || n > largest) return;
      ASSERT_EQ(divided(static_cast<int>(n), by), static_cast<int>(n) / divisor) << n << " / " << divisor;
    };
    for (int64_t n = 0; n < 3000; ++n) check(n);
    for (int64_t quotient = 1; quotient < int64_t{largest} / divisor; quotient = quotient * 3 + 1)
      for (int64_t near = -2; near <= 2; ++near) check(quotient * divisor + near);
    for (int64_t n = int64_t{largest} - 1000; n <= largest; ++n) check(n);
  }
}

constexpr double much_l2_bytes = 1e9;

struct Told {
  fms_attention_plan plan{};
  fms_attention_args args{};
  InstanceAxes axes{FMS_F16, 64, TileClass::large, false, false};

  Told() {
    fms_attention_problem& p = plan.problem;
    p.dtype = FMS_F16;
    p.batch = 2;
    p.q_heads = p.kv_heads = 2;
    p.q_len = p.kv_len = 10;
    p.head_dim = p.value_dim = 64;
    p.q = p.k = p.v = p.o = {1280, 640, 64};
    p.softmax_scale = 0.125F;
    p.window_left = p.window_right = -1;
    plan.kv_splits = 1;
    plan.work_items = 4;
    plan.sm_count = 10;
    plan.ctas_per_sm = 3;
    // Addresses that nobody follows.
    args.q = reinterpret_cast<const void*>(0x1000);
    args.k = reinterpret_cast<const void*>(0x2000);
    args.v = reinterpret_cast<const void*>(0x3000);
    args.o = reinterpret_cast<void*>(0x4000);
  }
  [[nodiscard]] ExtendedParams params() const {
    return forward_params(plan, axes, args, reinterpret_cast<std::byte*>(0x5000), much_l2_bytes);
  }
};

TEST(ForwardParams, RowsAreCopiedInChunksOnlyWhereEachBeginsAtOne) {
  EXPECT_EQ(Told().params().is_aligned, 1);
  const std::function<void(Told&)> spoilers[] = {
      [](Told& t) { t.args.q = reinterpret_cast<const void*>(0x1002); },
      [](Told& t) { t.args.k = reinterpret_cast<const void*>(0x2008); },
      [](Told& t) { t.args.v = reinterpret_cast<const void*>(0x300e); },
      [](Told& t) { t.args.o = reinterpret_cast<void*>(0x4004); },
      [](Told& t) { t.plan.problem.q.seq = 65; },
      [](Told& t) { t.plan.problem.k.head = 644; },
      [](Told& t) { t.plan.problem.v.batch = 1281; },
      [](Told& t) { t.plan.problem.o.seq = 68; },
      [](Told& t) { t.plan.problem.head_dim = 60; },
  };
  for (std::size_t i = 0; i < std::size(spoilers); ++i) {
    Told told;
    spoilers[i](told);
    EXPECT_EQ(told.params().is_aligned, 0) << i;
  }
}

TEST(ForwardParams, TheLongestTilesFirstInAsManyRoundsAsSmsHoldIfHardlyMoreFollow) {
  Told told;
  told.plan.problem.window_right = 0;
  told.plan.kv_splits = 2;
  // Four heads and two splits: so many times eight CTAs over ten SMs that hold three each.
  const std::pair<int64_t, int> turns_of_tiles[] = {{2, 2}, {3, 3}, {5, 3}, {6, 1}, {100, 1}};
  for (const auto& [tiles, turns] : turns_of_tiles) {
    told.plan.work_items = 8 * tiles;
    const ForwardParams params = told.params();
    EXPECT_EQ(params.turns, turns) << tiles;
    EXPECT_EQ(params.sms, 10);
    EXPECT_EQ(divided(19, params.by_sms), 1);
    EXPECT_EQ(divided(9, params.by_heads), 2);
    const LaunchGrid grid = launch_grid(params);
    EXPECT_EQ(std::tuple(grid.x, grid.y, grid.z), std::tuple(4U, 2U, static_cast<unsigned>(tiles)));
  }
  told.plan.problem.window_right = -1;
  const ForwardParams unmasked = told.params();
  EXPECT_EQ(unmasked.turns, 0);
  const LaunchGrid grid = launch_grid(unmasked);
  EXPECT_EQ(std::tuple(grid.x, grid.y, grid.z), std::tuple(100U, 4U, 2U));
}

TEST(ForwardParams, RowsTooFarApartFor32BitsDoNotTakeTheInteriorLoop) {
  Told told;
  told.plan.problem.k.seq = int64_t{1} << 31;
  EXPECT_EQ(told.params().is_aligned, 0);
  told.plan.problem.k.seq = (int64_t{1} << 30) - 8;
  EXPECT_EQ(told.params().is_aligned, 1);
  EXPECT_EQ(told.params().k_row_bytes, 2 * ((int64_t{1} << 30) - 8));
}

TEST(ForwardParams, WindowsWithoutBoundsStayWithin32BitsBesideEveryKey) {
  Told told;
  const ForwardParams params = told.params();
  constexpr int64_t most_keys = (int64_t{1} << 30) - 1;
  EXPECT_LE(int64_t{params.window_right} + most_keys + 1, std::numeric_limits<int>::max());
  EXPECT_GE(params.window_left, most_keys);
  told.plan.problem.window_left = std::numeric_limits<int64_t>::max();
  told.plan.problem.window_right = 3;
  EXPECT_EQ(told.params().window_left, params.window_left);
  EXPECT_EQ(told.params().window_right, 3);
}

TEST(ForwardParams, TheLowestScoreIsFiniteAfterTheScale) {
  for (const float scale : {1e-30F, 0.125F, 1.0F, 1e4F, 1e30F, -7.0F}) {
    Told told;
    told.plan.problem.softmax_scale = scale;
    const ForwardParams params = told.params();
    EXPECT_TRUE(std::isfinite(params.lowest * params.scale_log2)) << scale;
    EXPECT_GE(params.scale_log2, 0.0F);
    EXPECT_EQ(params.q_sign, scale < 0 ? 0x80008000U : 0U) << "a negative scale turns the queries round";
  }
}

TEST(ForwardParams, WhatWasNotAskedForIsNull) {
  Told told;
  told.args.lse = reinterpret_cast<float*>(0x5000);
  told.args.bias = told.args.lse;
  told.args.bias2 = told.args.lse;
  told.args.sinks = told.args.lse;
  ExtendedParams params = told.params();
  EXPECT_EQ(params.lse, nullptr);
  EXPECT_EQ(params.bias, nullptr);
  EXPECT_EQ(params.bias2.values, nullptr);
  EXPECT_EQ(params.sinks, nullptr);
  EXPECT_EQ(params.partial, nullptr);
  told.plan.problem.features = FMS_LSE | FMS_SINKS;
  params = told.params();
  EXPECT_EQ(params.lse, told.args.lse);
  EXPECT_EQ(params.sinks, told.args.sinks);
}

struct ToldOfBiases : Told {
  ToldOfBiases(const fms_bias_strides& bias, const fms_bias_strides& bias2) {
    fms_attention_problem& p = plan.problem;
    p.features = FMS_BIAS | FMS_BIAS2;
    p.bias_dtype = FMS_F16;
    p.bias2_dtype = FMS_F32;
    p.bias = bias;
    p.bias2 = bias2;
    args.bias = reinterpret_cast<const void*>(0x6008);
    args.bias2 = reinterpret_cast<const void*>(0x7010);
  }
};

TEST(ForwardParams, EachBiasHasItsOwnGroupsAndStrides) {
  const ToldOfBiases told({1, 2, 3, 4, 5}, {6, 7, 8, 9, 0});
  const ExtendedParams params = told.params();
  EXPECT_EQ(params.bias, told.args.bias);
  EXPECT_EQ(params.bias2.values, told.args.bias2);
  EXPECT_EQ(params.bias_batch, 1);
  EXPECT_EQ(params.bias2.batch, 6);
  EXPECT_EQ(params.bias2.head, 7);
  EXPECT_EQ(params.bias2.q, 8);
  EXPECT_EQ(params.bias2.kv, 9);
  EXPECT_EQ(params.bias2.kind, FMS_F32);
  EXPECT_EQ(divided(14, params.by_bias_group), 2);
  EXPECT_EQ(divided(14, params.bias2.by_group), 14) << "0: nobody shares";
}

TEST(ForwardParams, FoursOfABiasAreReadOnlyWhereEachRowBeginsAtOne) {
  EXPECT_EQ(Told().params().adds_fours, 1) << "nothing is added";
  const ToldOfBiases of_fours({240, 120, 12, 1, 1}, {12, 0, 0, 1, 1});
  EXPECT_EQ(of_fours.params().adds_fours, 1);
  const std::function<void(Told&)> spoilers[] = {
      [](Told& t) { t.args.bias = reinterpret_cast<const void*>(0x6004); },
      [](Told& t) { t.args.bias2 = reinterpret_cast<const void*>(0x7008); },
      [](Told& t) { t.plan.problem.bias.kv = 2; },
      [](Told& t) { t.plan.problem.bias2.kv = 0; },
      [](Told& t) { t.plan.problem.bias.q = 10; },
      [](Told& t) { t.plan.problem.bias.head = 121; },
      [](Told& t) { t.plan.problem.bias2.batch = 10; },
  };
  for (std::size_t i = 0; i < std::size(spoilers); ++i) {
    Told told = of_fours;
    spoilers[i](told);
    EXPECT_EQ(told.params().adds_fours, 0) << i;
  }
}

TEST(ForwardParams, ValuesOfAnotherSizeAreCopiedInChunksWhereTheyAreWholeOnes) {
  Told told;
  told.plan.problem.value_dim = 40;
  EXPECT_EQ(told.params().is_aligned, 1);
  EXPECT_EQ(told.params().value_dim, 40);
  told.plan.problem.value_dim = 36;
  EXPECT_EQ(told.params().is_aligned, 0);
}

TEST(ForwardParams, CountersStandBehindTheStatesOfAllSplits) {
  Told told;
  told.plan.kv_splits = 3;
  told.plan.work_items = 12;
  auto* const workspace = reinterpret_cast<std::byte*>(0x10000);
  const ForwardParams params = forward_params(told.plan, told.axes, told.args, workspace, much_l2_bytes);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(params.partial), 0x10000U);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(params.arrived), 0x10000U + 12 * 4 * 4 * 16 * (64 + 8));
}

}  // namespace
}  // namespace flashmoe::cuda
