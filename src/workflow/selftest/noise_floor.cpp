#include "workflow/selftest/noise_floor.hpp"

#include <fmt/format.h>

#include <cmath>

#include "support/process.hpp"
#include "support/temporary_directory.hpp"
#include "workflow/compare/measure.hpp"
#include "workflow/compare/versions.hpp"
#include "workflow/gates/performance.hpp"
#include "workflow/project/scaffold.hpp"
#include "workflow/runner/inputs.hpp"
#include "workflow/selftest/known_speed.hpp"
#include "workflow/statistics/sequential.hpp"

namespace flashmoe::workflow {
namespace {

namespace fs = std::filesystem;

Diagnostic stopped() {
  return {.message = "interrupted", .fix = ""};
}

Result<EqualBuilds> spread_of_example(const fs::path& root, const std::string& name, const NoiseOptions& options,
                                      Progress& progress) {
  const fs::path directory = root / name;
  if (const auto made = make_project(directory.string(), name, name); !made) return made.error();
  const auto project = load_project(directory.string());
  if (!project) return project.error();
  const BuildOptions build{.output_root = (root / "build").string()};
  const auto kernel = make_runnable(*project, project->kernel, "kernel", name, build);
  if (!kernel) return kernel.error();
  const auto reference = make_runnable(*project, project->reference, "reference", "reference", build);
  if (!reference) return reference.error();
  EqualBuilds result{.kernel = name};
  for (const Workload& workload : project->workloads) {
    std::vector<double> x;
    EqualWorkload figures{.pairs = options.pairs};
    PairSetup setup{.project = &*project,
                    .workload = workload,
                    .base = *kernel,
                    .candidate = *kernel,
                    .reference = *reference,
                    .seed = options.seed,
                    .block_seconds = options.block_seconds};
    for (int pair = 0; pair < options.pairs; ++pair) {
      progress.update(fmt::format("{} {}: equal pair {} of {}", name, workload.name, pair + 1, options.pairs));
      const PairOutcome outcome = measure_pair(setup, pair);
      if (outcome.problem != PairProblem::none) return outcome.diagnostic;
      x.push_back(outcome.sample.log_ratio);
      figures.blocks += static_cast<int>(outcome.sample.block_log_ratios.size());
      figures.processor_clock_blocks += outcome.sample.processor_clock_blocks.value_or(0);
    }
    const Moments moments = moments_of(x);
    figures.mean = moments.mean;
    figures.pair_spread = std::sqrt(moments.variance);
    put_named(result.workloads, workload.name, figures);
  }
  return result;
}

// The kernel must be as fast as the baseline (the second rung) and truly is `speed` times as fast.
Result<GateRate> rate_of_gate(const fs::path& root, double speed, const NoiseOptions& options, Progress& progress) {
  auto baseline = build_with_steps(root, known_speed_steps);
  if (!baseline) return baseline.error();
  const int steps = static_cast<int>(std::lround(known_speed_steps / speed));
  auto kernel = build_with_steps(root, steps);
  if (!kernel) return kernel.error();
  Project& project = baseline->project;
  project.thresholds.ladder = {0.5, 1.0};
  project.thresholds.target_workload = project.workloads.front().name;
  GateRate rate{.speed = static_cast<double>(known_speed_steps) / steps, .needed = 1.0};
  for (int run = 0; run < options.gate_runs; ++run) {
    if (interrupted()) return stopped();
    progress.update(fmt::format("the gate on a kernel of {:.2f}x: {} of {}", rate.speed, run + 1, options.gate_runs));
    Progress quiet(1, true);
    const PerformanceOptions gate_options{.seed = mix_seed(options.seed, static_cast<std::uint64_t>(run))};
    const GateResult gate =
        run_performance_gate(project, kernel->kernel, baseline->kernel, baseline->reference, gate_options, quiet);
    rate.holds += gate.outcome == Outcome::holds ? 1 : 0;
    rate.fails += gate.outcome == Outcome::fails ? 1 : 0;
    rate.undecided += gate.outcome == Outcome::inconclusive || gate.outcome == Outcome::could_not_run ? 1 : 0;
    if (gate.outcome == Outcome::could_not_run) rate.problem = gate.summary;
  }
  return rate;
}

}  // namespace

Result<NoiseResult> measure_noise(const NoiseOptions& options, Progress& progress) {
  const TemporaryDirectory directory;
  if (directory.path().empty()) {
    return Diagnostic{.message = "no temporary directory in " + fs::temp_directory_path().string(),
                      .fix = "set TMPDIR to a place that can be written to"};
  }
  NoiseResult result;
  for (const char* name : {"vector_add", "softmax"}) {
    auto spread = spread_of_example(directory.path(), name, options, progress);
    if (!spread) return spread.error();
    result.equal_builds.push_back(std::move(*spread));
  }
  // Clearly too slow, a little too slow, a little fast enough, clearly fast enough.
  for (const double speed : {0.90, 0.98, 1.02, 1.10}) {
    auto rate = rate_of_gate(directory.path(), speed, options, progress);
    if (!rate) return rate.error();
    result.gate_rates.push_back(std::move(*rate));
  }
  return result;
}

}  // namespace flashmoe::workflow
