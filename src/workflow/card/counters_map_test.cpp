// The map against NVIDIA's own library, which knows every metric of every chip without one being there, and against
// what the virtual GPU reports.
#include "workflow/card/counters_map.hpp"

#include <gtest/gtest.h>

#include <cstdio>
#include <set>

#include "runtime/cupti.hpp"
#include "workflow/advise/advise.hpp"
#include "workflow/advise/counters.hpp"
#include "workflow/card/counted_launch_for_test.hpp"

namespace flashmoe::workflow {
namespace {

struct Chip {
  const char* name;
  int sm;
};
constexpr Chip chips[] = {{"GA100", 80}, {"GA102", 86},  {"AD102", 89}, {"AD104", 89},
                          {"GH100", 90}, {"GB100", 100}, {"GB202", 120}};

// A launch is run so often: more would no longer be light.
constexpr std::size_t most_passes = 12;

TEST(CountersMap, EveryNameIsOneThatLibcuptiCountsOnEveryChip) {
  const auto cupti = runtime::Cupti::find();
  ASSERT_TRUE(cupti) << cupti.error().to_string();
  for (const Chip& chip : chips) {
    const auto plan = runtime::CounterPlan::make(*cupti, chip.name, wanted_card_metrics(chip.sm));
    ASSERT_TRUE(plan) << chip.name << ": " << plan.error().to_string();
    EXPECT_EQ(plan->refused(), std::vector<std::string>{}) << chip.name;
    EXPECT_LE(plan->passes(), most_passes) << chip.name;
    std::printf("%s (sm_%d): %zu metrics in %zu passes\n", chip.name, chip.sm, plan->metrics().size(), plan->passes());
  }
}

TEST(CountersMap, ARowForOneKindOfGpuIsNeededThere) {
  const auto cupti = runtime::Cupti::find();
  ASSERT_TRUE(cupti) << cupti.error().to_string();
  // On the GPUs that a row leaves out its name is refused or deprecated; else the row need not be so narrow.
  const std::vector<std::string> names{"sm__inst_executed_pipe_tensor_v2.sum", "smsp__inst_executed.sum"};
  EXPECT_EQ(runtime::CounterPlan::make(*cupti, "GA100", names)->refused().size(), 1U);
  const std::vector<std::string> dram{"dram__bytes_read.sum", "dram__bytes_write.sum", "smsp__inst_executed.sum"};
  EXPECT_EQ(runtime::CounterPlan::make(*cupti, "GB202", dram)->refused().size(), 2U);
}

TEST(CountersMap, CountersHaveOneRowAtMostOnEachGpu) {
  for (const Chip& chip : chips) {
    std::set<std::string> seen;
    for (const CardMetric& row : card_metrics()) {
      if (!row.is_for(chip.sm)) continue;
      EXPECT_TRUE(seen.insert(row.counter).second) << row.counter;
    }
    for (const Uncounted& one : uncounted_on_a_card()) EXPECT_TRUE(seen.insert(one.counter).second) << one.counter;
  }
}

TEST(CountersMap, WhatNobodyCountedIsMissingAndNeverZero) {
  const CardCounters nothing = card_counters({}, 89);
  EXPECT_TRUE(nothing.counted.empty());
  EXPECT_TRUE(nothing.missing.contains("vgpu__ptx_inst_executed.sum"));
  EXPECT_TRUE(nothing.missing.contains("largest_cta_over_mean"));
  // One of two that are added up is not enough.
  const CardCounters half = card_counters({{"l1tex__t_sectors_pipe_lsu_mem_local_op_ld.sum", 3}}, 89);
  EXPECT_TRUE(half.missing.contains("vgpu__local_bytes.sum"));
  const CardCounters both = card_counters(
      {{"l1tex__t_sectors_pipe_lsu_mem_local_op_ld.sum", 3}, {"l1tex__t_sectors_pipe_lsu_mem_local_op_st.sum", 0}}, 89);
  EXPECT_EQ(both.counted.at("vgpu__local_bytes.sum").value, 96);
  EXPECT_FALSE(both.missing.contains("vgpu__local_bytes.sum"));
}

TEST(CountersMap, WhatAKindOfGpuLacksIsMissingThere) {
  const std::map<std::string, double> counted{{"dram__bytes_read.sum", 64}, {"sm__inst_executed_pipe_tensor.sum", 5}};
  EXPECT_EQ(card_counters(counted, 90).counted.at("vgpu__dram_bytes_read.sum").value, 64);
  EXPECT_TRUE(card_counters(counted, 120).missing.contains("vgpu__dram_bytes_read.sum"));
  EXPECT_EQ(card_counters(counted, 90).counted.at("vgpu__ptx_inst_executed_pipe_tensor.sum").value, 5);
  EXPECT_TRUE(card_counters(counted, 89).missing.contains("vgpu__ptx_inst_executed_pipe_tensor.sum"));
}

// Of the driver's word and the geometry's.
bool is_told_without_counters(const std::string& name) {
  return name.starts_with("launch__") || name.starts_with("device__") || name.starts_with("sm__maximum_warps");
}

TEST(CountersMap, KnowsEveryMetricOfAVirtualReport) {
  const CountedLaunch launch = counted_launch();
  std::set<std::string> known;
  for (const CardMetric& row : card_metrics()) known.insert(row.counter);
  for (const Uncounted& one : uncounted_on_a_card()) known.insert(one.counter);
  ASSERT_GT(launch.report.metrics.size(), 40U);
  for (const auto& [name, value] : launch.report.metrics)
    EXPECT_TRUE(known.contains(name) || is_told_without_counters(name)) << name;
}

TEST(CountersMap, EveryCounterThatARuleMayReadIsMapped) {
  LaunchReport card;
  for (const Uncounted& one : uncounted_on_a_card()) card.missing.emplace(one.counter, one.why);
  std::set<std::string> unknown;
  for (const CounterName& counter : counter_names())
    if (!counter.is_known(card)) unknown.insert(counter.name);
  EXPECT_EQ(unknown, std::set<std::string>{"largest_cta_over_mean"});
}

// What a card would have counted, had it counted what the virtual GPU did.
std::map<std::string, double> as_a_card(const LaunchReport& report, int sm) {
  std::map<std::string, double> values;
  for (const CardMetric& row : card_metrics()) {
    if (!row.is_for(sm)) continue;
    const auto found = report.metrics.find(row.counter);
    for (const char* name : row.card)
      if (name != nullptr) values.emplace(name, 0);
    if (found != report.metrics.end()) values[row.card[0]] = found->second / row.factor;
  }
  return values;
}

TEST(CardProfile, TheSameCountersGetTheSameAdvice) {
  const auto rules = builtin_rules();
  ASSERT_TRUE(rules) << rules.error().to_string();
  CountedLaunch launch = counted_launch();
  ProfileRun on_virtual{.launches = {{.report = launch.report}}};
  ASSERT_TRUE(advise(on_virtual, *rules));
  launch.call.counted_by = CountedBy::cupti;
  launch.call.launches[0].counted = as_a_card(launch.report, launch.call.card.sm);
  ProfileRun on_card = card_profile(launch.call);
  EXPECT_TRUE(on_card.degraded.empty());
  const auto advised = advise(on_card, *rules);
  ASSERT_TRUE(advised) << advised.error().to_string();

  std::vector<std::string> here, there;
  for (const Advice& one : ranked(on_virtual)) here.push_back(one.says);
  for (const Advice& one : ranked(on_card)) there.push_back(one.says);
  EXPECT_GT(here.size(), 3U);
  EXPECT_EQ(here, there);
  // No card tells CTAs apart, and the rule that asks says so.
  ASSERT_EQ(on_card.launches[0].unasked.size(), 1U);
  EXPECT_EQ(on_card.launches[0].unasked[0].rule, "balance");
  EXPECT_EQ(on_card.launches[0].unasked[0].missing, std::vector<std::string>{"largest_cta_over_mean"});
  const std::string text = profile_text(on_card);
  EXPECT_NE(text.find("not asked   for want of counters: balance (largest_cta_over_mean)"), std::string::npos) << text;
  EXPECT_NE(text.find("Counted on the card by CUPTI: instructions are SASS, not PTX"), std::string::npos) << text;
}

}  // namespace
}  // namespace flashmoe::workflow
