#include "vgpu/observe/counters/work_spread.hpp"

#include <gtest/gtest.h>

#include <functional>

namespace flashmoe::vgpu::observe {
namespace {

constexpr std::uint32_t sms = 58;

WorkSpread spread_of(std::uint64_t ctas, const std::function<std::uint64_t(std::uint64_t)>& instructions) {
  WorkCount count;
  count.launch_begins(sms);
  for (std::uint64_t i = 0; i < ctas; ++i) count.cta_ended(static_cast<std::uint32_t>(i % sms), instructions(i));
  return count.spread();
}

TEST(WorkSpread, EqualCtasAllWork) {
  const WorkSpread spread = spread_of(1024, [](std::uint64_t) { return 500; });
  EXPECT_EQ(spread.ctas, 1024u);
  EXPECT_EQ(spread.working_ctas, 1024u);
  EXPECT_EQ(spread.working_sms, sms);
  EXPECT_DOUBLE_EQ(spread.largest_over_mean, 1);
}

TEST(WorkSpread, CtasThatReturnAtOnceDoNotCount) {
  const WorkSpread spread = spread_of(1024, [](std::uint64_t i) { return i < 2 ? 100'000 : 12; });
  EXPECT_EQ(spread.working_ctas, 2u);
  EXPECT_EQ(spread.working_sms, 2u);
  EXPECT_GT(spread.largest_over_mean, 400);
}

// Each executes more than a tenth of the mean, which they make themselves.
TEST(WorkSpread, NorDoThoseThatPullTheMeanDown) {
  const WorkSpread spread = spread_of(1024, [](std::uint64_t i) { return i < 2 ? 1'000'000 : 400; });
  EXPECT_EQ(spread.working_ctas, 2u);
}

TEST(WorkSpread, ATriangleIsHonest) {
  const WorkSpread spread = spread_of(1024, [](std::uint64_t i) { return 100 * (i + 1); });
  EXPECT_EQ(spread.working_ctas, 1024u - 51);  // a tenth of the mean is 5125: the first 51 have less
  EXPECT_EQ(spread.working_sms, sms);
  EXPECT_NEAR(spread.largest_over_mean, 2, 0.01);
}

// One CTA joins the others' results: theirs was work all the same.
TEST(WorkSpread, TheLastCtaMayDoMore) {
  const WorkSpread spread = spread_of(1024, [](std::uint64_t i) { return i == 1023 ? 5000 : 100; });
  EXPECT_EQ(spread.working_ctas, 1024u);
}

TEST(WorkSpread, NothingRan) {
  EXPECT_EQ(spread_of(0, [](std::uint64_t) { return 0; }).largest_over_mean, 0);
  EXPECT_EQ(spread_of(8, [](std::uint64_t) { return 0; }).working_ctas, 0u);
}

}  // namespace
}  // namespace flashmoe::vgpu::observe
