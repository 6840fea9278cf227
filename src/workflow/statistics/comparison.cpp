#include "workflow/statistics/comparison.hpp"

#include <fmt/format.h>

#include <chrono>
#include <cmath>
#include <utility>

#include "support/clock.hpp"

namespace flashmoe::workflow {
namespace {

using Clock = std::chrono::steady_clock;

// Equal versions that differ at this level show a machine or a harness that cannot be believed. Far below the alpha
// of a comparison, so that a sound machine is practically never refused.
constexpr double bias_alpha = 0.001;

std::vector<double> log_ratios_of(const std::vector<PairSample>& pairs) {
  std::vector<double> x;
  x.reserve(pairs.size());
  for (const PairSample& pair : pairs) x.push_back(pair.log_ratio);
  return x;
}

Ending ending_of(PairProblem problem) {
  switch (problem) {
    case PairProblem::base_failed:
      return Ending::base_failed;
    case PairProblem::candidate_failed:
      return Ending::candidate_failed;
    case PairProblem::preempted:
      return Ending::preempted;
    case PairProblem::interrupted:
      return Ending::interrupted;
    case PairProblem::none:
      break;
  }
  return Ending::decided;
}

Verdict decide_by_plan(const std::vector<double>& x, const ComparisonPlan& plan) {
  Verdict verdict = decide(x, plan.policy);
  const double least = std::log1p(plan.policy.min_gain);
  if (plan.lower_bound_decides && verdict.decision == Decision::keep && verdict.interval.lower < least) {
    verdict.decision = Decision::inconclusive;
    verdict.final = verdict.pairs >= plan.policy.max_pairs;
  }
  return verdict;
}

Diagnostic slow_in_some_blocks(double log_ratio) {
  return {.message = fmt::format("most blocks of the candidate are faster, all of them together are not: {:+.1f} %",
                                 100 * std::expm1(log_ratio)),
          .fix = "look for work that is put off and made up for in some calls; if there is none, a quieter machine"};
}

Diagnostic refused_threshold(const Calibration& calibration, const ComparePolicy& policy) {
  if (!std::isfinite(calibration.minimum_detectable_gain)) {
    return {
        .message = fmt::format("{} pairs cannot decide at the error rate of {:.2g} that is left for this comparison "
                               "of the run",
                               policy.max_pairs, policy.alpha),
        .fix = "--max-pairs 24, or begin a new run with --run NAME"};
  }
  return {.message = fmt::format("a least gain of {:.2f} % is below the {:.2f} % this machine can detect in {} pairs "
                                 "(equal versions spread by {:.2f} % from pair to pair)",
                                 100 * policy.min_gain, 100 * calibration.minimum_detectable_gain, policy.max_pairs,
                                 100 * calibration.pair_spread),
          .fix = fmt::format("--min-gain {:.4f}, or a quieter machine (stop other work, fix the clocks), or longer "
                             "blocks (--block-ms)",
                             calibration.minimum_detectable_gain * 1.05)};
}

Diagnostic found_biased(const Calibration& calibration) {
  return {
      .message = fmt::format("two equal builds look different by {:+.2f} % [{:+.2f} %, {:+.2f} %] over {} pairs: "
                             "this machine favours one side",
                             100 * std::expm1(calibration.interval.mean), 100 * std::expm1(calibration.interval.lower),
                             100 * std::expm1(calibration.interval.upper), calibration.pairs),
      .fix = "stop what else runs here and compare again; cudadent selftest shows whether it is the machine"};
}

}  // namespace

const char* name_of(Ending ending) {
  switch (ending) {
    case Ending::decided:
      return "DECIDED";
    case Ending::threshold_refused:
      return "THRESHOLD REFUSED";
    case Ending::biased:
      return "MACHINE BIASED";
    case Ending::base_failed:
      return "BASE FAILED";
    case Ending::candidate_failed:
      return "CANDIDATE FAILED";
    case Ending::preempted:
      return "PREEMPTED";
    case Ending::interrupted:
      return "INTERRUPTED";
    case Ending::out_of_time:
      return "OUT OF TIME";
  }
  return "DECIDED";
}

Calibration calibrate(const std::vector<double>& equal_log_ratios, const ComparePolicy& policy) {
  Calibration calibration;
  calibration.pairs = static_cast<int>(equal_log_ratios.size());
  calibration.pair_spread = std::sqrt(moments_of(equal_log_ratios).variance);
  calibration.noise_floor = std::expm1(calibration.pair_spread / std::sqrt(static_cast<double>(policy.max_pairs)));
  calibration.minimum_detectable_gain = minimum_detectable_gain(calibration.pair_spread, policy);
  calibration.interval = confidence_sequence(equal_log_ratios, bias_alpha, policy.g);
  calibration.biased = calibration.interval.lower > 0 || calibration.interval.upper < 0;
  return calibration;
}

std::vector<double> Comparison::log_ratios() const {
  return log_ratios_of(pairs);
}

std::string Comparison::word() const {
  return ending == Ending::decided ? workflow::name_of(verdict.decision) : workflow::name_of(ending);
}

Comparison compare_versions(const PairSource& equal_pair, const PairSource& pair, const ComparisonPlan& plan,
                            Comparison earlier, const ComparisonHooks& hooks) {
  Comparison result = std::move(earlier);
  result.ending = Ending::decided;
  result.problem = {};
  const auto start = Clock::now();
  const double seconds_before = result.seconds;
  const auto update_time = [&] { result.seconds = seconds_before + seconds_since(start); };
  const auto stop = [&](Ending ending, Diagnostic problem) {
    update_time();
    result.ending = ending;
    result.problem = std::move(problem);
    return result;
  };
  // Fills `samples` by one; true when that worked.
  const auto take = [&](const PairSource& source, std::vector<PairSample>& samples, PairOutcome& outcome) {
    update_time();
    if (result.seconds > plan.limit_seconds) return false;
    outcome = source(static_cast<int>(samples.size()));
    if (outcome.problem != PairProblem::none) return false;
    samples.push_back(outcome.sample);
    return true;
  };
  const auto give_up = [&](const PairOutcome& outcome) {
    if (outcome.problem != PairProblem::none) return stop(ending_of(outcome.problem), outcome.diagnostic);
    return stop(Ending::out_of_time,
                {.message = fmt::format("the limit of {:.0f} s passed after {} calibration pairs and {} pairs",
                                        plan.limit_seconds, result.calibration_pairs.size(), result.pairs.size()),
                 .fix = "--limit with more seconds and --resume goes on from here"});
  };

  while (static_cast<int>(result.calibration_pairs.size()) < plan.calibration_pairs) {
    PairOutcome outcome;
    if (!take(equal_pair, result.calibration_pairs, outcome)) return give_up(outcome);
    if (hooks.after_pair) hooks.after_pair(true, outcome.sample, result.verdict);
  }
  result.calibration = calibrate(log_ratios_of(result.calibration_pairs), plan.policy);
  if (result.calibration.biased) return stop(Ending::biased, found_biased(result.calibration));
  if (!std::isfinite(result.calibration.minimum_detectable_gain)) {
    return stop(Ending::threshold_refused, refused_threshold(result.calibration, plan.policy));
  }
  // What is clearly faster or slower is so on any machine; that a gain is missing can be said only where it would be
  // seen.
  const bool too_coarse = plan.policy.min_gain < result.calibration.minimum_detectable_gain;
  double in_all_blocks = 0;
  bool slow_in_some = false;
  const auto decide_now = [&] {
    result.verdict = decide_by_plan(result.log_ratios(), plan);
    const bool misses_only_the_gain = result.verdict.decision == Decision::revert && result.verdict.interval.upper >= 0;
    if (too_coarse && misses_only_the_gain) result.verdict.decision = Decision::inconclusive;
    in_all_blocks = log_ratio_of_all_blocks(result.pairs);
    slow_in_some = result.verdict.decision == Decision::keep && !(in_all_blocks > 0);
    if (!slow_in_some) return;
    result.verdict.decision = Decision::inconclusive;
    result.verdict.final = result.verdict.pairs >= plan.policy.max_pairs;
  };

  decide_now();
  while (!result.verdict.final) {
    PairOutcome outcome;
    if (!take(pair, result.pairs, outcome)) return give_up(outcome);
    decide_now();
    if (hooks.after_pair) hooks.after_pair(false, outcome.sample, result.verdict);
  }
  update_time();
  if (too_coarse && result.verdict.decision == Decision::inconclusive) {
    result.problem = refused_threshold(result.calibration, plan.policy);
  }
  if (slow_in_some) result.problem = slow_in_some_blocks(in_all_blocks);
  return result;
}

}  // namespace flashmoe::workflow
