#include "workflow/selftest/cheats.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>

#include "support/clock.hpp"
#include "support/process.hpp"
#include "workflow/compile/cpu_build.hpp"
#include "workflow/gates/correctness.hpp"
#include "workflow/gates/performance.hpp"
#include "workflow/gates/runnable.hpp"
#include "workflow/runner/inputs.hpp"
#include "workflow/selftest/temporary_directory.hpp"

namespace flashmoe::workflow {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

// A contracting map: rounding errors do not grow, and fewer steps give another value.
constexpr const char* prelude = R"(#include <cudadent/kernel.h>
#include <stdint.h>
template <class T>
static inline T steps(T v, int count) {
  for (int k = 0; k < count; ++k) v = T(0.95) * v + T(0.05) * v / (T(1) + v * v) + T(0.01);
  return v;
}
static inline void honest(const float* x, float* y, int64_t n) {
  for (int64_t i = 0; i < n; ++i) y[i] = float(SIZE) * steps(x[i], 60);
}
extern "C" int kernel(const cudadent_call* call);
static int entry(const cudadent_call* call, const float* x, float* y, int64_t n);
extern "C" int kernel(const cudadent_call* call) {
  return entry(call, (const float*)call->tensors[0].data, (float*)call->tensors[1].data, call->tensors[0].shape[0]);
}
#define ENTRY \
  static int entry([[maybe_unused]] const cudadent_call* call, [[maybe_unused]] const float* x, \
                   [[maybe_unused]] float* y, [[maybe_unused]] int64_t n)
)";

constexpr const char* reference_source = R"(ENTRY {
  for (int64_t i = 0; i < n; ++i) y[i] = (float)(SIZE * steps((double)x[i], 60));
  return 0;
})";

struct Playground {
  TemporaryDirectory directory;
  Project project;
  std::string problem;
  Runnable reference, baseline;

  Playground() {
    if (directory.path().empty()) {
      problem = "no temporary directory under " + fs::temp_directory_path().string();
      return;
    }
    project.directory = directory.path().string();
    project.file = project.directory + "/cudadent.toml";
    project.name = "cheats";
    project.tensors.resize(2);
    project.tensors[0].name = "x";
    project.tensors[0].shape = {"n"};
    project.tensors[1].name = "y";
    project.tensors[1].role = TensorRole::output;
    project.tensors[1].shape = {"n"};
    project.tensors[1].tolerance = default_tolerance(CUDADENT_F32);
    project.workloads = {{"tiny", {{"n", 64}}, 0}, {"target", {{"n", 4096}}, 0}};
    project.thresholds.small_workload = "tiny";
    project.thresholds.target_workload = "target";
    // The question here is refusal, not speed: an honest kernel as fast as the baseline must pass on a noisy machine.
    project.thresholds.ladder = {0.2, 0.2};
    project.random_workloads = 0;
    project.hard_values = {"huge"};
    project.call_limit_seconds = 5;
  }

  Result<Runnable> build(const std::string& name, const std::string& source, const std::string& role) {
    const std::string file = name + ".cpp";
    std::ofstream(project.directory + "/" + file) << prelude << source << "\n";
    Callable callable;
    callable.kind = CallableKind::cpp;
    callable.name = name;
    callable.source = file;
    callable.entry = "kernel";
    const auto built = build_cpu(project, callable, role);
    if (!built) return built.error();
    return library_runnable(*built, role == "kernel" ? name : role);
  }

  // Anew for every cheat: one of them overwrites it.
  bool prepare() {
    if (!problem.empty()) return false;
    std::error_code ignored;
    fs::remove_all(project.directory + "/.cudadent", ignored);
    for (auto [target, role, source] : {std::tuple{&reference, "reference", reference_source},
                                        std::tuple{&baseline, "baseline", "ENTRY { honest(x, y, n); return 0; }"}}) {
      auto made = build(role, source, role);
      if (!made) {
        problem = made.error().to_string();
        return false;
      }
      *target = *made;
    }
    return true;
  }
};

constexpr const char* not_decided = " (not decided)";

CheatOutcome run_once(Playground& playground, const Cheat& cheat) {
  const auto start = Clock::now();
  CheatOutcome outcome{.name = cheat.name, .what = cheat.what};
  if (!cheat.expected_gate.empty()) outcome.expected_gate = cheat.expected_gate;
  const auto finish = [&](const GateResult& gate) {
    // A gate that could not run or decide has refused nothing.
    const bool judged = gate.outcome == Outcome::fails;
    if (gate.outcome != Outcome::holds) outcome.stopped_at = judged ? gate.gate : gate.gate + not_decided;
    outcome.message = gate.summary;
    outcome.as_expected = outcome.stopped_at == outcome.expected_gate;
    outcome.seconds = seconds_since(start);
    return outcome;
  };
  GateResult failed;
  failed.gate = "build";
  playground.project.cpu_flags = {"-O2", fmt::format("-DSIZE={:e}", cheat.size)};
  if (!playground.prepare()) {
    failed.summary = playground.problem;
    return finish(failed);
  }
  const auto kernel = playground.build(cheat.name, cheat.source, "kernel");
  if (!kernel) {
    failed.summary = kernel.error().to_string();
    return finish(failed);
  }
  Progress quiet(1, true);
  const GateResult correct =
      run_correctness_gate(playground.project, *kernel, playground.reference, {.seed = fresh_seed()}, quiet);
  if (correct.outcome != Outcome::holds) return finish(correct);
  PerformanceOptions options;
  options.seed = fresh_seed();
  options.limit_seconds_per_workload = 3;
  return finish(
      run_performance_gate(playground.project, *kernel, playground.baseline, playground.reference, options, quiet));
}

// A verdict that a busy machine hid is asked for again: it neither refused nor passed anybody.
CheatOutcome run_one(Playground& playground, const Cheat& cheat) {
  constexpr int most_attempts = 3;
  CheatOutcome outcome = run_once(playground, cheat);
  for (int i = 1; i < most_attempts && !outcome.as_expected && !interrupted(); ++i) {
    if (!outcome.stopped_at || !outcome.stopped_at->ends_with(not_decided)) break;
    outcome = run_once(playground, cheat);
  }
  return outcome;
}

}  // namespace

std::vector<CheatOutcome> run_cheats(Progress& progress, const std::vector<std::string>& only) {
  std::vector<CheatOutcome> outcomes;
  Playground playground;
  const auto& cheats = all_cheats();
  for (std::size_t i = 0; i < cheats.size() && !interrupted(); ++i) {
    if (!only.empty() && std::find(only.begin(), only.end(), cheats[i].name) == only.end()) continue;
    progress.update(fmt::format("{} of {}: {}", i + 1, cheats.size(), cheats[i].name),
                    static_cast<double>(i) / static_cast<double>(cheats.size()));
    outcomes.push_back(run_one(playground, cheats[i]));
  }
  return outcomes;
}

}  // namespace flashmoe::workflow
