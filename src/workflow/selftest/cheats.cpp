#include "workflow/selftest/cheats.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <tuple>

#include "support/clock.hpp"
#include "support/process.hpp"
#include "support/temporary_directory.hpp"
#include "workflow/compile/cpu_build.hpp"
#include "workflow/gates/correctness.hpp"
#include "workflow/gates/performance.hpp"
#include "workflow/gates/runnable.hpp"
#include "workflow/runner/inputs.hpp"
#include "workflow/runner/session.hpp"
#include "workflow/selftest/corpus.hpp"
#include "workflow/verdict/codes.hpp"

namespace flashmoe::workflow {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

constexpr const char* includes = R"source(#include <cudadent/kernel.h>
#include <math.h>
#include <stdint.h>
#include <string.h>
)source";

// x, y: the first input and output; n, m: rows and columns of the input.
constexpr const char* entry_macro = R"source(
extern "C" int kernel(const cudadent_call* call);
static int entry(const cudadent_call* call, const X* x, Y* y, int64_t n, int64_t m);
extern "C" int kernel(const cudadent_call* call) {
  const cudadent_tensor* in = call->tensors;
  return entry(call, (const X*)in->data, (Y*)in[1].data, in->shape[0], in->rank > 1 ? in->shape[1] : 1);
}
#define ENTRY                                                                                                      \
  static int entry([[maybe_unused]] const cudadent_call* call, [[maybe_unused]] const X* x, [[maybe_unused]] Y* y, \
                   [[maybe_unused]] int64_t n, [[maybe_unused]] int64_t m)
)source";

const Task* find_task(const std::string& name) {
  const auto& tasks = all_tasks();
  const auto found = std::find_if(tasks.begin(), tasks.end(), [&](const Task& task) { return task.name == name; });
  return found == tasks.end() ? nullptr : &*found;
}

// Asked once: it starts an interpreter.
bool has_numpy() {
  static const bool has = [] {
    const auto ran = run_process({.argv = {python_program(), "-I", "-c", "import numpy"}, .short_environment = true});
    return ran && ran->ok();
  }();
  return has;
}

class Playground {
 public:
  struct Players {
    Project project;
    Runnable kernel{}, reference{}, baseline{};
  };

  // What was built for another kernel of the same task is taken from there, if it still is what was built.
  Result<Players> prepare(const Cheat& cheat) {
    if (directory_.path().empty()) {
      return Diagnostic{.message = "no temporary directory under " + fs::temp_directory_path().string()};
    }
    const auto files = project_files(cheat);
    if (!files) return files.error();
    clear();
    for (const auto& [name, text] : *files) std::ofstream(path(name)) << text;
    auto project = parse_project(files->at("cudadent.toml"), path("cudadent.toml"));
    if (!project) return project.error();
    Players players{.project = std::move(*project)};
    // The question here is refusal, not speed: an honest kernel as fast as the baseline must pass on a noisy machine.
    players.project.thresholds.ladder = {0.1, 0.1};
    players.project.call_limit_seconds = 5;
    for (auto [target, callable, role] : {std::tuple{&players.reference, &players.project.reference, "reference"},
                                          std::tuple{&players.baseline, &players.project.baseline, "baseline"},
                                          std::tuple{&players.kernel, &players.project.kernel, "kernel"}}) {
      auto made = runnable(players.project, *callable, role, cheat);
      if (!made) return made.error();
      *target = std::move(*made);
    }
    return players;
  }

 private:
  [[nodiscard]] std::string path(const std::string& name) const { return (directory_.path() / name).string(); }

  // All but what was built.
  void clear() const {
    std::error_code ignored;
    for (const auto& entry : fs::directory_iterator(directory_.path(), ignored)) {
      if (entry.path().filename() != ".cudadent") fs::remove_all(entry.path(), ignored);
    }
    fs::remove(directory_.path() / ".cudadent" / "records.jsonl", ignored);
  }

  static Result<Runnable> runnable(const Project& project, const Callable& callable, const std::string& role,
                                   const Cheat& cheat) {
    if (callable.kind == CallableKind::python) return python_runnable(project, callable, role, role);
    Project with_flags = project;
    if (role != "kernel") return built(with_flags, callable, role, role, 1);
    with_flags.cpu_flags.insert(with_flags.cpu_flags.end(), cheat.flags.begin(), cheat.flags.end());
    return built(with_flags, callable, role, cheat.name, cheat.threads);
  }

  static Result<Runnable> built(const Project& project, const Callable& callable, const std::string& role,
                                const std::string& label, int threads) {
    const auto library = build_cpu(project, callable, role);
    if (!library) return library.error();
    return library_runnable(*library, label, threads);
  }

  TemporaryDirectory directory_;
};

constexpr const char* not_decided = " (not decided)";

CheatOutcome run_once(Playground& playground, const Cheat& cheat) {
  const auto start = Clock::now();
  CheatOutcome outcome{.name = cheat.name, .what = cheat.what};
  if (!cheat.expected_gate.empty()) outcome.expected_gate = cheat.expected_gate;
  const Task* task = find_task(cheat.task);
  if (task != nullptr && task->python && !has_numpy()) {
    outcome.not_run = python_program() + " has no numpy";
    return outcome;
  }
  const auto finish = [&](const GateResult& gate) {
    // A gate that could not run or decide has refused nothing.
    const bool judged = gate.outcome == Outcome::fails;
    if (gate.outcome != Outcome::holds) outcome.stopped_at = judged ? gate.gate : gate.gate + not_decided;
    outcome.message = gate.summary;
    // The same guard watches in both gates: what it refuses before it is timed is refused.
    const bool refused_before = judged && gate.code == codes::kernel_refused && outcome.expected_gate == "performance";
    outcome.as_expected = outcome.stopped_at == outcome.expected_gate || refused_before;
    outcome.seconds = seconds_since(start);
    return outcome;
  };
  const auto players = playground.prepare(cheat);
  if (!players) {
    GateResult failed;
    failed.gate = "build";
    failed.summary = players.error().to_string();
    return finish(failed);
  }
  Progress quiet(1, true);
  const GateResult correct =
      run_correctness_gate(players->project, players->kernel, players->reference, {.seed = fresh_seed()}, quiet);
  if (correct.outcome != Outcome::holds) return finish(correct);
  PerformanceOptions options;
  options.seed = cheat.seed != 0 ? cheat.seed : fresh_seed();
  options.limit_seconds_per_workload = 3;
  return finish(
      run_performance_gate(players->project, players->kernel, players->baseline, players->reference, options, quiet));
}

// A verdict that a busy machine hid is asked for again: it neither refused nor passed anybody.
CheatOutcome run_one(Playground& playground, const Cheat& cheat) {
  constexpr int most_attempts = 3;
  CheatOutcome outcome = run_once(playground, cheat);
  for (int i = 1; i < most_attempts && !outcome.as_expected && !interrupted(); ++i) {
    if (!outcome.stopped_at || !outcome.stopped_at->ends_with(not_decided)) break;
    outcome = run_once(playground, cheat);
    outcome.asked_again = i;
  }
  return outcome;
}

std::vector<Cheat> make_corpus() {
  std::vector<Cheat> corpus;
  for (const auto part :
       {honest_kernels, honest_tasks, timing_cheats, memory_cheats, result_cheats, escape_cheats, record_cheats}) {
    std::vector<Cheat> kernels = part();
    std::move(kernels.begin(), kernels.end(), std::back_inserter(corpus));
  }
  return corpus;
}

}  // namespace

const std::vector<Cheat>& all_cheats() {
  static const std::vector<Cheat> cheats = make_corpus();
  return cheats;
}

Result<std::map<std::string, std::string>> project_files(const Cheat& cheat) {
  const Task* task = find_task(cheat.task);
  if (task == nullptr) return Diagnostic{.message = fmt::format("there is no task '{}'", cheat.task)};
  return project_files(*task, cheat);
}

std::map<std::string, std::string> project_files(const Task& task, const Cheat& cheat) {
  const std::string before = includes + task.prelude + entry_macro;
  std::map<std::string, std::string> files = cheat.files;
  files["kernel.cpp"] = before + cheat.source + "\n";
  if (task.python) {
    files["judges.py"] = task.reference;
  } else {
    files["reference.cpp"] = before + task.reference + "\n";
    files["baseline.cpp"] = before + task.baseline + "\n";
  }
  files["cudadent.toml"] =
      fmt::format("name = \"corpus\"\nkernel = \"kernel.cpp:kernel\"\nreference = \"{}\"\nbaseline = \"{}\"\n{}",
                  task.python ? "judges.py:reference" : "reference.cpp:kernel",
                  task.python ? "judges.py:baseline" : "baseline.cpp:kernel", task.toml);
  return files;
}

std::vector<std::string> names_in_gate() {
  std::vector<std::string> names;
  for (const Cheat& cheat : all_cheats()) {
    if (cheat.in_gate) names.push_back(cheat.name);
  }
  return names;
}

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

CorpusCounts counts_of(const std::vector<CheatOutcome>& outcomes) {
  CorpusCounts counts;
  for (const CheatOutcome& outcome : outcomes) {
    counts.asked_again += outcome.asked_again;
    if (!outcome.not_run.empty()) {
      ++counts.not_run;
    } else if (outcome.expected_gate) {
      ++counts.cheats;
      counts.refused += outcome.as_expected ? 1 : 0;
    } else {
      ++counts.honest;
      counts.passed += outcome.as_expected ? 1 : 0;
    }
  }
  return counts;
}

}  // namespace flashmoe::workflow
