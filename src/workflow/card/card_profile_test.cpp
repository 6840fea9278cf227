// A card whose counters are locked, rehearsed on the virtual driver: what is known without counting, and nothing else.
#include "workflow/card/card_profile.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "predict/sass.hpp"
#include "support/json_text.hpp"
#include "support/process.hpp"
#include "support/temporary_directory.hpp"
#include "workflow/advise/advise.hpp"
#include "workflow/advise/counters.hpp"
#include "workflow/card/counted_launch_for_test.hpp"
#include "workflow/compile/compiler.hpp"

namespace flashmoe::workflow {
namespace {

TEST(DegradedProfile, SaysOfALaunchWhatTheDriverKnows) {
  CountedLaunch launch = counted_launch();
  ASSERT_EQ(launch.call.launches.size(), 1U);
  launch.call.event_seconds = 2e-6;
  const ProfileRun run = card_profile(launch.call);
  EXPECT_EQ(run.counted_by, "nobody");
  EXPECT_EQ(run.degraded, "counters are locked");
  ASSERT_EQ(run.launches.size(), 1U);
  const LaunchReport& card = run.launches[0].report;
  const LaunchReport& counted = launch.report;
  EXPECT_EQ(card.kernel, counted.kernel);
  EXPECT_EQ(card.grid, counted.grid);
  EXPECT_EQ(card.sms, counted.sms);
  EXPECT_EQ(card.ctas_per_sm, counted.ctas_per_sm);
  EXPECT_DOUBLE_EQ(card.waves, counted.waves);
  EXPECT_DOUBLE_EQ(card.occupancy_percent, counted.occupancy_percent);
  // The same names for the same figures.
  for (const char* name : {"launch__grid_size", "launch__block_size", "launch__registers_per_thread",
                           "launch__waves_per_multiprocessor", "sm__maximum_warps_per_active_cycle_pct"}) {
    ASSERT_TRUE(counted.metrics.contains(name)) << name;
    EXPECT_DOUBLE_EQ(card.metrics.at(name), counted.metrics.at(name)) << name;
  }
  EXPECT_EQ(card.metrics.at("static__ctas_per_sm_by_our_table"), card.ctas_per_sm);
  EXPECT_EQ(card.metrics.at("static__local_bytes_per_thread"), launch.call.launches[0].facts.local_bytes);
  EXPECT_EQ(card.metrics.at("modelled__input_bytes"), 4096);
  const std::string text = profile_text(run);
  EXPECT_NE(text.find("Degraded, nothing was counted: counters are locked\n  fix: ask for them"), std::string::npos)
      << text;
  EXPECT_NE(text.find("2.00 us by events; its tensors' 8192 B, each moved once, would be 4.096 GB/s"),
            std::string::npos)
      << text;
  EXPECT_EQ(text.find("virtual GPU: exact"), std::string::npos) << text;
}

TEST(DegradedProfile, HasNoCounterThatNobodyCounted) {
  const ProfileRun run = card_profile(counted_launch().call);
  ASSERT_EQ(run.launches.size(), 1U);
  const LaunchReport& card = run.launches[0].report;
  EXPECT_EQ(card.instructions(), 0);
  EXPECT_TRUE(card.missing.contains("vgpu__ptx_inst_executed.sum"));
  for (const auto& [name, value] : card.metrics) EXPECT_FALSE(card.missing.contains(name)) << name;
  const Values counters = counters_of(card);
  EXPECT_FALSE(counters.contains("instructions"));
  EXPECT_FALSE(counters.contains("bank_conflicts"));
  EXPECT_TRUE(counters.contains("waves"));
  const Json json = parse_json(card.json);
  EXPECT_EQ(json["counted_by"], "nobody");
  for (const Json& metric : json["metrics"]) EXPECT_NE(metric["trust"], "counted") << metric;
}

TEST(DegradedProfile, RulesThatNeedNoCounterAreAskedAndTheOthersSaySo) {
  ProfileRun run = card_profile(counted_launch().call);
  const auto rules = builtin_rules();
  ASSERT_TRUE(rules);
  const auto advised = advise(run, *rules);
  ASSERT_TRUE(advised) << advised.error().to_string();
  ASSERT_EQ(run.launches[0].advice.size(), 1U);
  EXPECT_EQ(run.launches[0].advice[0].rule, "grid");  // one CTA on 58 SMs
  std::vector<std::string> unasked;
  for (const UnaskedRule& one : run.launches[0].unasked) unasked.push_back(one.rule);
  EXPECT_EQ(unasked, (std::vector<std::string>{"balance", "bank conflicts", "spills", "scalar products",
                                               "narrow accesses", "coalescing", "synchronous copies"}));
  const auto cycles = least_cycles(run, *rules);
  ASSERT_FALSE(cycles);
  EXPECT_NE(cycles.error().message.find("nobody counted"), std::string::npos) << cycles.error().message;
}

TEST(DegradedProfile, LaunchesWeighByTheirTimes) {
  CardCall call = counted_launch().call;
  call.launches.push_back(call.launches[0]);
  EXPECT_DOUBLE_EQ(card_profile(call).launches[1].share, 0.5);
  call.launches[0].event_seconds = 1e-6;
  EXPECT_DOUBLE_EQ(card_profile(call).launches[1].share, 0.5);  // one of two times is none
  call.launches[1].event_seconds = 3e-6;
  EXPECT_DOUBLE_EQ(card_profile(call).launches[1].share, 0.75);
}

TEST(DegradedProfile, OfAnArchitectureNobodyKnowsSaysWhatIsMissing) {
  CardCall call = counted_launch().call;
  call.card.sm = 199;
  call.launches[0].facts = {};
  const LaunchReport card = card_profile(call).launches[0].report;
  for (const char* name : {"waves", "ctas_per_sm", "occupancy_percent", "launch__registers_per_thread"})
    EXPECT_TRUE(card.missing.contains(name)) << name;
  EXPECT_FALSE(counters_of(card).contains("waves"));
}

TEST(DegradedProfile, TheDriverIsBelievedAndADifferenceShown) {
  CardCall call = counted_launch().call;
  call.launches[0].facts.ctas_per_sm = 1;
  const LaunchReport card = card_profile(call).launches[0].report;
  EXPECT_EQ(card.ctas_per_sm, 1);
  EXPECT_NE(card.summary.find("the driver says 1 CTAs an SM, our table"), std::string::npos) << card.summary;
}

TEST(StaticSass, CountsInstructionsByWhatTheyDo) {
  predict::SassKernel kernel;
  for (const char* opcode :
       {"HMMA.16816.F32", "FFMA", "IMAD.MOV.U32", "LDG.E.128", "LDGSTS.E.BYPASS.128", "LDS.128", "LDSM.16.M88.4", "STS",
        "STL", "LDL.LU", "STG.E", "BAR.SYNC.DEFER_BLOCKING", "EXIT", "NOP"})
    kernel.instructions.push_back({.opcode = opcode});
  const StaticSass counts = static_sass(kernel);
  EXPECT_EQ(counts, (StaticSass{.instructions = 13,
                                .matrix_products = 1,
                                .multiply_adds = 2,
                                .global_loads = 1,
                                .global_stores = 1,
                                .async_copies = 1,
                                .shared_loads = 2,
                                .shared_stores = 1,
                                .local_accesses = 2,
                                .barriers = 1}));
  CardCall call = counted_launch().call;
  call.launches[0].sass = counts;
  const LaunchReport card = card_profile(call).launches[0].report;
  EXPECT_EQ(card.metrics.at("static__sass_local_accesses"), 2);
  EXPECT_NE(card.summary.find("13 instructions as they stand: 1 matrix products"), std::string::npos) << card.summary;
}

// What ptxas makes of the kernel, and nvdisasm prints of that.
TEST(StaticSass, IsReadFromACubin) {
  const TemporaryDirectory directory;
  const auto toolkit = find_cuda_toolkit();
  ASSERT_TRUE(toolkit) << "no CUDA toolkit";
  const auto in = [&](const char* name) { return (directory.path() / name).string(); };
  std::ofstream(in("everything.ptx")) << everything_ptx;
  const auto ptxas = std::filesystem::path(toolkit->nvcc).parent_path() / "ptxas";
  const auto made =
      run_process({.argv = {ptxas, "-arch=sm_89", "-lineinfo", "-o", in("everything.cubin"), in("everything.ptx")}});
  ASSERT_TRUE(made && made->ok()) << (made ? made->err : made.error().to_string());
  const auto counts = static_sass_of(in("everything.cubin"), "everything");
  ASSERT_TRUE(counts) << counts.error().to_string();
  EXPECT_EQ(counts->async_copies, 1);
  EXPECT_EQ(counts->global_loads, 1);
  EXPECT_EQ(counts->global_stores, 1);
  EXPECT_EQ(counts->shared_loads, 1);
  EXPECT_EQ(counts->shared_stores, 1);
  EXPECT_EQ(counts->barriers, 2);
  EXPECT_EQ(counts->matrix_products, 0);
  EXPECT_GT(counts->instructions, 20);
  EXPECT_FALSE(static_sass_of(in("everything.cubin"), "nothing"));
}

}  // namespace
}  // namespace flashmoe::workflow
