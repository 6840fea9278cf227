// What is said of a launch that fills the machine on paper only.
#include <gtest/gtest.h>

#include <algorithm>

#include "workflow/advise/advise.hpp"
#include "workflow/advise/counters.hpp"
#include "workflow/advise/host.hpp"
#include "workflow/gpu/findings.hpp"

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
  launch.metrics["vgpu__ptx_inst_executed.max"] = instructions / std::max(launch.working_sms, 1.0);
  return launch;
}

std::vector<Advice> advise(const LaunchReport& launch) {
  ProfileRun run{.launches = {{.report = launch}}};
  const auto rules = builtin_rules();
  EXPECT_TRUE(rules) << rules.error().to_string();
  EXPECT_TRUE(workflow::advise(run, *rules));
  return ranked(run);
}

TEST(Advice, IdleCtasDoNotMakeWaves) {
  const auto advice = advise(launch_of(1024, 2, 500));
  ASSERT_EQ(advice.size(), 1u);
  EXPECT_EQ(advice.front().rule, "grid");
  EXPECT_EQ(advice.front().says,
            "the grid is too small: 1024 CTAs on 58 SMs: 3.45 % of the machine (2 of 1024 CTAs do work, on 2 SMs; "
            "0.00575 waves)");
  EXPECT_EQ(advice.front().expected, (CounterChange{.name = "working_sms", .from = 2, .to = 4}));
  EXPECT_DOUBLE_EQ(advice.front().gain, 29);
}

TEST(Advice, ATriangleIsNotBlamed) {
  EXPECT_TRUE(advise(launch_of(1024, 973, 2)).empty());
}

// Little work each around a few that compute: together they are worth twelve.
TEST(Advice, PretendedWorkIsUneven) {
  const auto advice = advise(launch_of(1024, 1024, 84));
  ASSERT_EQ(advice.size(), 1u);
  EXPECT_EQ(advice.front().rule, "balance");
  EXPECT_NE(advice.front().says.find("84 times the mean"), std::string::npos) << advice.front().says;
}

TEST(Advice, UnevenCtasThatFillTheMachineAllTheSameAreFine) {
  EXPECT_TRUE(advise(launch_of(100'000, 100'000, 10)).empty());
}

// Of a card nobody says which CTA did how much: a rule that asks for it must not take it for 0 and be silent.
TEST(Advice, ARuleWhoseCounterIsMissingSaysSo) {
  LaunchReport launch = launch_of(1024, 1024, 84);
  launch.missing["largest_cta_over_mean"] = "no card tells";
  ProfileRun run{.launches = {{.report = launch}}};
  ASSERT_TRUE(workflow::advise(run, *builtin_rules()));
  EXPECT_TRUE(ranked(run).empty());
  ASSERT_EQ(run.launches[0].unasked.size(), 1u);
  EXPECT_EQ(run.launches[0].unasked[0].rule, "balance");
  EXPECT_EQ(run.launches[0].unasked[0].missing, std::vector<std::string>{"largest_cta_over_mean"});
  EXPECT_FALSE(counters_of(launch).contains("largest_cta_over_mean"));
}

// What is computed from a missing counter is missing, too.
TEST(Advice, AMissingCounterTakesAlongWhatIsComputedFromIt) {
  LaunchReport launch = launch_of(1024, 2, 500);
  launch.missing["vgpu__ptx_inst_executed.max"] = "not counted";
  ProfileRun run{.launches = {{.report = launch}}};
  ASSERT_TRUE(workflow::advise(run, *builtin_rules()));
  ASSERT_EQ(ranked(run).size(), 1u);
  EXPECT_EQ(ranked(run).front().rule, "grid");
  const auto conflicts = std::find_if(run.launches[0].unasked.begin(), run.launches[0].unasked.end(),
                                      [](const UnaskedRule& one) { return one.rule == "bank conflicts"; });
  ASSERT_NE(conflicts, run.launches[0].unasked.end());
  EXPECT_FALSE(least_cycles(run, *builtin_rules()));
}

// A launch that is a tenth of the work gains a tenth at most.
TEST(Advice, ALaunchWeighsByItsShare) {
  ProfileRun run{
      .launches = {{.report = launch_of(58, 58, 1), .share = 0.9}, {.report = launch_of(1024, 2, 500), .share = 0.1}}};
  ASSERT_TRUE(workflow::advise(run, *builtin_rules()));
  const auto advice = ranked(run);
  ASSERT_FALSE(advice.empty());
  EXPECT_LT(advice.back().gain, 1.2);
  EXPECT_GT(advice.front().gain, advice.back().gain);
}

std::string bottleneck_of(const HostCall& call) {
  const auto advice = workflow::advise(call);
  EXPECT_TRUE(advice) << advice.error().to_string();
  return !advice || advice->empty() ? "none" : advice->front().rule;
}

// One processor, 10 GB/s: a call that moves 1 MB takes 100 microseconds at least.
HostCall host_call(double seconds, double processor_seconds, Named<double> counted = {}) {
  return {.seconds = seconds,
          .processor_seconds = processor_seconds,
          .bytes = 1e6,
          .bytes_per_second = 1e10,
          .counted = std::move(counted)};
}

TEST(HostAdvice, TimeAndBytesTellWithoutCounters) {
  EXPECT_EQ(bottleneck_of(host_call(1e-2, 1e-4)), "waiting");
  EXPECT_EQ(bottleneck_of(host_call(1.1e-4, 1.1e-4)), "memory bandwidth");
  EXPECT_EQ(bottleneck_of(host_call(1e-2, 1e-2)), "computing");
  HostCall wide = host_call(1e-2, 1e-2);
  wide.threads = 4;
  EXPECT_EQ(bottleneck_of(wide), "idle threads");
}

TEST(HostAdvice, CountersTellMore) {
  const auto counted = [](double instructions, double misses) {
    return Named<double>{{"cycles", 3e7}, {"instructions", instructions}, {"cache_misses", misses}};
  };
  EXPECT_EQ(bottleneck_of(host_call(1e-2, 1e-2, counted(1e7, 10))), "stalls");
  EXPECT_EQ(bottleneck_of(host_call(1e-2, 1e-2, counted(9e7, 10))), "instructions");
  EXPECT_EQ(bottleneck_of(host_call(1e-2, 1e-2, counted(9e7, 1.2e6))), "repeated traffic");
  EXPECT_EQ(bottleneck_of(host_call(1.1e-4, 1.1e-4, counted(9e7, 16000))), "memory bandwidth");
}

// Whatever was measured, something is named: a gate must not end without it.
TEST(HostAdvice, NamesSomethingOfEveryCall) {
  for (const double seconds : {0.0, 1e-9, 1e-4, 2e-4, 3.0}) {
    for (const double busy : {0.0, 0.3, 0.5, 1.0, 3.9}) {
      for (const double per_cycle : {-1.0, 0.0, 0.99, 1.0, 5.0}) {
        HostCall call = host_call(seconds, busy * seconds);
        call.threads = 4;
        if (per_cycle >= 0) call.counted = {{"cycles", 1e6}, {"instructions", per_cycle * 1e6}, {"cache_misses", 0}};
        EXPECT_NE(bottleneck_of(call), "none") << seconds << " s, " << busy << " busy, " << per_cycle;
        call.bytes = 0;
        EXPECT_NE(bottleneck_of(call), "none") << seconds << " s, " << busy << " busy, " << per_cycle << ", no bytes";
      }
    }
  }
}

TEST(Rules, ErrorsHaveTheirPlace) {
  struct Case {
    const char* text;
    int line;
    const char* says;
  };
  const Case cases[] = {{"[[rule]]\nname = 1\n", 2, "is no text"},
                        {"[[rule]]\nnam = \"x\"\n", 2, "is no field"},
                        {"[[rule]]\nname = \"x\"\n", 1, "is missing"},
                        {"[values]\na = \"b + 1\"\n", 2, "'b'"},
                        {"[other]\n", 1, "is no part"},
                        {"[[rule]\n", 1, "is not TOML"}};
  for (const Case& one : cases) {
    const auto rules = parse_rules(one.text, "advice.toml");
    ASSERT_FALSE(rules) << one.text;
    EXPECT_EQ(rules.error().line, one.line) << one.text << rules.error().to_string();
    EXPECT_NE(rules.error().to_string().find(one.says), std::string::npos) << rules.error().to_string();
    EXPECT_EQ(rules.error().file, "advice.toml");
  }
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
