#include "predict/larger_grid.hpp"

#include <gtest/gtest.h>

namespace flashmoe::predict {
namespace {

// Three tiles in two splits; the way of the second split's first and last tile is known.
PtxRun small_run() {
  PtxRun run{.kernel = "k"};
  for (std::uint64_t i = 0; i < 6; ++i) run.totals.push_back({.instructions = 10 + i});
  run.ctas.push_back({.place = 3});
  run.ctas.push_back({.place = 5});
  return run;
}

TEST(LargerGrid, HeadsRepeatAlongTheirAxis) {
  const auto larger = with_grid(small_run(), {3, 1, 2}, {3, 2, 2});
  ASSERT_TRUE(larger) << larger.error().to_string();
  std::vector<std::uint64_t> instructions;
  for (const CtaTotals& one : larger->totals) instructions.push_back(one.instructions);
  // The splits stand behind all heads, as the launch of the larger grid would have them.
  EXPECT_EQ(instructions, (std::vector<std::uint64_t>{10, 11, 12, 10, 11, 12, 13, 14, 15, 13, 14, 15}));
  for (const PtxCta& cta : larger->ctas) EXPECT_EQ(larger->totals.at(cta.place), larger->totals.at(cta.place + 3));
  EXPECT_EQ(larger->totals.at(larger->ctas[0].place).instructions, 13u);
  EXPECT_EQ(larger->totals.at(larger->ctas[1].place).instructions, 15u);
}

TEST(LargerGrid, TheSameGridIsTheSameRun) {
  const auto same = with_grid(small_run(), {3, 1, 2}, {3, 1, 2});
  ASSERT_TRUE(same);
  EXPECT_EQ(same->totals, small_run().totals);
}

TEST(LargerGrid, RefusesWhatIsNoMultiple) {
  for (const Grid to : {Grid{4, 1, 2}, Grid{3, 1, 1}, Grid{3, 0, 2}, Grid{3, -1, 2}, Grid{1, 3, 2}})
    EXPECT_FALSE(with_grid(small_run(), {3, 1, 2}, to)) << to[0] << to[1] << to[2];
  EXPECT_FALSE(with_grid(small_run(), {3, 1, 2}, {3, 1 << 20, 1 << 20}));
  EXPECT_FALSE(with_grid(small_run(), {3, 1, 1}, {3, 2, 1})) << "counts of other CTAs";
}

}  // namespace
}  // namespace flashmoe::predict
