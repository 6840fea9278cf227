#include "devices/device.hpp"

#include <gtest/gtest.h>

#include "support/json.hpp"

namespace flashmoe {
namespace {

TEST(Devices, EveryGpuHasAnArchitecture) {
  ASSERT_EQ(all_gpus().size(), 5U);
  for (const Gpu& gpu : all_gpus()) EXPECT_TRUE(find_architecture(std::string(gpu.architecture))) << gpu.id;
}

TEST(Devices, WhatTheBuildGateDecidesOnIsVerified) {
  for (const Gpu& gpu : all_gpus()) EXPECT_TRUE(gpu.sm_count.verified()) << gpu.id;
  for (const ArchitectureLimits& one : all_architectures()) EXPECT_FALSE(one.source.empty()) << one.name;
}

TEST(Devices, UnverifiedValuesAreCalledThat) {
  EXPECT_EQ(to_json(*find_gpu("rtx4090"))["l2_mb"]["source"], "unverified");
  EXPECT_NE(to_json(*find_gpu("l4"))["sm_count"]["source"], "unverified");
}

TEST(Devices, PublishedPeaksFollowFromClockAndRate) {
  for (const auto& [id, fma] :
       {std::pair{"l4", 512}, {"l40s", 512}, {"rtx4090", 256}, {"a100", 1024}, {"h100", 2048}}) {
    const Gpu gpu = *find_gpu(id);
    const double tflops = gpu.sm_count.value * fma * 2 * gpu.boost_clock_mhz.value * 1e-6;
    EXPECT_NEAR(tflops, gpu.fp16_tensor_tflops.value, 0.015 * gpu.fp16_tensor_tflops.value) << id;
  }
}

TEST(Devices, AnUnknownOneListsTheKnown) {
  const auto gpu = find_gpu("t4");
  ASSERT_FALSE(gpu);
  EXPECT_NE(gpu.error().message.find("l4, l40s, rtx4090, a100, h100"), std::string::npos) << gpu.error().message;
  EXPECT_FALSE(find_architecture("sm_35"));
  EXPECT_TRUE(find_architecture("sm_90a"));
}

TEST(Occupancy, NamesTheLimiter) {
  const ArchitectureLimits l4 = *find_architecture("sm_89");
  const auto shared = occupancy(l4, {.registers = 64, .threads = 256, .static_shared_bytes = 40 * 1024});
  EXPECT_EQ(shared.ctas_per_sm, 2);
  EXPECT_DOUBLE_EQ(shared.share_of_warps, 16.0 / 48);
  EXPECT_EQ(shared.limiter, "shared memory: 41984 of 102400 bytes per CTA");
  const auto registers = occupancy(l4, {.registers = 255, .threads = 128});
  EXPECT_EQ(registers.ctas_per_sm, 2);
  EXPECT_EQ(registers.limiter, "registers: 255 per thread, 32768 of 65536 per CTA");
  EXPECT_EQ(occupancy(l4, {.registers = 16, .threads = 32}).limiter, "CTAs: at most 24 per SM");
  EXPECT_EQ(occupancy(l4, {.registers = 16, .threads = 1024}).limiter, "warps: 32 per CTA of 48 per SM");
}

TEST(Occupancy, AnImpossibleLaunchHasNoneAndSaysWhy) {
  const ArchitectureLimits l4 = *find_architecture("sm_89");
  EXPECT_EQ(occupancy(l4, {.registers = 128, .threads = 1024}).ctas_per_sm, 0);
  EXPECT_EQ(occupancy(l4, {.registers = 16, .threads = 2048}).ctas_per_sm, 0);
  const auto shared = occupancy(l4, {.registers = 16, .threads = 128, .dynamic_shared_bytes = 100 * 1024});
  EXPECT_EQ(shared.ctas_per_sm, 0);
  EXPECT_NE(shared.limiter.find("at most 101376 per CTA on sm_89"), std::string::npos) << shared.limiter;
  EXPECT_EQ(occupancy(l4, {.threads = 0}).ctas_per_sm, 0);
}

}  // namespace
}  // namespace flashmoe
