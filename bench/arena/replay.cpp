#include "replay.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <numeric>
#include <random>
#include <utility>

#include "workflow/project/project.hpp"
#include "workflow/runner/inputs.hpp"
#include "workflow/selftest/noise.hpp"
#include "workflow/statistics/sequential.hpp"

namespace flashmoe::arena {
namespace {

using workflow::mix_seed;
using workflow::PairOutcome;
using workflow::PairProblem;
using workflow::PairSource;
using workflow::SimulatedMachine;

// Fisher and Yates, written out: the same on every standard library.
std::vector<std::size_t> shuffled(std::size_t count, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<std::size_t> order(count);
  std::iota(order.begin(), order.end(), std::size_t{0});
  for (std::size_t i = count; i > 1; --i) std::swap(order[i - 1], order[random() % i]);
  return order;
}

PairOutcome refused(const Attempt& attempt) {
  return {.problem = PairProblem::candidate_failed, .diagnostic = {.message = attempt.why}};
}

PairOutcome measured(const RawPair& pair) {
  return {.sample = workflow::pair_of(pair)};
}

// Whoever was refused is refused in the same pair again; else the pairs come in an order that the seed chose.
PairSource recorded_pairs(const Attempt& attempt, std::uint64_t seed) {
  const bool stopped = !attempt.refused_by.empty();
  return [&attempt, stopped, order = shuffled(attempt.pairs.size(), seed)](int index) -> PairOutcome {
    const auto at = static_cast<std::size_t>(index);
    if (at >= attempt.pairs.size()) return refused(attempt);
    return measured(attempt.pairs[stopped ? at : order[at]]);
  };
}

PairSource recorded_equal_pairs(const RecordedTask& task, std::uint64_t seed) {
  return [&task, order = shuffled(task.equal_pairs.size(), seed)](int index) {
    return measured(task.equal_pairs[order[static_cast<std::size_t>(index) % order.size()]]);
  };
}

PairSource simulated_pairs(std::shared_ptr<SimulatedMachine> machine, double log_gain, const Attempt* attempt) {
  return [machine = std::move(machine), log_gain, attempt](int index) -> PairOutcome {
    const bool stopped = attempt != nullptr && !attempt->refused_by.empty();
    if (stopped && index >= static_cast<int>(attempt->pairs.size())) return refused(*attempt);
    PairOutcome outcome;
    outcome.sample.log_ratio = machine->pair_log_ratio(log_gain);
    outcome.sample.block_log_ratios = {outcome.sample.log_ratio};
    return outcome;
  };
}

std::vector<double> seconds_of(const std::vector<std::int64_t>& nanoseconds) {
  std::vector<double> seconds;
  for (const std::int64_t one : nanoseconds)
    seconds.push_back(1e-9 * static_cast<double>(std::max<std::int64_t>(1, one)));
  return seconds;
}

// 100 launches as plain samples of five.
std::vector<double> simulated_run(SimulatedMachine& machine, double log_gain, std::size_t samples) {
  constexpr std::size_t launches = 5;
  const std::vector<double> times = machine.single_run_log_times(static_cast<int>(samples * launches));
  std::vector<double> seconds(samples, 0);
  for (std::size_t i = 0; i < times.size(); ++i) seconds[i / launches] += std::exp(times[i] - log_gain) / launches;
  return seconds;
}

// What a plain run of it shows where only the simulated noise stands between: a cheat looks as fast as it did.
double shown_log_gain(const RecordedCandidate& candidate) {
  return is_honest(candidate.truth) ? true_log_gain(candidate) : plain_log_gain(candidate);
}

// What a cheat or a kernel that is wrong does with its pairs: they were recorded, too.
double pair_log_gain(const RecordedCandidate& candidate, const Attempt& attempt) {
  if (is_honest(candidate.truth)) return true_log_gain(candidate);
  std::vector<double> x;
  for (const RawPair& pair : attempt.pairs) x.push_back(workflow::pair_of(pair).log_ratio);
  return x.empty() ? 0 : workflow::moments_of(x).mean;
}

Evidence evidence_of(const RecordedTask& task, const RecordedCandidate& candidate, int seed_index, Noise noise,
                     std::uint64_t seed) {
  const auto index = static_cast<std::size_t>(seed_index);
  const Attempt& attempt = candidate.attempts[index % candidate.attempts.size()];
  Evidence evidence{.one_shape = candidate.one_shape,
                    .shapes = candidate.shapes,
                    .correct = attempt.refused_by != "correctness",
                    .seed = mix_seed(seed, 1)};
  const PlainPair& plain = candidate.plain[index % candidate.plain.size()];
  if (noise == Noise::recorded) {
    evidence.plain_base = seconds_of(plain.base);
    evidence.plain_candidate = seconds_of(plain.candidate);
    evidence.pair = recorded_pairs(attempt, mix_seed(seed, 2));
    evidence.equal_pair = recorded_equal_pairs(task, mix_seed(seed, 3));
    return evidence;
  }
  const auto machine = std::make_shared<SimulatedMachine>(workflow::NoiseModel{}, mix_seed(seed, 4));
  evidence.plain_base = simulated_run(*machine, 0, plain.base.size());
  evidence.plain_candidate = simulated_run(*machine, shown_log_gain(candidate), plain.candidate.size());
  evidence.pair = simulated_pairs(machine, pair_log_gain(candidate, attempt), &attempt);
  evidence.equal_pair = simulated_pairs(machine, 0, nullptr);
  return evidence;
}

struct RunResult {
  bool false_keep = false, bad_keep = false;
  double log_speed = 0;
  int comparisons = 0, pairs = 0;
};

Count& count_for(Score& score, const RecordedCandidate& candidate) {
  switch (candidate.truth) {
    case Truth::equal:
      return score.equal;
    case Truth::slower:
      return score.slower;
    case Truth::breaks:
      return score.breaks;
    case Truth::wrong:
      return score.wrong;
    case Truth::cheat:
      return score.cheats;
    case Truth::faster:
      break;
  }
  const double least = std::log1p(workflow::Thresholds{}.least_gain.at("tuning"));
  return true_log_gain(candidate) < least ? score.small_gains : score.gains;
}

RunResult one_run(const RecordedTask& task, std::size_t task_index, int seed_index, const Rule& rule, Noise noise,
                  Score& score) {
  RunResult result;
  // Nothing here depends on the rule: all see the same order and the same draws.
  const std::uint64_t run_seed = mix_seed(mix_seed(0xA7E4A, task_index), static_cast<std::uint64_t>(seed_index));
  for (const std::size_t at : shuffled(task.candidates.size(), run_seed)) {
    const RecordedCandidate& candidate = task.candidates[at];
    const Evidence evidence = evidence_of(task, candidate, seed_index, noise, mix_seed(run_seed, 100 + at));
    const Decided decided = decide(rule, evidence, result.comparisons + 1);
    result.comparisons += decided.compared ? 1 : 0;
    result.pairs += decided.pairs;
    Count& count = count_for(score, candidate);
    ++count.offered;
    if (!decided.keeps) continue;
    ++count.kept;
    const bool false_keep = candidate.truth == Truth::equal || candidate.truth == Truth::slower;
    result.false_keep = result.false_keep || false_keep;
    result.bad_keep = result.bad_keep || false_keep || !is_honest(candidate.truth);
    if (is_honest(candidate.truth)) result.log_speed += true_log_gain(candidate);
  }
  return result;
}

// Over tasks: runs of one task share its recording.
Interval over_tasks(const std::vector<double>& log_speeds) {
  const workflow::Moments moments = workflow::moments_of(log_speeds);
  constexpr double t_of_30 = 2.045;  // 95 %, for 30 tasks
  const double half = t_of_30 * std::sqrt(moments.variance / static_cast<double>(log_speeds.size()));
  return {std::exp(moments.mean), std::exp(moments.mean - half), std::exp(moments.mean + half)};
}

Score score_of(const Recording& recording, const Rule& rule, const ReplayOptions& options) {
  Score score{.rule = rule.name, .what_if = rule.what_if};
  std::vector<double> log_speeds;
  int comparisons = 0;
  int pairs = 0;
  for (std::size_t task = 0; task < recording.tasks.size(); ++task) {
    double log_speed = 0;
    bool any_false = false;
    for (int seed = 0; seed < options.seeds; ++seed) {
      const RunResult run = one_run(recording.tasks[task], task, seed, rule, options.noise, score);
      ++score.runs;
      score.runs_with_false_keep += run.false_keep ? 1 : 0;
      score.runs_with_bad_keep += run.bad_keep ? 1 : 0;
      any_false = any_false || run.false_keep;
      log_speed += run.log_speed / options.seeds;
      comparisons += run.comparisons;
      pairs += run.pairs;
    }
    score.tasks_with_false_keep += any_false ? 1 : 0;
    log_speeds.push_back(log_speed);
  }
  score.speed = over_tasks(log_speeds);
  score.mean_pairs = comparisons > 0 ? static_cast<double>(pairs) / comparisons : 0;
  return score;
}

double spread_of_equal_pairs(const RecordedTask& task) {
  std::vector<double> x;
  for (const RawPair& pair : task.equal_pairs) x.push_back(workflow::pair_of(pair).log_ratio);
  return std::sqrt(workflow::moments_of(x).variance);
}

double spread_of_plain_runs(const RecordedTask& task) {
  std::vector<double> x;
  for (const RecordedCandidate& candidate : task.candidates) {
    if (candidate.truth != Truth::equal) continue;
    for (const PlainPair& pair : candidate.plain) {
      x.push_back(
          std::log(workflow::median_of(seconds_of(pair.base)) / workflow::median_of(seconds_of(pair.candidate))));
    }
  }
  return std::sqrt(workflow::moments_of(x).variance);
}

}  // namespace

workflow::RateInterval Score::false_keep_rate() const {
  return workflow::exact_rate(runs_with_false_keep, runs);
}

workflow::RateInterval Score::bad_keep_rate() const {
  return workflow::exact_rate(runs_with_bad_keep, runs);
}

Replay replay(const Recording& recording, const std::vector<Rule>& rules, const ReplayOptions& options) {
  Replay result{.tasks = static_cast<int>(recording.tasks.size()), .seeds = options.seeds};
  std::vector<double> pair_spreads;
  std::vector<double> plain_spreads;
  double best = 0;
  for (const RecordedTask& task : recording.tasks) {
    result.candidates += static_cast<int>(task.candidates.size());
    pair_spreads.push_back(spread_of_equal_pairs(task));
    plain_spreads.push_back(spread_of_plain_runs(task));
    for (const RecordedCandidate& candidate : task.candidates) {
      if (candidate.truth == Truth::faster)
        best += true_log_gain(candidate) / static_cast<double>(recording.tasks.size());
    }
  }
  result.best_speed = std::exp(best);
  result.pair_spread = workflow::median_of(pair_spreads);
  result.plain_spread = workflow::median_of(plain_spreads);
  for (const Rule& rule : rules) result.scores.push_back(score_of(recording, rule, options));
  return result;
}

}  // namespace flashmoe::arena
