// What is said of a launch that fills the machine on paper only.
#include <gtest/gtest.h>

#include <algorithm>

#include "workflow/gpu/findings.hpp"
#include "workflow/gpu/profile.hpp"

namespace flashmoe::workflow {
namespace {

constexpr double sms = 58, ctas_at_once = 348;

LaunchReport launch_of(std::int64_t ctas, double working, double largest_over_mean, double instructions = 1e6) {
  LaunchReport launch{.kernel = "k",
                      .name = "k",
                      .grid = {ctas, 1, 1},
                      .sms = sms,
                      .waves = working / ctas_at_once,
                      .waves_of_grid = static_cast<double>(ctas) / ctas_at_once,
                      .working_ctas = working,
                      .working_sms = std::min(working, sms),
                      .largest_cta_over_mean = largest_over_mean,
                      .occupancy_percent = 100};
  launch.metrics["vgpu__ptx_inst_executed.sum"] = instructions;
  return launch;
}

TEST(Advice, IdleCtasDoNotMakeWaves) {
  const auto advice = advise(launch_of(1024, 2, 500));
  ASSERT_EQ(advice.size(), 1u);
  EXPECT_EQ(advice.front().rule, "grid");
  EXPECT_NE(
      advice.front().says.find("2 of 1024 CTAs do work, on 2 of 58 SMs, which is 0.006 waves (of all CTAs 2.943)"),
      std::string::npos)
      << advice.front().says;
  EXPECT_NE(advice.front().says.find("at least 56 SMs have nothing to do"), std::string::npos) << advice.front().says;
}

TEST(Advice, ATriangleIsNotBlamed) {
  EXPECT_TRUE(advise(launch_of(1024, 973, 2)).empty());
}

// Little work each around a few that compute: together they are worth twelve.
TEST(Advice, PretendedWorkIsUneven) {
  const auto advice = advise(launch_of(1024, 1024, 84));
  ASSERT_EQ(advice.size(), 1u);
  EXPECT_EQ(advice.front().rule, "balance");
  EXPECT_NE(advice.front().says.find("84.0 times the mean"), std::string::npos) << advice.front().says;
}

TEST(Advice, UnevenCtasThatFillTheMachineAllTheSameAreFine) {
  EXPECT_TRUE(advise(launch_of(100'000, 100'000, 10)).empty());
}

TEST(VirtualFindings, WarnOfIdleCtasWhereAKernelDoesMost) {
  // The small workload may leave CTAs without work; the large one tells.
  EXPECT_TRUE(virtual_findings({launch_of(1024, 2, 500, 1e4), launch_of(1024, 1024, 1, 1e6)}).warnings.empty());
  EXPECT_TRUE(virtual_findings({launch_of(2, 2, 1)}).warnings.empty()) << "a small grid hides nothing";
  const auto found = virtual_findings({launch_of(4, 4, 1, 1e4), launch_of(1024, 2, 500, 1e6)});
  ASSERT_EQ(found.warnings.size(), 1u);
  EXPECT_EQ(found.warnings.front().group, "waves");
  EXPECT_NE(found.warnings.front().what.find("2 of 1024 CTAs do work"), std::string::npos);
  EXPECT_TRUE(found.findings.empty()) << "and it is no error";
}

}  // namespace
}  // namespace flashmoe::workflow
