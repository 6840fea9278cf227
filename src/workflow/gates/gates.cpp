#include "workflow/gates/gates.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <optional>

#include "support/process.hpp"
#include "support/sha256.hpp"
#include "workflow/device/selector.hpp"
#include "workflow/gates/build_gate.hpp"
#include "workflow/gates/correctness.hpp"
#include "workflow/gates/environment_gate.hpp"
#include "workflow/gates/performance.hpp"
#include "workflow/gates/record.hpp"
#include "workflow/gates/stopped.hpp"
#include "workflow/gpu/findings.hpp"
#include "workflow/gpu/launches.hpp"
#include "workflow/journal/journal.hpp"
#include "workflow/machine/machine.hpp"
#include "workflow/runner/inputs.hpp"

namespace flashmoe::workflow {
namespace {

using Clock = std::chrono::steady_clock;

GateResult not_run(const std::string& gate, const std::string& why) {
  GateResult result;
  result.gate = gate;
  result.summary = "not run: " + why;
  result.data["not_run"] = true;
  return result;
}

GateResult could_not_run(const std::string& gate, const Diagnostic& problem) {
  GateResult result;
  result.gate = gate;
  result.summary = problem.message;
  result.findings.push_back({.severity = Severity::error,
                             .group = gate,
                             .what = problem.message,
                             .where = problem.file.empty() ? "" : fmt::format("{}:{}", problem.file, problem.line),
                             .fix = problem.fix});
  return result;
}

class Sequence {
 public:
  Sequence(const Project& project, const GateOptions& options, Progress& progress)
      : project_(project),
        options_(options),
        progress_(progress),
        seed_(options.seed != 0 ? options.seed : fresh_seed()),
        history_(read_history(project)) {}

  GateRun run() {
    const auto start = Clock::now();
    GateRun run;
    run.project = project_.name;
    const auto device = select_device(options_.device);
    if (device) device_ = *device;
    run.device = device ? device_.to_string() : options_.device;
    std::string stop;  // why the gates behind are not run
    for (const std::string& gate : gate_names()) {
      if (!stop.empty() || !wanted(gate)) {
        run.gates.push_back(not_run(gate, stop.empty() ? "not asked for" : stop));
        continue;
      }
      progress_.step(gate, expected_seconds(gate));
      run.gates.push_back(device ? run_one(gate) : could_not_run(gate, device.error()));
      const GateResult& result = run.gates.back();
      run.outcome = result.outcome;
      run.summary = fmt::format("{} {}: {}", result.gate, name_of(result.outcome), result.summary);
      // A degraded environment is worth a word, not a stop.
      const bool goes_on =
          result.outcome == Outcome::holds || (gate == "environment" && result.outcome == Outcome::inconclusive);
      if (!goes_on)
        stop = fmt::format("gate {} {}", gate, result.outcome == Outcome::fails ? "failed" : name_of(result.outcome));
      if (options_.until == gate) break;
    }
    progress_.done();
    run.seconds = std::chrono::duration<double>(Clock::now() - start).count();
    write_record(run);
    return run;
  }

 private:
  bool wanted(const std::string& gate) const { return options_.only.empty() || options_.only == gate; }

  // What the last run of this gate took here, else a guess; decides whether the machine is asked first.
  double expected_seconds(const std::string& gate) const {
    if (const double recorded = recorded_seconds(history_, gate); recorded > 0) return recorded;
    if (gate == "environment") return 3;
    if (gate == "build") {
      return 4.0 * static_cast<double>(3 + project_.instances.size() * project_.cuda_architectures.size());
    }
    return 20;
  }

  GateResult run_one(const std::string& gate) {
    if (expected_seconds(gate) > ask_machine_above_seconds) {
      const auto answer = ask_machine(project_.machine, project_.directory);
      if (!answer) return could_not_run(gate, answer.error());
      if (answer->state == MachineState::stopped) {
        GateResult lost = could_not_run(gate, machine_is_stopped(project_.machine, *answer));
        lost.data["stopped"] = "machine";
        return lost;
      }
    }
    if (gate == "environment") return timed([&] { return run_environment_gate(project_, device_); });
    if (const auto available = device_available(device_); !available) return could_not_run(gate, available.error());
    if (gate == "build") {
      BuildGate built = run_build_gate(project_, build_options(), progress_);
      built_ = std::move(built.built);
      if (interrupted()) mark_stopped(built.result);
      return built.result;
    }
    if (const auto ready = prepare(); !ready) return could_not_run(gate, ready.error());
    return gate == "correctness" ? correctness() : performance();
  }

  template <class Body>
  GateResult timed(Body body) {
    const auto start = Clock::now();
    GateResult result = body();
    result.seconds = std::chrono::duration<double>(Clock::now() - start).count();
    return result;
  }

  BuildOptions build_options() const { return {}; }

  Result<Runnable> runnable(const Callable& callable, const std::string& role) {
    Runnable made{.label = callable.name.empty() || role == "kernel" ? role : callable.name,
                  .kind = callable.kind,
                  .entry = callable.entry,
                  .threads = options_.threads};
    if (callable.kind == CallableKind::none) {
      return Diagnostic{.message = fmt::format("the project has no {}", role),
                        .fix = fmt::format("declare it in {}: {} = \"file.cpp:function\"", project_.file, role)};
    }
    if (callable.kind == CallableKind::python) {
      made.library = project_.directory + "/" + callable.source;
      const auto hash = sha256_of_file(made.library);
      if (!hash) return hash.error();
      made.content_hash = *hash;
      return made;
    }
    if (callable.kind == CallableKind::cuda) {
      return Diagnostic{
          .message = fmt::format("{} '{}' is a CUDA kernel, which device cpu cannot run", role, callable.name),
          .fix = fmt::format("give {} a C++ or Python callable", role)};
    }
    auto built = built_.find(role);
    if (built == built_.end()) {
      auto fresh = build_cpu(project_, callable, role, build_options());
      if (!fresh) return fresh.error();
      built = built_.emplace(role, std::move(*fresh)).first;
    }
    made.library = built->second.library;
    made.content_hash = built->second.content_hash;
    return made;
  }

  Result<Done> prepare() {
    auto reference = runnable(project_.reference, "reference");
    if (!reference) return reference.error();
    reference_ = *reference;
    auto kernel =
        device_.kind == DeviceKind::virtual_gpu
            ? gpu_runnable(project_, device_, {.report = report_.path(), .seed = mix_seed(seed_, 3)}, progress_)
            : runnable(project_.kernel, "kernel");
    if (!kernel) return kernel.error();
    kernel_ = *kernel;
    // Its file is hashed before the kernel runs for the first time: a kernel that changes it is found out.
    if (!baseline_) baseline_ = runnable(project_.baseline, "baseline");
    return Done{};
  }

  GateResult correctness() {
    GateResult result = run_correctness_gate(project_, kernel_, reference_,
                                             {.seed = mix_seed(seed_, 1), .repeat_with = seed_}, progress_);
    // What the virtual GPU's checks found is a failure, also where the numbers came out right.
    if (device_.kind == DeviceKind::virtual_gpu) add_virtual_findings(report_.path(), result);
    return result;
  }

  // Its time would be a prediction; this version makes none.
  GateResult not_timed() const {
    GateResult result;
    result.gate = "performance";
    result.outcome = Outcome::inconclusive;
    result.summary = fmt::format("not timed: {} is no device with a clock", device_.to_string());
    result.findings.push_back({.severity = Severity::warning,
                               .group = "performance",
                               .what = result.summary,
                               .fix = fmt::format("cudadent profile {} --device {} shows what it does there",
                                                  project_.directory, device_.to_string())});
    return result;
  }

  GateResult performance() {
    if (device_.kind == DeviceKind::virtual_gpu) return not_timed();
    if (!*baseline_) return could_not_run("performance", baseline_->error());
    const Runnable& baseline = **baseline_;
    facts_ = baseline_facts(project_, baseline);
    const PerformanceOptions options{.seed = mix_seed(seed_, 2),
                                     .limit_seconds_per_workload = options_.limit_seconds_per_workload,
                                     .accept_baseline = options_.accept_baseline,
                                     .recorded = recorded_baselines(history_, device_.to_string()),
                                     .facts_now = facts_};
    return run_performance_gate(project_, kernel_, baseline, reference_, options, progress_);
  }

  void write_record(GateRun& run) {
    // A recorded baseline stays what it was until someone accepts another: many small drifts would add up unseen.
    const auto recorded =
        options_.accept_baseline ? std::map<std::string, RecordedBaseline>{} : recorded_baselines(history_, run.device);
    run.record = gate_record(project_, run, seed_, options_.threads, built_, facts_, recorded);
    if (!options_.record) return;
    auto written = Journal(project_.directory).append(run.record);
    if (written) {
      run.record = std::move(*written);
    } else {
      run.record_problem = {.severity = Severity::warning,
                            .group = "record",
                            .what = "no record was written: " + written.error().message,
                            .fix = written.error().fix};
    }
  }

  const Project& project_;
  const GateOptions& options_;
  Progress& progress_;
  std::uint64_t seed_;
  std::vector<Json> history_;
  DeviceSelector device_;
  std::map<std::string, BuiltCallable> built_;
  Runnable kernel_, reference_;
  std::optional<Result<Runnable>> baseline_;
  Json facts_ = Json::object();
  ReportFile report_;  // of a virtual GPU
};

}  // namespace

const std::vector<std::string>& gate_names() {
  static const std::vector<std::string> names{"environment", "build", "correctness", "performance"};
  return names;
}

GateRun run_gates(const Project& project, const GateOptions& options, Progress& progress) {
  return Sequence(project, options, progress).run();
}

int bisect_code(const GateRun& run) {
  if (interrupted()) return 130;
  for (const GateResult& gate : run.gates) {
    if (gate.outcome == Outcome::holds || gate.data.contains("not_run")) continue;
    if (gate.gate == "environment" && gate.outcome == Outcome::inconclusive) continue;
    const bool judged = gate.outcome == Outcome::fails && (gate.gate == "correctness" || gate.gate == "performance");
    return judged ? 1 : 125;
  }
  return 0;
}

}  // namespace flashmoe::workflow
