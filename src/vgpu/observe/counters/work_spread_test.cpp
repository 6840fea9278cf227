#include "vgpu/observe/counters/work_spread.hpp"

#include <gtest/gtest.h>

#include <functional>

namespace flashmoe::vgpu::observe {
namespace {

constexpr std::uint32_t sms = 58;

struct CtaWork {
  std::uint64_t instructions = 0;
  bool wrote = true;
};

WorkSpread spread_of(std::uint64_t ctas, const std::function<CtaWork(std::uint64_t)>& work) {
  WorkCount count;
  count.launch_begins(sms);
  for (std::uint64_t i = 0; i < ctas; ++i) {
    const CtaWork one = work(i);
    count.cta_ended(i, static_cast<std::uint32_t>(i % sms), one.instructions, one.wrote);
  }
  return count.spread();
}

TEST(WorkSpread, EqualCtasAllWork) {
  const WorkSpread spread = spread_of(1024, [](std::uint64_t) { return CtaWork{500}; });
  EXPECT_EQ(spread.ctas, 1024u);
  EXPECT_EQ(spread.working_ctas, 1024u);
  EXPECT_EQ(spread.working_sms, sms);
  EXPECT_DOUBLE_EQ(spread.largest_over_mean, 1);
  EXPECT_EQ(spread.busiest_sm, 18u * 500);  // 1024 CTAs on 58 SMs: 38 have 18 of them
}

// Also where the two that compute do so little that returning is most of what the launch executes.
TEST(WorkSpread, CtasThatReturnAtOnceDoNotCount) {
  for (const std::uint64_t work : {std::uint64_t{100'000}, std::uint64_t{1200}}) {
    const WorkSpread spread = spread_of(1024, [&](std::uint64_t i) {
      return i < 2 ? CtaWork{work} : CtaWork{48, false};
    });
    EXPECT_EQ(spread.working_ctas, 2u);
    EXPECT_EQ(spread.working_sms, 2u);
    EXPECT_GT(spread.largest_over_mean, 20);
  }
}

// Each stores something and executes more than a tenth of the mean, which they make themselves.
TEST(WorkSpread, NorDoThoseThatPretend) {
  const WorkSpread spread = spread_of(1024, [](std::uint64_t i) { return i < 2 ? CtaWork{1'000'000} : CtaWork{4000}; });
  EXPECT_EQ(spread.working_ctas, 2u);
}

TEST(WorkSpread, ATriangleIsHonest) {
  const WorkSpread spread = spread_of(1024, [](std::uint64_t i) { return CtaWork{100 * (i + 1)}; });
  EXPECT_EQ(spread.working_ctas, 1024u - 51);  // a tenth of the mean and a twentieth of the largest: 51.25 and 51.2
  EXPECT_EQ(spread.working_sms, sms);
  EXPECT_NEAR(spread.largest_over_mean, 2, 0.01);
}

// One CTA joins the others' results: theirs was work all the same.
TEST(WorkSpread, TheLastCtaMayDoMore) {
  const WorkSpread spread = spread_of(1024, [](std::uint64_t i) { return CtaWork{i == 1023 ? 1500u : 100u}; });
  EXPECT_EQ(spread.working_ctas, 1024u);
}

TEST(WorkSpread, NothingRan) {
  EXPECT_EQ(spread_of(0, [](std::uint64_t) { return CtaWork{}; }).largest_over_mean, 0);
  EXPECT_EQ(spread_of(8, [](std::uint64_t) { return CtaWork{}; }).working_ctas, 0u);
  EXPECT_EQ(spread_of(8, [](std::uint64_t) { return CtaWork{100, false}; }).working_ctas, 0u);
}

}  // namespace
}  // namespace flashmoe::vgpu::observe
