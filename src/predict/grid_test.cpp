// CTAs on SMs, by hand; and the other terms of the device.
#include <gtest/gtest.h>

#include "predict/device.hpp"

namespace flashmoe::predict {
namespace {

TEST(Grid, WavesOfOneCtaAnSm) {
  const std::vector<CtaCycles> ctas(5, {100, 100});
  EXPECT_DOUBLE_EQ(grid_cycles(ctas, 2, 1, 10), 100 + 110 + 110);
  EXPECT_DOUBLE_EQ(grid_cycles(ctas, 5, 1, 10), 100);
  EXPECT_DOUBLE_EQ(grid_cycles(ctas, 50, 1, 10), 100);
  EXPECT_DOUBLE_EQ(grid_cycles({}, 5, 1, 10), 0);
}

TEST(Grid, ResidentCtasShareTheirSm) {
  const std::vector<CtaCycles> four(4, {100, 160});
  EXPECT_DOUBLE_EQ(grid_cycles(four, 2, 2, 0), 160);
  // One SM has two, the other one.
  EXPECT_DOUBLE_EQ(grid_cycles(std::span(four).first(3), 2, 2, 0), 160);
  EXPECT_DOUBLE_EQ(grid_cycles(std::span(four).first(2), 2, 2, 0), 100);
}

// Six on two SMs of two places: the last two go to different SMs, where each is alone.
TEST(Grid, TheLastWaveSpreads) {
  const std::vector<CtaCycles> six(6, {100, 160});
  EXPECT_NEAR(grid_cycles(six, 2, 2, 0), 160 + 100, 2);
}

// Between two CTAs of a place the neighbour has the SM for itself.
TEST(Grid, TheGapIsNoWork) {
  const std::vector<CtaCycles> ctas{{100, 200}, {1000, 2000}, {100, 200}};
  // 0 to 200 together (a tenth of the long one), 50 alone (a twentieth), 200 together (a tenth), the rest alone.
  EXPECT_NEAR(grid_cycles(ctas, 1, 2, 50), 200 + 50 + 200 + 750, 1e-6);
}

TEST(Grid, ALongCtaSpeedsUpWhenItsNeighbourEnds) {
  const std::vector<CtaCycles> two{{100, 200}, {50, 100}};
  // Together until 100, when the first is half done and goes on alone.
  EXPECT_NEAR(grid_cycles(two, 1, 2, 0), 150, 1e-6);
}

TEST(Grid, HeavyCtasLastCostMore) {
  std::vector<CtaCycles> ascending;
  for (int i = 1; i <= 64; ++i) ascending.push_back({100.0 * i, 100.0 * i});
  const std::vector<CtaCycles> descending(ascending.rbegin(), ascending.rend());
  EXPECT_LT(grid_cycles(descending, 8, 1, 0), grid_cycles(ascending, 8, 1, 0));
}

TEST(Grid, CyclesBetweenSimulatedPoints) {
  const CurvePoint curve[] = {{10, {100, 150}}, {20, {300, 450}}, {40, {500, 750}}};
  EXPECT_DOUBLE_EQ(cycles_at(curve, 10).alone, 100);
  EXPECT_DOUBLE_EQ(cycles_at(curve, 15).resident, 300);
  EXPECT_DOUBLE_EQ(cycles_at(curve, 30).alone, 400);
  EXPECT_DOUBLE_EQ(cycles_at(curve, 50).alone, 600);
  EXPECT_DOUBLE_EQ(cycles_at(std::span(curve).first(1), 20).resident, 300);
}

TEST(Device, DramCountsOnlyBeyondL2) {
  const auto l4 = find_gpu("l4");
  ASSERT_TRUE(l4);
  EXPECT_EQ(dram_seconds(*l4, 1e9, l4->l2_bytes.value), 0);
  EXPECT_DOUBLE_EQ(dram_seconds(*l4, 1e9, l4->l2_bytes.value + 1),
                   1e9 / (l4->dram_gb_per_s.value * 1e9 * dram_efficiency(*l4).value));
}

TEST(Device, ClocksThatWereFittedSayIt) {
  for (const Gpu& gpu : all_gpus()) {
    const Fact clock = sustained_clock_mhz(gpu);
    if (!clock.known()) continue;
    EXPECT_NE(clock.source.find("fitted"), std::string_view::npos) << gpu.id;
    EXPECT_LE(clock.value, 1.1 * gpu.boost_clock_mhz.value) << gpu.id;
  }
}

TEST(Device, EveryArchitectureHasAnSm) {
  for (const Gpu& gpu : all_gpus()) {
    const auto machine = machine_of(gpu);
    ASSERT_TRUE(machine) << gpu.id;
    for (const ParameterFact& fact : parameter_facts())
      EXPECT_TRUE((machine->parameters.*(fact.fact)).known()) << gpu.id << ' ' << fact.name;
    EXPECT_GT(machine->l2_bytes_per_clock, 0) << gpu.id;
  }
}

}  // namespace
}  // namespace flashmoe::predict
