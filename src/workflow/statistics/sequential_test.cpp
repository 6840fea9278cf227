#include "workflow/statistics/sequential.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

namespace flashmoe::workflow {
namespace {

std::vector<double> normal_sample(std::mt19937_64& random, int n, double mean, double spread) {
  std::normal_distribution<double> normal(mean, spread);
  std::vector<double> x;
  for (int i = 0; i < n; ++i) x.push_back(normal(random));
  return x;
}

// The e-value from its definition, without the closed form: the likelihood of the data with effect size
// delta ~ N(0, g) over that with delta = 0, the scale integrated against d sigma / sigma in both. Plain trapezoids on
// log(sigma) and delta.
double e_value_by_integration(const std::vector<double>& x, double null_mean, double g) {
  const double scale = std::sqrt(moments_of(x).variance) + std::abs(moments_of(x).mean - null_mean);
  const auto marginal = [&](double delta, double reference) {
    double sum = 0;
    constexpr double step = 0.02;
    for (double log_sigma = -8; log_sigma <= 8; log_sigma += step) {
      const double sigma = scale * std::exp(log_sigma);
      double log_likelihood = 0;
      for (const double value : x) {
        const double z = (value - null_mean) / sigma - delta;
        log_likelihood += -0.5 * z * z - std::log(sigma);
      }
      sum += std::exp(log_likelihood - reference) * step;
    }
    return sum;
  };
  const double reference = -static_cast<double>(x.size()) * (std::log(scale) + 0.5);
  double mixture = 0;
  constexpr double step = 0.02;
  for (double delta = -9; delta <= 9; delta += step) {
    const double prior = std::exp(-0.5 * delta * delta / g) / std::sqrt(2 * M_PI * g);
    mixture += prior * marginal(delta, reference) * step;
  }
  return mixture / marginal(0, reference);
}

TEST(EValue, AgreesWithItsDefinitionIntegratedNumerically) {
  std::mt19937_64 random(1);
  for (const double g : {0.5, 1.0, 2.0}) {
    for (const int n : {2, 6, 13}) {
      const std::vector<double> x = normal_sample(random, n, 0.012, 0.01);
      const Moments m = moments_of(x);
      const double expected = e_value_by_integration(x, 0.002, g);
      EXPECT_NEAR(e_value(m.mean, m.variance, n, 0.002, g) / expected, 1, 1e-3) << "n " << n << " g " << g;
    }
  }
}

TEST(EValue, IsTheDesignsFormula) {
  // n = 6, t = 5, g = 1: 7^-1/2 * ((1 + 25/5) / (1 + 25/35))^3
  const double variance = 6.0;  // t = mean / sqrt(variance / n) = mean
  EXPECT_NEAR(e_value(5, variance, 6, 0, 1), std::pow(7, -0.5) * std::pow(6 / (1 + 25.0 / 35), 3), 1e-12);
}

TEST(EValue, OneOrNoPairSaysNothing) {
  EXPECT_EQ(e_value(3, 1, 1, 0, 1), 1);
  EXPECT_EQ(e_value(3, 1, 0, 0, 1), 1);
}

TEST(EValue, NoSpreadAtAllStaysFinite) {
  EXPECT_NEAR(e_value(0.1, 0, 6, 0, 1), std::pow(7, 2.5), 1e-9);
  EXPECT_NEAR(e_value(0.1, 1e-30, 6, 0, 1), std::pow(7, 2.5), 1e-6);
  EXPECT_NEAR(e_value(0, 0, 6, 0, 1), 1 / std::sqrt(7.0), 1e-12);
}

TEST(ConfidenceSequence, ItsEndsAreWhereTheEValueIsOneOverAlpha) {
  std::mt19937_64 random(2);
  for (const double alpha : {0.05, 0.025, 0.0005}) {
    for (const int n : {8, 12, 24}) {
      const std::vector<double> x = normal_sample(random, n, 0.01, 0.02);
      const Moments m = moments_of(x);
      const ConfidenceInterval interval = confidence_sequence(x, alpha, 1);
      ASSERT_TRUE(std::isfinite(interval.lower)) << "n " << n << " alpha " << alpha;
      EXPECT_NEAR(e_value(m.mean, m.variance, n, interval.lower, 1) * alpha, 1, 1e-9);
      EXPECT_NEAR(e_value(m.mean, m.variance, n, interval.upper, 1) * alpha, 1, 1e-9);
      EXPECT_LT(e_value(m.mean, m.variance, n, 0.5 * (interval.mean + interval.lower), 1) * alpha, 1);
    }
  }
}

TEST(ConfidenceSequence, IsUnboundedWhereTooFewPairsCouldEverDecide) {
  const ConfidenceInterval interval = confidence_sequence({0.1, 0.1, 0.1}, 1e-4, 1);
  EXPECT_EQ(interval.lower, -std::numeric_limits<double>::infinity());
  EXPECT_EQ(interval.upper, std::numeric_limits<double>::infinity());
}

TEST(ConfidenceSequence, CoversTheTruthAtEveryLookTogether) {
  std::mt19937_64 random(3);
  constexpr int runs = 4000;
  constexpr double alpha = 0.05;
  int missed = 0;
  int missed_at_the_end = 0;
  for (int run = 0; run < runs; ++run) {
    const std::vector<double> x = normal_sample(random, 200, 0.01, 0.03);
    std::vector<double> seen;
    bool out = false;
    for (const double value : x) {
      seen.push_back(value);
      const ConfidenceInterval interval = confidence_sequence(seen, alpha, 1);
      out = out || interval.lower > 0.01 || interval.upper < 0.01;
    }
    missed += out;
    const ConfidenceInterval last = confidence_sequence(x, alpha, 1);
    missed_at_the_end += last.lower > 0.01 || last.upper < 0.01;
  }
  // Three standard errors of a binomial at alpha. The lower limit says that the test can fail: looking at every pair
  // uses up a good part of alpha, which an interval for one look would not survive.
  EXPECT_LE(missed, runs * alpha + 3 * std::sqrt(runs * alpha * (1 - alpha)));
  EXPECT_GE(missed, runs * alpha * 0.2);
  EXPECT_LT(missed_at_the_end, missed);
}

ComparePolicy policy_with(double min_gain) {
  return {.alpha = 0.025, .min_gain = min_gain, .min_pairs = 6, .max_pairs = 24, .g = 1};
}

std::vector<double> around(double mean, double spread, int n) {
  std::vector<double> x;
  for (int i = 0; i < n; ++i) x.push_back(mean + (i % 2 == 0 ? spread : -spread));
  return x;
}

TEST(Decide, KeepNeedsTheLowerBoundAndTheGain) {
  EXPECT_EQ(decide(around(0.05, 0.005, 8), policy_with(0.02)).decision, Decision::keep);
  // Surely faster, and surely by less than it must be.
  EXPECT_EQ(decide(around(0.01, 0.0005, 8), policy_with(0.02)).decision, Decision::revert);
  // Surely faster, but whether by enough is open.
  const Verdict open = decide(around(0.018, 0.004, 12), policy_with(0.02));
  EXPECT_GT(open.interval.lower, 0);
  EXPECT_EQ(open.decision, Decision::inconclusive);
  EXPECT_FALSE(open.final);
  EXPECT_EQ(decide(around(-0.05, 0.005, 8), policy_with(0.02)).decision, Decision::revert);
}

TEST(Decide, NothingIsDecidedBeforeSixPairsAndAllIsFinalAtTwentyFour) {
  const Verdict early = decide(around(0.5, 0.0001, 5), policy_with(0.02));
  EXPECT_EQ(early.decision, Decision::inconclusive);
  EXPECT_FALSE(early.final);
  EXPECT_EQ(decide(around(0.5, 0.0001, 6), policy_with(0.02)).decision, Decision::keep);
  const Verdict noisy = decide(around(0.02, 0.2, 24), policy_with(0.02));
  EXPECT_EQ(noisy.decision, Decision::inconclusive);
  EXPECT_TRUE(noisy.final);
}

TEST(Decide, ANonFinitePairDecidesNothing) {
  std::vector<double> x = around(0.5, 0.01, 24);
  x[3] = std::numeric_limits<double>::quiet_NaN();
  EXPECT_EQ(decide(x, policy_with(0.02)).decision, Decision::inconclusive);
}

TEST(Alpha, TheWholeRunSpendsItsTotal) {
  EXPECT_DOUBLE_EQ(spend_alpha(0.05, 1), 0.025);
  EXPECT_DOUBLE_EQ(spend_alpha(0.05, 20), 0.05 / 420);
  double sum = 0;
  for (int k = 1; k <= 100000; ++k) sum += spend_alpha(0.05, k);
  EXPECT_LE(sum, 0.05);
  EXPECT_GT(sum, 0.0499);
}

TEST(MinimumDetectableGain, HasThePowerItPromises) {
  std::mt19937_64 random(4);
  const ComparePolicy policy = policy_with(0.0);
  for (const double spread : {0.003, 0.01}) {
    const double gain = minimum_detectable_gain(spread, policy, 0.8);
    int found = 0;
    constexpr int runs = 3000;
    for (int run = 0; run < runs; ++run) {
      const auto x = normal_sample(random, policy.max_pairs, std::log1p(gain), spread);
      found += confidence_sequence(x, policy.alpha, policy.g).lower > 0;
    }
    EXPECT_NEAR(found / static_cast<double>(runs), 0.8, 0.025) << "spread " << spread;
  }
}

}  // namespace
}  // namespace flashmoe::workflow
