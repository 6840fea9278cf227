#include "workflow/gates/performance.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <thread>

#include "support/clock.hpp"
#include "support/process.hpp"
#include "workflow/device/capabilities.hpp"
#include "workflow/device/card.hpp"
#include "workflow/device/card_watch.hpp"
#include "workflow/gates/context.hpp"
#include "workflow/gates/predicted.hpp"
#include "workflow/gates/record.hpp"
#include "workflow/gates/runnable.hpp"
#include "workflow/gates/stopped.hpp"
#include "workflow/runner/contest.hpp"
#include "workflow/runner/inputs.hpp"
#include "workflow/statistics/sequential.hpp"
#include "workflow/verdict/codes.hpp"

namespace flashmoe::workflow {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int abba_blocks_per_pair = 3;  // x = their median: one disturbed block does not widen the interval
constexpr int min_pairs = 6;
constexpr int max_pairs = 24;
constexpr int rehearsed_pairs = 2;  // the way is the same, and nothing is decided
// A kernel that is wrong in 1 of 50 calls is found with a probability of 0.99: 1 - (1 - 1/50)^228.
constexpr int judged_calls = 228;
constexpr double judged_calls_limit_seconds = 5;
constexpr int drift_blocks = 9;
constexpr int drift_attempts = 3;

// The lower quartile: what the machine does when nobody disturbs it.
double undisturbed(std::vector<double> seconds) {
  std::sort(seconds.begin(), seconds.end());
  return seconds.empty() ? 0 : seconds[seconds.size() / 4];
}

std::string time_text(double seconds) {
  if (seconds < 1e-3) return fmt::format("{:.4g} µs", seconds * 1e6);
  return seconds < 1 ? fmt::format("{:.4g} ms", seconds * 1e3) : fmt::format("{:.4g} s", seconds);
}

struct Figures {
  std::vector<double> log_ratios;  // one per pair of processes
  std::vector<PairSample> pairs;
  std::vector<double> base_seconds, kernel_seconds;
  int processor_clock_blocks = 0;
  ConfidenceInterval interval;
};

class Measurer {
 public:
  Measurer(const Project& project, const PerformanceOptions& options, GateResult& result, Progress& progress)
      : project_(project),
        options_(options),
        result_(result),
        facts_(result.facts_as<PerformanceFacts>()),
        progress_(progress),
        alpha_(spend_alpha(options.alpha, options.look)),
        contest_(project, {.seed = mix_seed(options.seed, 3)}) {}

  bool start(const Runnable& kernel, const Runnable& baseline, const Runnable& reference) {
    progress_.update("starting " + baseline.label);
    return accept(contest_.start(baseline, kernel, reference), "start");
  }

  // False when the gate is decided. `needed`: the rung this workload must reach.
  bool measure(const Workload& workload, double needed, bool is_target) {
    progress_.update(workload.name + ": baseline first");
    if (!accept(contest_.open(workload), workload.name)) return false;
    put_named(facts_.workloads, workload.name, MeasuredWorkload{.values = workload.values});
    if (!check_drift(workload)) return false;
    progress_.update(workload.name + ": is all the work done?");
    if (!accept(contest_.audit(), workload.name)) return false;
    Figures figures;
    if (!sample(workload.name, needed, figures)) return false;
    progress_.update(workload.name + ": right every time?");
    if (!accept(contest_.judge_calls(judged_calls, judged_calls_limit_seconds), workload.name)) return false;
    std::optional<CardTimesFacts> card;
    if (contest_.on_card()) {
      progress_.update(workload.name + ": cold, and as a program sees it");
      const Contest::OtherTimes other = contest_.other_times();
      if (!accept(other.error, workload.name)) return false;
      card = CardTimesFacts{.baseline_cold_seconds = other.base_cold_seconds,
                            .kernel_cold_seconds = other.candidate_cold_seconds,
                            .baseline_call_seconds = other.base_call_seconds,
                            .kernel_call_seconds = other.candidate_call_seconds,
                            .warm = contest_.inputs_fit_l2()};
    }
    return conclude(workload.name, needed, is_target, figures, card);
  }

 private:
  bool accept(const ContestError& error, const std::string& group) {
    if (error.ok()) return true;
    if (interrupted()) {
      mark_stopped(result_);
      return false;
    }
    const char* code = error.side == Side::candidate ? kernel_code(error.error.failure) : codes::baseline_failed;
    const bool kernel_judged = row_of(code).exit == ExitCode::fails;
    decide(kernel_judged ? Outcome::fails : Outcome::could_not_run, code, group, error.error.diagnostic.message,
           error.error.diagnostic.fix);
    facts_.failure = name_of(error.error.failure);
    return false;
  }

  void decide(Outcome outcome, const char* code, const std::string& group, const std::string& what,
              const std::string& fix) {
    result_.outcome = outcome;
    result_.code = code;
    result_.summary = fmt::format("{}: {}", group, what);
    result_.findings.push_back({.severity = outcome == Outcome::inconclusive ? Severity::warning : Severity::error,
                                .group = group,
                                .what = what,
                                .fix = fix,
                                .code = code});
  }

  // A drift is what the noise of the moment does not explain: nearly every block lies beyond what is allowed.
  bool check_drift(const Workload& workload) {
    const std::string& name = workload.name;
    const auto recorded = options_.recorded.find(name);
    if (recorded == options_.recorded.end()) return true;
    const BaselineFacts& facts_then = recorded->second.facts;
    // The workload was edited: what was recorded is another one's baseline.
    if (facts_then.values && *facts_then.values != workload.values) return true;
    const double then = recorded->second.seconds;
    const double most = project_.thresholds.baseline_drift;
    double now = 0;
    double drift = 0;
    double cpu_seconds = 0;  // of a call, the least
    bool drifted = true;
    for (int attempt = 0; attempt < drift_attempts && drifted; ++attempt) {
      // A disturbance passes, a drift stays.
      if (attempt > 0) std::this_thread::sleep_for(std::chrono::milliseconds(500));
      std::vector<double> seconds;
      for (int i = 0; i < drift_blocks; ++i) {
        const Contest::Timed block = contest_.time_base();
        if (!accept(block.error, name)) return false;
        seconds.push_back(block.decisive_seconds());
        cpu_seconds = i == 0 ? block.cpu_seconds_per_call : std::min(cpu_seconds, block.cpu_seconds_per_call);
      }
      now = undisturbed(seconds);
      drift = now / then - 1;
      std::sort(seconds.begin(), seconds.end());
      drifted = seconds[1] > then * (1 + most) || seconds[seconds.size() - 2] < then * (1 - most);
    }
    MeasuredWorkload& measured = facts_.workloads.back().second;
    measured.baseline_recorded = DriftFacts{.seconds = then, .record = recorded->second.record_id, .drift = drift};
    if (!drifted) return true;
    BaselineFacts facts = options_.facts_now;
    if (!contest_.base_version().empty()) facts.baseline_version = contest_.base_version();
    const auto differs = differences(facts_then, facts);
    std::string why = "nothing recorded differs: clocks, power or other load of the machine";
    if (!differs.empty()) why = fmt::format("{}", fmt::join(differs, "; "));
    // Time in which it did not run is somebody else's, before anything that differs.
    if (drift > 0 && cpu_seconds < (1 - most) * now) {
      why = fmt::format("it ran for {} of it and waited for the rest: other load of the machine; {}",
                        time_text(cpu_seconds), why);
    }
    const std::string what = fmt::format(
        "the baseline drifted {:+.0f} % (allowed ±{:.0f} %): {} per call now, {} in record {}; what differs: {}",
        drift * 100, most * 100, time_text(now), time_text(then), recorded->second.record_id, why);
    measured.baseline_differences = differs;
    if (options_.accept_baseline) {
      result_.findings.push_back({.severity = Severity::warning,
                                  .group = name,
                                  .what = what + " (accepted)",
                                  .code = codes::performance_baseline_drift});
      return true;
    }
    decide(Outcome::inconclusive, codes::performance_baseline_drift, name, what,
           "restore what differs and run again, or take the new baseline: cudadent gate --accept-baseline");
    facts_.failure = "baseline drift";
    return false;
  }

  bool sample(const std::string& name, double needed, Figures& figures) {
    const auto start = Clock::now();
    const double wanted = std::log(needed);
    const int most = options_.rehearsal ? rehearsed_pairs : max_pairs;
    for (int pair = 0; pair < most; ++pair) {
      progress_.update(fmt::format("{}: {} of {}", name, pair + 1, most), static_cast<double>(pair) / most);
      if (pair > 0 && !accept(contest_.restart(), name)) return false;
      if (!add_pair(name, figures)) return false;
      if (pair + 1 < std::min(min_pairs, most)) continue;
      figures.interval = confidence_sequence(figures.log_ratios, alpha_, 1.0);
      if (figures.interval.lower >= wanted || figures.interval.upper < wanted) break;
      if (seconds_since(start) > options_.limit_seconds_per_workload) break;
    }
    return true;
  }

  bool add_pair(const std::string& name, Figures& figures) {
    std::vector<AbbaBlock> blocks;
    for (int i = 0; i < abba_blocks_per_pair; ++i) {
      const Contest::Measured measured = contest_.next();
      if (!accept(measured.error, name)) return false;
      if (interrupted()) {
        mark_stopped(result_);
        return false;
      }
      blocks.push_back(measured.block);
      figures.base_seconds.insert(figures.base_seconds.end(), {measured.block.base_first, measured.block.base_second});
      figures.kernel_seconds.insert(figures.kernel_seconds.end(),
                                    {measured.block.candidate_first, measured.block.candidate_second});
    }
    const PairSample sample = pair_of(blocks);
    figures.log_ratios.push_back(sample.log_ratio);
    figures.pairs.push_back(sample);
    figures.processor_clock_blocks += sample.processor_clock_blocks.value_or(0);
    return true;
  }

  bool conclude(const std::string& name, double needed, bool is_target, const Figures& figures,
                const std::optional<CardTimesFacts>& card) {
    const double lower = std::exp(figures.interval.lower);
    const double mean = std::exp(figures.interval.mean);
    const double upper = std::exp(figures.interval.upper);
    const double base = undisturbed(figures.base_seconds);
    const double kernel = undisturbed(figures.kernel_seconds);
    facts_.workloads.back().second.speed =
        SpeedFacts{.ratio = {.mean = mean, .lower = lower, .upper = upper, .alpha = alpha_},
                   .rung = rung_of(project_.thresholds, lower),
                   .needed = needed,
                   .baseline_seconds = base,
                   .kernel_seconds = kernel,
                   .log_ratios = figures.log_ratios,
                   .baseline_samples = figures.base_seconds,
                   .kernel_samples = figures.kernel_seconds,
                   .calls_per_block = contest_.sets(),
                   .outputs_compared = contest_.outputs_compared(),
                   .processor_clock_blocks = figures.processor_clock_blocks,
                   .card = card};
    facts_.baseline_version = contest_.base_version();
    std::string what = fmt::format("{:.2f}x the baseline, at least {:.2f}x ({} against {} per call, {}): {}", mean,
                                   lower, time_text(kernel), time_text(base),
                                   options_.rehearsal ? "rehearsal" : "measured", rung_of(project_.thresholds, lower));
    if (card)
      what += fmt::format(
          "; that is the kernels' time by events, {} L2; cold {} against {}; whole calls by the host's clock {} "
          "against {}",
          card->warm ? "warm" : "inputs beyond", time_text(card->kernel_cold_seconds),
          time_text(card->baseline_cold_seconds), time_text(card->kernel_call_seconds),
          time_text(card->baseline_call_seconds));
    // Who looks until it suits him pays for every look.
    if (options_.look > 1) what += fmt::format("; look {} at this kernel, so at alpha {:.2g}", options_.look, alpha_);
    const double in_all_blocks = std::exp(log_ratio_of_all_blocks(figures.pairs));
    if (lower >= needed && !(in_all_blocks >= needed)) {
      decide(
          Outcome::inconclusive, codes::performance_undecided, name,
          fmt::format("{}; all blocks together are {:.2f}x only: some were far slower than most", what, in_all_blocks),
          "look for work that is put off and made up for in some calls; if there is none, a quieter machine");
      return false;
    }
    if (lower >= needed) {
      result_.findings.push_back({.severity = Severity::ok, .group = name, .what = what});
      result_.summary = fmt::format("{}: {}", name, what);
      return true;
    }
    if (upper >= needed) {
      decide(Outcome::inconclusive, codes::performance_undecided, name,
             fmt::format("{}; the interval [{:.2f}, {:.2f}] holds {:.2f}, so the figure is not decided", what, lower,
                         upper, needed),
             "run again on a quieter machine; a lower bound below the threshold is not a success");
      return false;
    }
    const bool broken = upper < project_.thresholds.ladder.front();
    decide(Outcome::fails, broken ? codes::performance_broken : codes::performance_too_slow, name,
           fmt::format("{}; {:.2f}x is needed", what, needed),
           broken ? "below the first rung a kernel is broken, not slow: look for a serial launch, a debug build or a "
                    "copy per call before tuning"
                  : "profile it: find the one bottleneck before changing anything");
    if (!is_target) result_.summary += " (the target workload was not measured)";
    return false;
  }

  const Project& project_;
  const PerformanceOptions& options_;
  GateResult& result_;
  PerformanceFacts& facts_;  // of the result; the workload that is measured is the last one
  Progress& progress_;
  double alpha_;  // of this look
  Contest contest_;
};

}  // namespace

const char* rung_of(const Thresholds& thresholds, double ratio) {
  constexpr const char* names[] = {"broken", "bottleneck", "success", "target", "stretch"};
  std::size_t rung = 0;
  while (rung < thresholds.ladder.size() && rung < 4 && ratio >= thresholds.ladder[rung]) ++rung;
  return names[rung];
}

GateResult run_performance_gate(const Project& project, const Runnable& kernel, const Runnable& baseline,
                                const Runnable& reference, const PerformanceOptions& options, Progress& progress) {
  const auto start = Clock::now();
  GateResult result;
  result.gate = PerformanceFacts::gate;
  result.facts = PerformanceFacts{.seed = options.seed, .baseline = baseline.label, .look = options.look};
  const Thresholds& thresholds = project.thresholds;
  const Workload* small = find_workload(project, thresholds.small_workload);
  const Workload* target = target_workload(project);
  Measurer measurer(project, options, result, progress);
  const double least = thresholds.ladder.front();
  const double success = thresholds.ladder.size() > 1 ? thresholds.ladder[1] : least;
  bool going = target != nullptr && measurer.start(kernel, baseline, reference);
  if (going && small && small != target) going = measurer.measure(*small, least, false);
  if (going) going = measurer.measure(*target, success, true);
  if (going) result.outcome = Outcome::holds;
  result.seconds = seconds_since(start);
  return result;
}

namespace {

// What it came to is told, and decides nothing; that the kernel failed was seen, whoever ran it.
void call_it_rehearsal(GateResult& result) {
  const bool by_time = result.outcome == Outcome::holds || result.outcome == Outcome::inconclusive ||
                       result.code == codes::performance_too_slow || result.code == codes::performance_broken;
  if (!by_time || result.code == codes::interrupted || result.code == codes::preempted) return;
  result.summary = fmt::format("REHEARSAL, never run on a card ({}): {}",
                               result.outcome == Outcome::holds ? "would hold" : "would not hold", result.summary);
  result.outcome = Outcome::inconclusive;
  result.code = codes::performance_rehearsal;
  for (Finding& finding : result.findings) {
    if (finding.severity == Severity::error) finding.severity = Severity::warning;
    finding.what = "rehearsal: " + finding.what;
  }
}

// A card that is held back, or serves somebody else, was not timed alone: its figure is told, and decides nothing.
void doubt_card(const CardWatch& watch, GateResult& result) {
  const std::vector<std::string> doubts = watch.doubts_since_begun();
  if (doubts.empty()) return;
  const bool shared = !watch.other_users().empty();
  const char* code = shared ? codes::performance_card_shared : codes::performance_throttled;
  for (const std::string& doubt : doubts)
    result.findings.push_back({.severity = Severity::warning,
                               .group = "card",
                               .what = doubt,
                               .fix = shared ? "let nobody else use the card, and time again"
                                             : "let it cool down, or lock its clocks (nvidia-smi -lgc), and time again",
                               .code = code});
  if (result.outcome != Outcome::holds && result.code != codes::performance_too_slow &&
      result.code != codes::performance_undecided)
    return;
  result.outcome = Outcome::inconclusive;
  result.code = code;
  result.summary += "; not decided: " + doubts.front();
}

GateResult run_row(GateContext& context) {
  const ClockKind clock = capabilities_of(context.device).clock;
  if (clock == ClockKind::none) return predicted_performance(context);
  if (!*context.baseline) return could_not_run(PerformanceFacts::gate, context.baseline->error());
  const Runnable& baseline = **context.baseline;
  context.facts = baseline_facts(context.project, baseline);
  const PerformanceOptions options{
      .seed = mix_seed(context.seed, 2),
      .limit_seconds_per_workload = context.options.limit_seconds_per_workload,
      .look = next_look(context.history, context.device.to_string(), context.kernel.content_hash),
      .accept_baseline = context.options.accept_baseline,
      .recorded = clock == ClockKind::rehearsed ? std::map<std::string, RecordedBaseline>{}
                                                : recorded_baselines(context.history, context.device.to_string()),
      .facts_now = context.facts,
      .rehearsal = clock == ClockKind::rehearsed};
  std::optional<CardWatch> watch;
  if (capabilities_of(context.device).is_card) {
    const auto card = card_of(context.device);
    if (!card) return could_not_run(PerformanceFacts::gate, card.error());
    watch.emplace(*card);
  }
  GateResult timed =
      run_performance_gate(context.project, context.kernel, baseline, context.reference, options, context.progress);
  if (watch) doubt_card(*watch, timed);
  if (options.rehearsal) call_it_rehearsal(timed);
  return timed;
}

}  // namespace

const Gate performance_gate{
    .name = PerformanceFacts::gate,
    .about =
        "the baseline first and in a process of its own, small before target, ABBA blocks; the verdict\n"
        "is on the lower confidence bound. A recorded baseline is measured again: outside the allowed\n"
        "drift the run stops and says what differs",
    .needs = GateNeeds::runnables,
    .expected_seconds = [](const Project&) { return 20.0; },
    .run = run_row,
    .judges_kernel = true,
    .shows_what_is_ok = true};

}  // namespace flashmoe::workflow
