#include "workflow/selftest/simulation.hpp"

#include <gtest/gtest.h>

#include <cmath>

namespace flashmoe::workflow {
namespace {

SimulationOptions quick() {
  SimulationOptions options;
  options.runs = 400;
  options.trials_per_cell = 400;
  return options;
}

TEST(Simulation, ARunKeepsSomethingFalseInAtMostFivePercent) {
  const NullResult result = simulate_null(quick());
  EXPECT_LE(result.false_keeps.upper, 0.05);
  EXPECT_GT(result.false_keeps_of_naive.lower, 0.5) << "noise that fools nobody proves nothing";
  EXPECT_GT(result.pair_spread, 0.004);
}

// The same simulation must be able to say no: a test with twenty times the alpha keeps far more.
TEST(Simulation, ATestThatSpendsTooMuchIsSeen) {
  SimulationOptions options = quick();
  options.total_alpha = 2;
  EXPECT_GT(simulate_null(options).false_keeps.lower, 0.05);
}

TEST(Simulation, FindsFivePercentAndTwoPercentAtASpreadOfOnePercent) {
  for (const int index : {1, 20}) {
    const auto cells = simulate_power(quick(), {0.01}, {0.0, 0.02, 0.05}, index);
    ASSERT_EQ(cells.size(), 3U);
    EXPECT_LT(cells[0].kept.rate, 0.03);
    EXPECT_GE(cells[1].kept.rate, 0.9) << "k = " << index;
    EXPECT_GE(cells[2].kept.rate, 0.9) << "k = " << index;
  }
}

TEST(Simulation, PowerFallsWithTheSpreadAndRisesWithTheGain) {
  const auto cells = simulate_power(quick(), {0.005, 0.03}, {0.01, 0.03}, 1);
  EXPECT_GT(cells[0].kept.rate, cells[2].kept.rate);
  EXPECT_GT(cells[3].kept.rate, cells[2].kept.rate);
}

TEST(Simulation, TheSeedAloneDecidesNotTheThreads) {
  SimulationOptions one = quick();
  one.runs = 40;
  one.threads = 1;
  SimulationOptions many = one;
  many.threads = 5;
  EXPECT_TRUE(simulate_null(one) == simulate_null(many));
  many.seed = 43;
  EXPECT_FALSE(simulate_null(one) == simulate_null(many));
}

TEST(SimulatedMachine, HasTheNoiseItPromises) {
  SimulatedMachine machine(NoiseModel{}, 5);
  double sum = 0;
  double squares = 0;
  constexpr int n = 4000;
  for (int i = 0; i < n; ++i) {
    const double x = machine.single_run_log_time(20);
    sum += x;
    squares += x * x;
  }
  const double spread = std::sqrt(squares / n - (sum / n) * (sum / n));
  // drift 1 %, clock steps of 1.5 % (0.75 % as a deviation), process 0.4 % with its tail: about 1.4 % together.
  EXPECT_GT(spread, 0.011);
  EXPECT_LT(spread, 0.018);
}

TEST(SimulatedMachine, APairSeesTheGainAndNotTheDrift) {
  NoiseModel model;
  model.process = 0;
  model.unlucky_process_share = 0;
  SimulatedMachine machine(model, 6);
  double sum = 0;
  for (int i = 0; i < 500; ++i) sum += machine.pair_log_ratio(0.03);
  EXPECT_NEAR(sum / 500, 0.03, 0.0005);
}

TEST(ExactRate, IsClopperAndPearsons) {
  const RateInterval none = exact_rate(0, 400);
  EXPECT_EQ(none.lower, 0);
  EXPECT_NEAR(none.upper, 1 - std::pow(0.025, 1.0 / 400), 1e-9);
  const RateInterval some = exact_rate(10, 100);  // published: 0.0490, 0.1762
  EXPECT_NEAR(some.lower, 0.0490, 1e-4);
  EXPECT_NEAR(some.upper, 0.1762, 1e-4);
  EXPECT_EQ(exact_rate(5, 5).upper, 1);
  EXPECT_EQ(exact_rate(0, 0).upper, 1);
}

}  // namespace
}  // namespace flashmoe::workflow
