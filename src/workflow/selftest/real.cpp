#include "workflow/selftest/real.hpp"

#include <fmt/format.h>

#include <chrono>
#include <cmath>
#include <filesystem>
#include <fstream>

#include "support/process.hpp"
#include "workflow/compare/measure.hpp"
#include "workflow/compare/versions.hpp"
#include "workflow/selftest/temporary_directory.hpp"
#include "workflow/statistics/comparison.hpp"

namespace flashmoe::workflow {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

// Work that neither memory nor the compiler can make shorter: every step needs the one before. STEPS sets how long it
// takes; the steps beyond the first thousand are for the clock only, so that every build gives the same result.
constexpr const char* working_source = R"(#include <cudadent/kernel.h>
extern "C" int work(const cudadent_call* call) {
  const auto* x = static_cast<const float*>(cudadent_find_tensor(call, "x")->data);
  auto* y = static_cast<float*>(cudadent_find_tensor(call, "y")->data);
  for (int i = 0; i < 8; ++i) {
    float a = x[i];
    for (int step = 0; step < 1000; ++step) a = a * 0.999f + 0.001f;
    y[i] = a;
    float rest = a;
    for (int step = 1000; step < STEPS; ++step) rest = rest * 0.999f + 0.001f;
    volatile float sink = rest;
    (void)sink;
  }
  return 0;
}
)";

constexpr const char* working_reference = R"(#include <cudadent/kernel.h>
extern "C" int reference(const cudadent_call* call) {
  const auto* x = static_cast<const float*>(cudadent_find_tensor(call, "x")->data);
  auto* y = static_cast<float*>(cudadent_find_tensor(call, "y")->data);
  for (int i = 0; i < 8; ++i) {
    float a = x[i];
    for (int step = 0; step < 1000; ++step) a = a * 0.999f + 0.001f;
    y[i] = a;
  }
  return 0;
}
)";

constexpr int base_steps = 10000;

std::string configuration(int steps) {
  return fmt::format(R"(name = "selftest"
kernel = "kernel.cpp:work"
reference = "reference.cpp:reference"
baseline = "reference.cpp:reference"

[params]
n = {{ default = 8, range = [8, 8] }}

[inputs]
x = "f32[n]"

[outputs]
y = "f32[n]"

[workloads]
only = {{ n = 8 }}

[cpu]
flags = ["-O2", "-DSTEPS={}"]
)",
                     steps);
}

struct Built {
  Project project;
  Runnable kernel, reference;
};

Result<Built> build_with(const fs::path& root, int steps) {
  const fs::path directory = root / std::to_string(steps);
  std::error_code error;
  fs::create_directories(directory, error);
  std::ofstream(directory / "kernel.cpp") << working_source;
  std::ofstream(directory / "reference.cpp") << working_reference;
  std::ofstream(directory / "cudadent.toml") << configuration(steps);
  auto project = load_project(directory.string());
  if (!project) return project.error();
  Built built;
  built.project = std::move(*project);
  BuildOptions options;
  options.output_root = (root / "build").string();
  auto kernel = make_runnable(built.project, built.project.kernel, "kernel", fmt::format("{} steps", steps), options);
  if (!kernel) return kernel.error();
  auto reference = make_runnable(built.project, built.project.reference, "reference", "reference", options);
  if (!reference) return reference.error();
  built.kernel = std::move(*kernel);
  built.reference = std::move(*reference);
  return built;
}

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
  auto base = build_with(directory.path(), base_steps);
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
    const int steps = static_cast<int>(std::lround(base_steps * (1 + *slowdown)));
    auto slower = build_with(directory.path(), steps);
    if (!slower) return slower.error();
    const double log_ratio = std::log(static_cast<double>(steps) / base_steps);
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
