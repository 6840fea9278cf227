#include "devices/tuning.hpp"

#include <gtest/gtest.h>

namespace flashmoe {
namespace {

TEST(Tuning, EveryArchitectureHasAPolicyThatSaysWhy) {
  ASSERT_EQ(all_tuning_policies().size(), all_architectures().size());
  for (std::size_t i = 0; i < all_architectures().size(); ++i) {
    EXPECT_EQ(all_tuning_policies()[i].architecture, all_architectures()[i].name);
    EXPECT_NE(all_tuning_policies()[i].source.find("not measured"), std::string_view::npos);
    for (const double share : all_tuning_policies()[i].loop_share) EXPECT_TRUE(share > 0 && share < 1);
  }
}

// 16 clocks a product; 300 GB/s / 2.04 GHz / 58 SMs; two thirds of 48 MB.
TEST(Tuning, AnL4HasTheFiguresItsPlansWereMadeWith) {
  const PlannerFigures l4 = planner_figures(driver_answers(*find_gpu("l4")));
  EXPECT_EQ(l4.sm_count, 58);
  EXPECT_EQ(l4.pipes_per_sm, 4);
  EXPECT_EQ(l4.product_clocks, 16);
  EXPECT_NEAR(l4.dram_bytes_per_clock, 2.5, 1e-3);
  EXPECT_NEAR(l4.l2_resident_bytes, 32e6, 1e4);
}

TEST(Tuning, EveryGpuHasItsOwn) {
  for (const Gpu& gpu : all_gpus()) {
    const PlannerFigures figures = planner_figures(driver_answers(gpu));
    EXPECT_EQ(figures.policy->architecture, gpu.architecture);
    EXPECT_EQ(figures.sm_count, gpu.sm_count.value) << gpu.id;
    EXPECT_EQ(figures.product_clocks, gpu.mma_sync_clocks.value) << gpu.id;
    EXPECT_NEAR(figures.dram_bytes_per_clock * gpu.sm_count.value * gpu.boost_clock_mhz.value / 1e3,
                figures.policy->dram_share * gpu.dram_gb_per_s.value, 0.01)
        << gpu.id;
  }
}

TEST(Tuning, WhatADriverDoesNotSayComesFromTheTable) {
  const Gpu h100 = *find_gpu("h100");
  const PlannerFigures whole = planner_figures(driver_answers(h100));
  const PlannerFigures few =
      planner_figures({.name = "NVIDIA H100 80GB HBM3 (virtual)", .compute_major = 9, .compute_minor = 0});
  EXPECT_EQ(few.sm_count, whole.sm_count);
  EXPECT_EQ(few.dram_bytes_per_clock, whole.dram_bytes_per_clock);
  EXPECT_EQ(few.l2_resident_bytes, whole.l2_resident_bytes);
}

TEST(Tuning, AnUnknownCardIsTakenForItsNearestOlderRelative) {
  const auto architecture_of = [](int major, int minor) {
    return planner_figures({.name = "NVIDIA Something", .compute_major = major, .compute_minor = minor, .sm_count = 7})
        .policy->architecture;
  };
  EXPECT_EQ(architecture_of(7, 5), "sm_80");
  EXPECT_EQ(architecture_of(8, 7), "sm_86");
  EXPECT_EQ(architecture_of(10, 3), "sm_100");
  EXPECT_EQ(architecture_of(12, 1), "sm_120");
  EXPECT_EQ(architecture_of(99, 0), "sm_120");
  const PlannerFigures one = planner_figures({.name = "NVIDIA Something",
                                              .compute_major = 8,
                                              .compute_minor = 9,
                                              .sm_count = 7,
                                              .clock_mhz = 1000,
                                              .memory_clock_mhz = 500,
                                              .memory_bus_bits = 64,
                                              .l2_bytes = 1e6});
  EXPECT_EQ(one.sm_count, 7);
  EXPECT_NEAR(one.dram_bytes_per_clock, one.policy->dram_share * 8000 / 7000, 1e-9);
  EXPECT_EQ(one.product_clocks, find_gpu("l4")->mma_sync_clocks.value);
  const DriverAnswers rtx4080{
      .name = "NVIDIA GeForce RTX 4080", .compute_major = 8, .compute_minor = 9, .sm_count = 76};
  EXPECT_EQ(planner_figures(rtx4080).product_clocks, find_gpu("rtx4090")->mma_sync_clocks.value);
}

// A name is believed only with its architecture: a later card of that name would be another.
TEST(Tuning, ANameAloneDoesNotMakeAGpu) {
  EXPECT_EQ(planner_figures({.name = "NVIDIA L4", .compute_major = 9, .compute_minor = 0}).policy->architecture,
            "sm_90");
  EXPECT_EQ(planner_figures({.name = "NVIDIA L4", .compute_major = 9, .compute_minor = 0}).sm_count, 132);
}

}  // namespace
}  // namespace flashmoe
