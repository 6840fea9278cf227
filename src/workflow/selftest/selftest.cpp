#include "workflow/selftest/selftest.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>

#include "support/clock.hpp"
#include "support/process.hpp"
#include "workflow/journal/record.hpp"
#include "workflow/selftest/cheats.hpp"
#include "workflow/selftest/noise_floor.hpp"

namespace flashmoe::workflow {
namespace {

constexpr double allowed_false_keeps = 0.05;
constexpr double wanted_power = 0.9;
constexpr double wanted_spread = 0.02;
constexpr int last_index = 20;

const std::vector<double>& table_spreads() {
  static const std::vector<double> spreads{0.003, 0.005, 0.01, 0.015, 0.02, 0.03, 0.05};
  return spreads;
}

const std::vector<double>& table_gains() {
  static const std::vector<double> gains{0.0, 0.005, 0.01, 0.02, 0.03, 0.05, 0.10};
  return gains;
}

const PowerCell* cell_at(const std::vector<PowerCell>& cells, double spread, double gain) {
  const auto found = std::find_if(cells.begin(), cells.end(),
                                  [&](const PowerCell& c) { return c.spread == spread && c.gain == gain; });
  return found == cells.end() ? nullptr : &*found;
}

std::string rate_text(const RateInterval& rate) {
  return fmt::format("{:.1f} % [{:.1f}, {:.1f}]", 100 * rate.rate, 100 * rate.lower, 100 * rate.upper);
}

SelftestCheck not_run(const std::string& name, const std::string& why) {
  return {.name = name, .must = true, .ran = false, .holds = false, .figure = "not run: " + why};
}

void simulate(const SelftestOptions& options, SelftestReport& report, Progress& progress) {
  SimulationOptions simulation;
  simulation.seed = options.seed;
  simulation.runs = options.quick ? 400 : 2000;
  simulation.trials_per_cell = options.quick ? 400 : 2000;
  const Tick tick = [&](double share) { progress.update(fmt::format("{:.0f} %", 100 * share), share); };
  progress.step("simulated A/A under cloud noise", options.quick ? 2 : 8);
  report.null = simulate_null(simulation, tick);
  progress.step("simulated power", options.quick ? 1 : 3);
  report.power = simulate_power(simulation, table_spreads(), table_gains(), 1, tick);
  report.power_last = simulate_power(simulation, table_spreads(), table_gains(), last_index, tick);
  if (interrupted()) {
    report.checks.push_back(not_run("simulation", "interrupted"));
    return;
  }
  const NullResult& null = report.null;
  report.checks.push_back({.name = "run-wide false keeps, simulated",
                           .holds = null.false_keeps.upper <= allowed_false_keeps,
                           .figure = fmt::format("{} of {} runs of 20 equal candidates; at most {:.0f} % allowed, "
                                                 "interval included",
                                                 rate_text(null.false_keeps), null.runs, 100 * allowed_false_keeps)});
  report.checks.push_back(
      {.name = "the simulated noise fools a naive rule",
       .holds = null.false_keeps_of_naive.lower > 0.5,
       .figure = fmt::format("'keep what is 1 % faster in one run each' keeps something false in {} of the runs",
                             rate_text(null.false_keeps_of_naive))});
  for (const auto& [gain, must] : {std::pair{0.05, true}, std::pair{0.02, false}}) {
    const PowerCell* first = cell_at(report.power, 0.01, gain);
    const PowerCell* last = cell_at(report.power_last, 0.01, gain);
    report.checks.push_back(
        {.name = fmt::format("power at +{:.0f} %, pair spread 1 %, least gain 0.5 %", 100 * gain),
         .must = must,
         .holds = first->kept.rate >= wanted_power && last->kept.rate >= wanted_power,
         .figure = fmt::format("{} as the first comparison of a run, {} as the twentieth; at least {:.0f} % wanted",
                               rate_text(first->kept), rate_text(last->kept), 100 * wanted_power)});
  }
}

void measure_really(const SelftestOptions& options, SelftestReport& report, Progress& progress) {
  RealOptions real;
  real.seed = options.seed;
  real.limit_seconds = options.real_limit_seconds;
  if (options.quick) {
    real.slowdowns = {0.05};
    real.max_pairs = 10;
  }
  progress.step("real processes: equal and slowed builds", options.quick ? 12 : 60);
  auto results = run_real(real, progress);
  if (!results) {
    report.checks.push_back(not_run("real processes", results.error().to_string()));
    return;
  }
  report.real = std::move(*results);
  const auto wrong = std::count_if(report.real.begin(), report.real.end(),
                                   [&](const RealComparison& c) { return c.wrong(real.min_gain); });
  const auto measured =
      std::count_if(report.real.begin(), report.real.end(), [](const RealComparison& c) { return c.measured(); });
  const auto found = std::count_if(report.real.begin(), report.real.end(),
                                   [&](const RealComparison& c) { return c.injected != 0 && c.found(real.min_gain); });
  const auto injected =
      std::count_if(report.real.begin(), report.real.end(), [](const RealComparison& c) { return c.injected != 0; });
  report.checks.push_back({.name = "no wrong decision with real processes",
                           .ran = measured > 0,
                           .holds = measured > 0 && wrong == 0,
                           .figure = fmt::format("{} wrong of {} measured comparisons", wrong, measured)});
  report.checks.push_back(
      {.name = "injected changes found with real processes",
       .must = false,
       .ran = measured > 0,
       .holds = found == injected,
       .figure = fmt::format("{} of {}; how many depends on the noise of this machine", found, injected)});
}

void try_cheats(SelftestReport& report, Progress& progress) {
  progress.step("cheats", 60);
  int pretending = 0;
  int refused = 0;
  std::string wrong;
  report.cheats = run_cheats(progress);
  for (const CheatOutcome& outcome : report.cheats) {
    pretending += outcome.expected_gate.has_value();
    refused += outcome.expected_gate && outcome.as_expected;
    if (!outcome.as_expected) wrong += (wrong.empty() ? "; not so: " : ", ") + outcome.name;
  }
  // Fewer than this are no corpus: an empty one would refuse everything.
  constexpr int fewest = 12;
  const bool ran = pretending >= fewest;
  report.checks.push_back(
      {.name = "cheats refused, the honest kernel passes",
       .ran = ran,
       .holds = ran && wrong.empty(),
       .figure = fmt::format("{} of {} refused where they should be{}", refused, pretending, wrong)});
}

void measure_noise_floor(const SelftestOptions& options, SelftestReport& report, Progress& progress) {
  progress.step("equal builds, and a gate that is asked again and again", 240);
  NoiseOptions noise;
  noise.seed = options.seed;
  if (options.quick) noise.pairs = noise.gate_runs = 4;
  auto measured = measure_noise(noise, progress);
  if (!measured) {
    report.checks.push_back(not_run("noise", measured.error().to_string()));
    return;
  }
  report.noise = std::move(*measured);
  double widest = 0;
  for (const EqualBuilds& builds : report.noise->equal_builds) {
    for (const auto& [name, workload] : builds.workloads) widest = std::max(widest, workload.pair_spread);
  }
  report.checks.push_back({.name = "pairs of equal builds on this machine",
                           .must = false,
                           .holds = widest <= wanted_spread,
                           .figure = fmt::format("spread by {:.2f} % at most; {:.0f} % wanted on an idle machine",
                                                 100 * widest, 100 * wanted_spread)});
  int wrong = 0;
  int runs = 0;
  for (const GateRate& rate : report.noise->gate_rates) {
    wrong += rate.wrong();
    runs += rate.runs();
  }
  // With k looks at rate alpha each some are wrong by right; more than the upper end of that is not noise.
  const RateInterval rate = exact_rate(wrong, runs);
  report.checks.push_back({.name = "the performance gate on kernels of known speed",
                           .holds = rate.lower <= allowed_false_keeps,
                           .figure = fmt::format("{} wrong of {}: {}", wrong, runs, rate_text(rate))});
}

std::string noise_table(const NoiseResult& noise) {
  std::string text = "Pairs of equal builds on this machine (measured)\n";
  for (const EqualBuilds& builds : noise.equal_builds) {
    for (const auto& [name, workload] : builds.workloads) {
      text += fmt::format(
          "  {:<12} {:<8} spread {:>5.2f} %, mean {:+.2f} % over {} pairs; {} of {} blocks by processor "
          "time\n",
          builds.kernel, name, 100 * workload.pair_spread, 100 * std::expm1(workload.mean), workload.pairs,
          workload.processor_clock_blocks, workload.blocks);
    }
  }
  text += "The performance gate on kernels of known speed (measured); 1.00x is needed\n";
  for (const GateRate& rate : noise.gate_rates) {
    text += fmt::format("  {:.2f}x  holds {:>3}  fails {:>3}  undecided {:>3}{}\n", rate.speed, rate.holds, rate.fails,
                        rate.undecided, rate.problem.empty() ? "" : "  (" + rate.problem + ")");
  }
  return text;
}

std::string cheat_table(const std::vector<CheatOutcome>& cheats) {
  std::string text = "Cheats\n";
  for (const CheatOutcome& cheat : cheats) {
    text += fmt::format("  {} {:<26} {:<14} {}\n", cheat.as_expected ? "✓" : "✗", cheat.name,
                        cheat.stopped_at.value_or("passed"), cheat.what);
  }
  return text;
}

std::string power_table(const std::vector<PowerCell>& cells, int index) {
  std::string text = fmt::format(
      "Share of candidates kept (simulated, least gain 0.5 %, comparison {} of its run), pairs used in brackets\n"
      "pair spread",
      index);
  for (const double gain : table_gains()) text += fmt::format("{:>13}", fmt::format("{:+.1f} %", 100 * gain));
  text += "\n";
  for (const double spread : table_spreads()) {
    text += fmt::format("{:>9.1f} %", 100 * spread);
    for (const double gain : table_gains()) {
      const PowerCell* cell = cell_at(cells, spread, gain);
      if (cell == nullptr) continue;
      text += fmt::format("{:>13}", fmt::format("{:.3f} ({:>4.1f})", cell->kept.rate, cell->mean_pairs));
    }
    text += "\n";
  }
  return text;
}

std::string real_table(const std::vector<RealComparison>& comparisons) {
  std::string text =
      "Real processes on this machine (measured)\n  injected   verdict        gain seen              pairs  spread\n";
  for (const RealComparison& c : comparisons) {
    if (!c.measured()) {
      text += fmt::format("  {:>+6.1f} %   not measured: {}\n", 100 * std::expm1(c.injected), c.problem);
      continue;
    }
    const auto& i = c.verdict.interval;
    text += fmt::format("  {:>+6.1f} %   {:<13}  {:>+6.2f} % [{:+.2f}, {:+.2f}]  {:>3}  {:>6.2f} %\n",
                        100 * std::expm1(c.injected), name_of(c.verdict.decision), 100 * std::expm1(i.mean),
                        100 * std::expm1(i.lower), 100 * std::expm1(i.upper), c.verdict.pairs, 100 * c.pair_spread);
  }
  return text;
}

}  // namespace

int SelftestReport::exit_code() const {
  bool goals = true;
  for (const SelftestCheck& check : checks) {
    if (check.must && !check.holds) return 1;
    goals = goals && check.holds;
  }
  if (checks.empty()) return 1;
  return goals ? 0 : 3;
}

int selftest_steps(const SelftestOptions& options) {
  return (options.simulated ? 2 : 0) + (options.real ? 1 : 0) + (options.cheats ? 1 : 0) + (options.noise ? 1 : 0);
}

SelftestReport run_selftest(const SelftestOptions& options, Progress& progress) {
  const auto began = std::chrono::steady_clock::now();
  SelftestReport report;
  if (options.simulated) simulate(options, report, progress);
  if (options.real && !interrupted()) measure_really(options, report, progress);
  if (options.cheats && !interrupted()) try_cheats(report, progress);
  if (options.noise && !interrupted()) measure_noise_floor(options, report, progress);
  if (interrupted()) report.checks.push_back(not_run("the rest", "interrupted"));
  report.seconds = seconds_since(began);
  return report;
}

Record record_of(const SelftestReport& report) {
  SelftestRecord body{
      .checks = report.checks, .simulated_null = report.null, .cheats = report.cheats, .noise = report.noise};
  for (const auto* cells : {&report.power, &report.power_last}) {
    body.power.insert(body.power.end(), cells->begin(), cells->end());
  }
  for (const RealComparison& comparison : report.real) body.real.push_back(result_of(comparison));
  Record record;
  const int code = report.exit_code();
  record.verdict = name_of(code == 0 ? Outcome::holds : code == 3 ? Outcome::inconclusive : Outcome::fails);
  record.seconds = report.seconds;
  record.body = std::move(body);
  return record;
}

std::string report_text(const SelftestReport& report) {
  std::string text;
  if (!report.power.empty()) {
    text += power_table(report.power, 1) + "\n" + power_table(report.power_last, last_index) + "\n";
    text +=
        fmt::format("Simulated cloud noise: pairs of equal builds spread by {:.2f} %, {:.1f} pairs per candidate.\n\n",
                    100 * report.null.pair_spread, report.null.mean_pairs);
  }
  if (!report.real.empty()) text += real_table(report.real) + "\n";
  if (!report.cheats.empty()) text += cheat_table(report.cheats) + "\n";
  if (report.noise) text += noise_table(*report.noise) + "\n";
  for (const SelftestCheck& check : report.checks) {
    text += fmt::format("{} {}: {}\n", check.holds ? "✓" : check.must ? "✗" : "!", check.name, check.figure);
  }
  constexpr const char* verdicts[] = {"The self-test holds.", "The self-test does NOT hold.", "",
                                      "The self-test holds; a goal is missed."};
  return text + fmt::format("{} ({:.0f} s)\n", verdicts[report.exit_code()], report.seconds);
}

}  // namespace flashmoe::workflow
