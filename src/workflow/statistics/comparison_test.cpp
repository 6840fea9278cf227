#include "workflow/statistics/comparison.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

namespace flashmoe::workflow {
namespace {

PairSource source(std::uint64_t seed, double log_gain, double spread) {
  auto random = std::make_shared<std::mt19937_64>(seed);
  return [=](int) {
    std::normal_distribution<double> normal(log_gain, spread);
    PairOutcome outcome;
    outcome.sample.log_ratio = normal(*random);
    return outcome;
  };
}

PairSource failing_at(int index, PairProblem problem, PairSource otherwise) {
  return [=](int pair) {
    if (pair != index) return otherwise(pair);
    return PairOutcome{.problem = problem, .diagnostic = {.message = "it went away"}};
  };
}

ComparisonPlan plan_with(double min_gain) {
  ComparisonPlan plan;
  plan.policy = {.alpha = 0.025, .min_gain = min_gain};
  return plan;
}

TEST(Pair, ADriftCancelsAndTheMedianBlockCounts) {
  // Base 10, candidate 8, everything 1 % slower from slot to slot; one block is disturbed.
  const auto block = [](double disturbance) {
    return AbbaBlock{10, 8 * 1.01, 8 * 1.0201 * disturbance, 10 * 1.030301};
  };
  const PairSample sample = pair_of({block(1), block(1), block(3), block(1), block(1)});
  EXPECT_NEAR(sample.log_ratio, std::log(10.0 / 8), 1e-12);
  EXPECT_EQ(sample.block_log_ratios.size(), 5U);
  EXPECT_NEAR(sample.base_seconds, 10.15, 0.01);
}

TEST(Comparison, KeepsARealGainAndRevertsALoss) {
  const Comparison keep = compare_versions(source(1, 0, 0.005), source(2, 0.06, 0.005), plan_with(0.02));
  EXPECT_EQ(keep.word(), "KEEP");
  EXPECT_EQ(keep.calibration.pairs, 8);
  EXPECT_LT(keep.pairs.size(), 24U) << "it stops as soon as it knows";
  const Comparison revert = compare_versions(source(3, 0, 0.005), source(4, -0.03, 0.005), plan_with(0.02));
  EXPECT_EQ(revert.word(), "REVERT");
}

// Three blocks of five are twice as fast, two of them six times slower: the median is KEEP, the time is not.
TEST(Comparison, WhoIsFastInMostBlocksOnlyIsNotKept) {
  const auto taking = [](const std::vector<double>& candidate_seconds) {
    return [=](int pair) {
      const double base = 1 + 0.001 * (pair % 3);
      std::vector<AbbaBlock> blocks;
      for (const double seconds : candidate_seconds) blocks.push_back({base, seconds, seconds, base});
      return PairOutcome{.sample = pair_of(blocks)};
    };
  };
  const Comparison bursts = compare_versions(source(1, 0, 0.005), taking({0.5, 6, 0.5, 6, 0.5}), plan_with(0.02));
  EXPECT_EQ(bursts.word(), "INCONCLUSIVE");
  EXPECT_NE(bursts.problem.message.find("all of them together are not"), std::string::npos) << bursts.problem.message;
  // One block that somebody disturbed is not the candidate's.
  const Comparison disturbed = compare_versions(source(1, 0, 0.005), taking({0.5, 2, 0.5, 0.5, 0.5}), plan_with(0.02));
  EXPECT_EQ(disturbed.word(), "KEEP");
  EXPECT_EQ(disturbed.problem.message, "");
}

TEST(Pair, AllBlocksTogether) {
  EXPECT_TRUE(std::isnan(log_ratio_of_all_blocks({})));
  const PairSample one = pair_of({{2, 1, 1, 2}, {2, 1, 1, 2}, {2, 10, 10, 2}});
  EXPECT_NEAR(one.log_ratio, std::log(2), 1e-12);
  PairSample of_an_old_record;
  of_an_old_record.log_ratio = std::log(2);
  EXPECT_NEAR(log_ratio_of_all_blocks({one, of_an_old_record}), 0.5 * (std::log(0.5) + std::log(2)), 1e-12);
}

TEST(Comparison, BelowTheNoiseOnlyAClearGainIsKeptAndOnlyAClearLossReverted) {
  const Comparison keep = compare_versions(source(1, 0, 0.03), source(2, 0.5, 0.03), plan_with(0.005));
  ASSERT_GT(keep.calibration.minimum_detectable_gain, 0.005);
  EXPECT_EQ(keep.word(), "KEEP");
  EXPECT_EQ(keep.problem.message, "");
  const Comparison slower = compare_versions(source(1, 0, 0.03), source(2, -0.5, 0.03), plan_with(0.005));
  EXPECT_EQ(slower.word(), "REVERT");
  EXPECT_LT(slower.pairs.size(), 24U) << "it stops as soon as it knows";
  const Comparison a_little_slower = compare_versions(source(1, 0, 0.03), source(2, -0.01, 0.03), plan_with(0.005));
  ASSERT_GT(a_little_slower.verdict.interval.upper, 0);
  EXPECT_EQ(a_little_slower.word(), "INCONCLUSIVE");
  EXPECT_NE(a_little_slower.problem.fix.find("--min-gain 0.0"), std::string::npos) << a_little_slower.problem.fix;
}

TEST(Comparison, PairsThatCannotDecideAreRefusedBeforeTheFirst) {
  ComparisonPlan plan = plan_with(0.02);
  plan.policy.alpha = 1e-30;
  const Comparison refused = compare_versions(source(1, 0, 0.03), source(2, 0.5, 0.03), plan);
  EXPECT_EQ(refused.ending, Ending::threshold_refused);
  EXPECT_TRUE(refused.pairs.empty());
}

TEST(Comparison, ABiasedMachineIsRefused) {
  const Comparison biased = compare_versions(source(1, 0.05, 0.001), source(2, 0.05, 0.001), plan_with(0.02));
  EXPECT_EQ(biased.ending, Ending::biased);
}

TEST(Comparison, AFailedCandidateIsNoSlowCandidate) {
  const Comparison failed = compare_versions(
      source(1, 0, 0.005), failing_at(3, PairProblem::candidate_failed, source(2, 0.1, 0.005)), plan_with(0.02));
  EXPECT_EQ(failed.word(), "CANDIDATE FAILED");
  EXPECT_EQ(failed.problem.message, "it went away");
}

TEST(Comparison, GoesOnAfterAPreemptionWithWhatItHad) {
  const ComparisonPlan plan = plan_with(0.02);
  const PairSource pairs = source(2, 0.03, 0.012);
  Comparison stopped = compare_versions(source(1, 0, 0.006), failing_at(4, PairProblem::preempted, pairs), plan);
  EXPECT_EQ(stopped.word(), "PREEMPTED");
  ASSERT_EQ(stopped.pairs.size(), 4U);
  const auto no_more = [](int) -> PairOutcome {
    ADD_FAILURE() << "the calibration is not measured again";
    return {};
  };
  const Comparison resumed = compare_versions(no_more, pairs, plan, stopped);
  EXPECT_EQ(resumed.ending, Ending::decided);
  // The same as if nothing had happened: the same pairs in the same order.
  const Comparison straight = compare_versions(source(1, 0, 0.006), source(2, 0.03, 0.012), plan);
  EXPECT_EQ(resumed.log_ratios(), straight.log_ratios());
  EXPECT_EQ(resumed.word(), straight.word());
}

TEST(Comparison, HasATimeLimit) {
  ComparisonPlan plan = plan_with(0.02);
  plan.limit_seconds = -1;
  const Comparison late = compare_versions(source(1, 0, 0.005), source(2, 0.05, 0.005), plan);
  EXPECT_EQ(late.ending, Ending::out_of_time);
}

TEST(Comparison, AFinalClaimNeedsTheLowerBound) {
  ComparisonPlan plan = plan_with(0.04);
  const PairSource equal = source(1, 0, 0.01);
  const Comparison ordinary = compare_versions(equal, source(7, 0.05, 0.012), plan);
  ASSERT_EQ(ordinary.word(), "KEEP");
  ASSERT_LT(ordinary.verdict.interval.lower, std::log1p(0.04));
  plan.lower_bound_decides = true;
  const Comparison final_claim = compare_versions(equal, source(7, 0.05, 0.012), plan);
  if (final_claim.word() == "KEEP") {
    EXPECT_GE(final_claim.verdict.interval.lower, std::log1p(0.04));
  }
  EXPECT_GT(final_claim.pairs.size(), ordinary.pairs.size());
}

TEST(Gain, HasNoInfinity) {
  const Gain gain = gain_of({.mean = std::log(1.5), .lower = -INFINITY, .upper = INFINITY});
  EXPECT_NEAR(*gain.mean, 0.5, 1e-12);
  EXPECT_FALSE(gain.lower || gain.upper);
}

}  // namespace
}  // namespace flashmoe::workflow
