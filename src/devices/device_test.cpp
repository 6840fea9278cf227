#include "devices/device.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "devices/occupancy.hpp"

namespace flashmoe {
namespace {

TEST(Devices, EveryGpuHasAnArchitecture) {
  std::set<std::string_view> ids, names;
  for (const Gpu& gpu : all_gpus()) {
    EXPECT_TRUE(find_architecture(std::string(gpu.architecture))) << gpu.id;
    EXPECT_TRUE(ids.insert(gpu.id).second) << gpu.id;
    EXPECT_TRUE(names.insert(gpu.name).second) << gpu.id;
  }
}

// And every architecture that the kernels are compiled for has a GPU to run them on.
TEST(Devices, EveryArchitectureHasAGpu) {
  for (const Architecture& one : all_architectures()) {
    const auto gpus = all_gpus();
    EXPECT_TRUE(std::any_of(gpus.begin(), gpus.end(), [&](const Gpu& gpu) { return gpu.architecture == one.name; }))
        << one.name;
  }
}

// All but the rate of L2 is filled in; decisions rest on verified values.
TEST(Devices, WhatIsDecidedOnIsVerified) {
  for (const Gpu& gpu : all_gpus()) {
    for (const GpuFact& one : gpu_facts()) {
      const bool may_lack = one.fact == &Gpu::l2_bytes_per_clock_per_sm;
      EXPECT_TRUE(may_lack || (gpu.*one.fact).known()) << gpu.id << " " << one.name;
    }
    for (const auto fact : {&Gpu::sm_count, &Gpu::boost_clock_mhz, &Gpu::memory_clock_mhz, &Gpu::memory_bus_bits,
                            &Gpu::dram_gb_per_s, &Gpu::l2_bytes, &Gpu::memory_gb})
      EXPECT_TRUE((gpu.*fact).verified()) << gpu.id;
  }
  for (const Architecture& one : all_architectures()) {
    EXPECT_FALSE(one.source.empty()) << one.name;
    for (const RateFact& rate : rate_facts()) EXPECT_TRUE((one.rates.*rate.fact).known()) << one.name << rate.name;
  }
}

TEST(Devices, AFactSaysWhereItStands) {
  EXPECT_EQ(find_gpu("b200")->mma_sync_clocks.standing(), "unverified");
  EXPECT_EQ(find_gpu("l4")->l2_bytes_per_clock_per_sm.standing(), "unknown");
  EXPECT_EQ(find_gpu("l4")->sm_count.standing().substr(0, 20), "deviceQuery of an L4");
}

TEST(Devices, PublishedPeaksFollowFromClockAndRate) {
  for (const auto& [id, fma] : {std::pair{"l4", 512},
                                {"l40s", 512},
                                {"rtx4090", 256},
                                {"a10", 512},
                                {"a100", 1024},
                                {"h100", 2048},
                                {"b200", 4096},
                                {"rtx5090", 256}}) {
    const Gpu gpu = *find_gpu(id);
    const double peak = gpu.fp16_tensor_tflops.value;
    const double tflops = gpu.sm_count.value * fma * 2 * gpu.tensor_clock_mhz.value * 1e-6;
    EXPECT_NEAR(tflops, peak, 0.015 * peak) << id;
    // 16 x 8 x 16 products; Hopper and Blackwell reach their peak with other instructions.
    const double from_products = gpu.sm_count.value * 4 * 4096 / gpu.mma_sync_clocks.value * gpu.tensor_clock_mhz.value;
    if (gpu.id == "h100" || gpu.id == "b200")
      EXPECT_LT(from_products * 1e-6, 0.7 * peak) << id;
    else
      EXPECT_NEAR(from_products * 1e-6, peak, 0.015 * peak) << id;
  }
}

TEST(Devices, BandwidthsAreThePublishedOnes) {
  for (const auto& [id, gb_per_s] : {std::pair{"l4", 300.0},
                                     {"l40s", 864.0},
                                     {"rtx4090", 1008.0},
                                     {"a10", 600.0},
                                     {"a100", 1555.0},
                                     {"h100", 3352.0},
                                     {"b200", 7672.0},
                                     {"rtx5090", 1792.0}})
    EXPECT_NEAR(find_gpu(id)->dram_gb_per_s.value, gb_per_s, 1) << id;
}

TEST(Devices, IssueIntervalsFollowFromRates) {
  const Architecture ada = *find_architecture("sm_89"), ampere = *find_architecture("sm_80");
  EXPECT_EQ(ada.issue_interval(ada.rates.fp32_multiply_add), 1);
  EXPECT_EQ(ampere.issue_interval(ampere.rates.fp32_multiply_add), 2);
  EXPECT_EQ(ada.issue_interval(ada.rates.int32_logic), 2);
  EXPECT_EQ(ada.issue_interval(ada.rates.transcendental), 8);
  EXPECT_EQ(ada.issue_interval(ada.rates.fp64_multiply_add), 64);
}

TEST(Devices, AnUnknownOneListsTheKnown) {
  const auto gpu = find_gpu("t4");
  ASSERT_FALSE(gpu);
  EXPECT_EQ(gpu.error().message, "unknown GPU \"t4\"; known are l4, l40s, rtx4090, a10, a100, h100, b200, rtx5090");
  EXPECT_FALSE(find_architecture("sm_35"));
  EXPECT_TRUE(find_architecture("sm_90a"));
  EXPECT_TRUE(find_architecture("sm_120f"));
}

TEST(Occupancy, NamesTheLimiter) {
  const Architecture l4 = *find_architecture("sm_89");
  const auto shared = occupancy(l4, {.registers = 64, .threads = 256, .static_shared_bytes = 40 * 1024});
  EXPECT_EQ(shared.ctas_per_sm, 2);
  EXPECT_DOUBLE_EQ(shared.share_of_warps, 16.0 / 48);
  EXPECT_EQ(shared.limiter, "shared memory: 41984 of 102400 bytes per CTA");
  EXPECT_EQ(name_of(shared.limited_by), "shared memory");
  EXPECT_EQ(shared.by(SmLimit::warps), 6);
  const auto registers = occupancy(l4, {.registers = 255, .threads = 128});
  EXPECT_EQ(registers.ctas_per_sm, 2);
  EXPECT_EQ(registers.limiter, "registers: 255 per thread, 32768 of 65536 per CTA");
  EXPECT_EQ(occupancy(l4, {.registers = 16, .threads = 32}).limiter, "CTAs: at most 24 per SM");
  EXPECT_EQ(occupancy(l4, {.registers = 16, .threads = 1024}).limiter, "warps: 32 per CTA of 48 per SM");
  EXPECT_EQ(occupancy(*find_architecture("sm_90"), {.registers = 16, .threads = 32, .barriers = 16}).limiter,
            "barriers: 16 of 64 per CTA");
}

TEST(Occupancy, AnImpossibleLaunchHasNoneAndSaysWhy) {
  const Architecture l4 = *find_architecture("sm_89");
  EXPECT_EQ(occupancy(l4, {.registers = 128, .threads = 1024}).ctas_per_sm, 0);
  EXPECT_EQ(occupancy(l4, {.registers = 16, .threads = 2048}).ctas_per_sm, 0);
  const auto shared = occupancy(l4, {.registers = 16, .threads = 128, .dynamic_shared_bytes = 100 * 1024});
  EXPECT_EQ(shared.ctas_per_sm, 0);
  EXPECT_NE(shared.limiter.find("at most 101376 per CTA on sm_89"), std::string::npos) << shared.limiter;
  EXPECT_EQ(occupancy(l4, {.threads = 0}).ctas_per_sm, 0);
}

}  // namespace
}  // namespace flashmoe
