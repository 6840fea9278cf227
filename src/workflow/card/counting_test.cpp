#include "workflow/card/counting.hpp"

#include <gtest/gtest.h>

#include "runtime/counter_access.hpp"

namespace flashmoe::workflow {
namespace {

using Launches = std::vector<std::map<std::string, double>>;

CardCall call_of_one_launch() {
  return {.card = {.name = "NVIDIA L4", .sm = 89, .sm_count = 58},
          .launches = {{.kernel = "k", .facts = {.registers = 32, .ctas_per_sm = 4}}}};
}

Counting counting_by(const Result<Launches>& cupti, const Result<NcuReport>& ncu, int& ncu_was_asked) {
  return {.by_cupti = [=] { return cupti; },
          .by_ncu =
              [=, &ncu_was_asked] {
                ++ncu_was_asked;
                return ncu;
              }};
}

const Launches by_cupti{{{"smsp__inst_executed.sum", 7}}};
const NcuReport by_ncu{.launches = {{.kernel = "k", .counted = {{"smsp__inst_executed.sum", 8}}}}};

TEST(Counting, CuptiComesFirst) {
  int asked = 0;
  const ProfileRun run = profile_on_card(call_of_one_launch(), counting_by(by_cupti, by_ncu, asked));
  EXPECT_EQ(run.counted_by, "CUPTI");
  EXPECT_TRUE(run.degraded.empty());
  EXPECT_EQ(run.launches.at(0).report.instructions(), 7);
  EXPECT_EQ(asked, 0);
}

TEST(Counting, ThenNcu) {
  int asked = 0;
  const Diagnostic missing{.message = "no CUPTI"};
  const ProfileRun run = profile_on_card(call_of_one_launch(), counting_by(missing, by_ncu, asked));
  EXPECT_EQ(run.counted_by, "ncu");
  EXPECT_TRUE(run.degraded.empty());
  EXPECT_EQ(run.launches.at(0).report.instructions(), 8);
}

TEST(Counting, ThenNobodyWithBothReasons) {
  int asked = 0;
  const Diagnostic cupti{.message = "no CUPTI", .fix = "install it"}, ncu{.message = "no ncu", .fix = "install that"};
  const ProfileRun run = profile_on_card(call_of_one_launch(), counting_by(cupti, ncu, asked));
  EXPECT_EQ(run.counted_by, "nobody");
  EXPECT_EQ(run.degraded, "no CUPTI; no ncu");
  EXPECT_EQ(run.degraded_fix, "install it");
  EXPECT_FALSE(profile_on_card(call_of_one_launch(), {}).degraded.empty());
}

TEST(Counting, WhatIsLockedIsNotTriedTwice) {
  int asked = 0;
  const ProfileRun run =
      profile_on_card(call_of_one_launch(), counting_by(runtime::locked_counters("libcupti"), by_ncu, asked));
  EXPECT_EQ(run.counted_by, "nobody");
  EXPECT_NE(run.degraded_fix.find("NVreg_RestrictProfilingToAdminUsers=0"), std::string::npos);
  EXPECT_EQ(asked, 0);
}

TEST(Counting, CountersOfOtherLaunchesAreNotTaken) {
  int asked = 0;
  const Launches two{{{"smsp__inst_executed.sum", 7}}, {{"smsp__inst_executed.sum", 7}}};
  const Diagnostic missing{.message = "no ncu"};
  const ProfileRun run = profile_on_card(call_of_one_launch(), counting_by(two, missing, asked));
  EXPECT_EQ(run.counted_by, "nobody");
  EXPECT_EQ(run.degraded, "CUPTI counted 2 launches where the call makes 1; no ncu");
  EXPECT_TRUE(run.launches.at(0).report.missing.contains("vgpu__ptx_inst_executed.sum"));
}

}  // namespace
}  // namespace flashmoe::workflow
