#include "workflow/selftest/real.hpp"

#include <fmt/format.h>

#include <chrono>
#include <cmath>
#include <filesystem>

#include "support/process.hpp"
#include "support/temporary_directory.hpp"
#include "workflow/compare/measure.hpp"
#include "workflow/selftest/known_speed.hpp"
#include "workflow/statistics/comparison.hpp"

namespace flashmoe::workflow {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

RealComparison measure(const PairSource& source, double injected, const RealOptions& options,
                       Clock::time_point deadline, Progress& progress) {
  RealComparison result;
  result.injected = injected;
  const ComparePolicy policy{
      .alpha = spend_alpha(0.05, 1), .min_gain = options.min_gain, .max_pairs = options.max_pairs};
  std::vector<double> x;
  while (!result.verdict.final) {
    if (interrupted() || Clock::now() > deadline) {
      result.problem = interrupted() ? "interrupted" : fmt::format("out of time after {} pairs", x.size());
      break;
    }
    const PairOutcome outcome = source(static_cast<int>(x.size()));
    if (outcome.problem != PairProblem::none) {
      result.problem = outcome.diagnostic.message;
      break;
    }
    x.push_back(outcome.sample.log_ratio);
    result.verdict = decide(x, policy);
    progress.update(fmt::format("{:+.0f} %  pair {}/{}", 100 * std::expm1(injected), x.size(), options.max_pairs));
  }
  result.pair_spread = std::sqrt(moments_of(x).variance);
  return result;
}

}  // namespace

bool RealComparison::wrong(double min_gain) const {
  if (!measured()) return false;
  if (verdict.decision == Decision::keep) return injected <= 0;
  return verdict.decision == Decision::revert && injected >= std::log1p(min_gain);
}

bool RealComparison::found(double min_gain) const {
  if (!measured()) return false;
  const Decision right = injected >= std::log1p(min_gain) ? Decision::keep : Decision::revert;
  return verdict.decision == right;
}

Result<std::vector<RealComparison>> run_real(const RealOptions& options, Progress& progress) {
  const auto deadline =
      Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(options.limit_seconds));
  const TemporaryDirectory directory;
  if (directory.path().empty()) {
    return Diagnostic{.message = "no temporary directory in " + fs::temp_directory_path().string(),
                      .fix = "set TMPDIR to a place that can be written to"};
  }
  progress.update("building");
  auto base = build_with_steps(directory.path(), known_speed_steps);
  if (!base) return base.error();
  std::vector<RealComparison> results;
  const auto add = [&](const Runnable& from, const Runnable& to, double injected) {
    PairSetup setup;
    setup.project = &base->project;
    setup.workload = base->project.workloads.front();
    setup.base = from;
    setup.candidate = to;
    setup.reference = base->reference;
    setup.seed = options.seed + results.size();
    results.push_back(measure(pair_source(std::move(setup)), injected, options, deadline, progress));
  };
  add(base->kernel, base->kernel, 0);
  // The largest first: when time runs out, what is missing is the hardest to see.
  for (auto slowdown = options.slowdowns.rbegin(); slowdown != options.slowdowns.rend(); ++slowdown) {
    const int steps = static_cast<int>(std::lround(known_speed_steps * (1 + *slowdown)));
    auto slower = build_with_steps(directory.path(), steps);
    if (!slower) return slower.error();
    const double log_ratio = std::log(static_cast<double>(steps) / known_speed_steps);
    add(base->kernel, slower->kernel, -log_ratio);
    add(slower->kernel, base->kernel, log_ratio);
  }
  return results;
}

RealResult result_of(const RealComparison& comparison) {
  return {.injected_gain = std::expm1(comparison.injected),
          .verdict = comparison.measured() ? name_of(comparison.verdict.decision) : "not measured",
          .gain = gain_of(comparison.verdict.interval),
          .pairs = comparison.verdict.pairs,
          .pair_spread = comparison.pair_spread,
          .problem = comparison.problem};
}

}  // namespace flashmoe::workflow
