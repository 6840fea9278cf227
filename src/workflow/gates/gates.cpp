#include "workflow/gates/gates.hpp"

#include <fmt/format.h>

#include <chrono>
#include <utility>

#include "support/clock.hpp"
#include "support/process.hpp"
#include "workflow/gates/context.hpp"
#include "workflow/gates/next.hpp"
#include "workflow/gates/profile_gate.hpp"
#include "workflow/gates/record.hpp"
#include "workflow/gates/runnable.hpp"
#include "workflow/machine/machine.hpp"
#include "workflow/project/fingerprint.hpp"
#include "workflow/runner/inputs.hpp"
#include "workflow/verdict/codes.hpp"

namespace flashmoe::workflow {
namespace {

GateResult not_run(const Gate& gate, const std::string& why) {
  GateResult result;
  result.gate = gate.name;
  result.summary = "not run: " + why;
  result.not_run = true;
  return result;
}

bool goes_on(const Gate& gate, Outcome outcome) {
  return outcome == Outcome::holds || (gate.degraded_goes_on && outcome == Outcome::inconclusive);
}

// What the last run of this gate took here, else a guess; decides whether the machine is asked first.
double expected_seconds(const Gate& gate, const GateContext& context) {
  const double recorded = recorded_seconds(context.history, gate.name);
  return recorded > 0 ? recorded : gate.expected_seconds(context.project);
}

GateResult run_one(const Gate& gate, GateContext& context) {
  const Project& project = context.project;
  if (expected_seconds(gate, context) > ask_machine_above_seconds) {
    const auto answer = ask_machine(project.machine, project.directory);
    if (!answer) return could_not_run(gate.name, answer.error());
    if (answer->state == MachineState::stopped) {
      GateResult lost = could_not_run(gate.name, machine_is_stopped(project.machine, *answer));
      lost.stopped = "machine";
      return lost;
    }
  }
  if (gate.needs != GateNeeds::nothing) {
    const auto available = device_available(context.device);
    if (!available) return could_not_run(gate.name, available.error());
  }
  if (gate.needs == GateNeeds::runnables) {
    if (const auto ready = context.prepare(); !ready) return could_not_run(gate.name, ready.error());
  }
  return gate.run(context);
}

// Files that changed while the gates ran: what held is true of neither the old ones nor the new.
void doubt(const std::vector<std::string>& changed, GateRun& run) {
  std::string list;
  for (const std::string& one : changed) list += (list.empty() ? "" : ", ") + one;
  for (auto gate = run.gates.rbegin(); gate != run.gates.rend(); ++gate) {
    if (gate->not_run) continue;
    gate->findings.push_back({.severity = Severity::error,
                              .group = "files",
                              .what = "files of the project changed while the gates ran: " + list,
                              .fix =
                                  "let nothing write to the project, and run the gates again; a kernel writes to its "
                                  "outputs alone",
                              .code = codes::files_changed});
    if (run.outcome != Outcome::holds) return;
    gate->outcome = Outcome::inconclusive;
    gate->code = codes::files_changed;
    gate->summary = "files of the project changed meanwhile: " + list;
    run.outcome = Outcome::inconclusive;
    run.code = gate->code;
    run.summary = fmt::format("{} {}: {}", gate->gate, name_of(gate->outcome), gate->summary);
    return;
  }
}

// A profile has a record of its own, as `cudadent profile` leaves one.
void write_records(const GateContext& context, GateRun& run) {
  const bool write = context.options.record;
  for (const GateResult& gate : run.gates) {
    if (!write || gate.not_run || !std::holds_alternative<ProfileFacts>(gate.facts)) continue;
    Record ignored;
    write_or_show(context, profile_record(context, gate), write, ignored, run.record_problem);
  }
  write_or_show(context, gate_record(context, run), write, run.record, run.record_problem);
  const bool is_lost = !run.record_problem.what.empty();
  if (is_lost && run.outcome == Outcome::holds) run.code = codes::record_not_written;
}

// Why a gate is not run; empty: it is.
std::string why_not(const Gate& gate, const GateOptions& options, const std::string& stop,
                    std::span<const GateResult> before) {
  if (!options.only.empty()) return options.only == gate.name ? "" : "not asked for";
  if (gate.nothing_to_explain == nullptr) return stop;
  const std::string nothing = gate.nothing_to_explain(before);
  return stop.empty() || nothing.empty() ? nothing : stop;
}

// What the last gate means for the run.
void take(const Gate& gate, const GateResult& result, bool is_first, GateRun& run) {
  const bool explains = gate.nothing_to_explain != nullptr && !is_first;
  const bool is_lost = run.outcome == Outcome::holds && !goes_on(gate, result.outcome);
  if (explains && !is_lost && result.outcome != Outcome::fails) {
    run.summary += fmt::format("; {}: {}", result.gate, result.summary);
    return;
  }
  run.outcome = result.outcome;
  run.code = result.code;
  run.summary = fmt::format("{} {}: {}", result.gate, name_of(result.outcome), result.summary);
}

}  // namespace

GateRun run_gates(const Project& project, const GateOptions& options, Progress& progress) {
  const auto start = std::chrono::steady_clock::now();
  const std::vector<Record> history = read_history(project);
  GateContext context{.project = project,
                      .options = options,
                      .progress = progress,
                      .seed = options.seed != 0 ? options.seed : fresh_seed(),
                      .history = history};
  const Fingerprint before = fingerprint_of(project);
  GateRun run;
  run.project = project.name;
  run.ladder = project.thresholds.ladder;
  const auto device = select_device(options.device, device_of(project));
  if (device) context.device = *device;
  run.device = device ? context.device.to_string() : options.device;
  std::string stop;  // why the gates behind are not run
  bool is_first = true;
  for (const Gate* gate : all_gates()) {
    context.done = run.gates;
    if (const std::string why = why_not(*gate, options, stop, run.gates); !why.empty()) {
      run.gates.push_back(not_run(*gate, why));
    } else {
      progress.step(gate->name, expected_seconds(*gate, context));
      run.gates.push_back(device ? run_one(*gate, context) : could_not_run(gate->name, device.error()));
      const GateResult& result = run.gates.back();
      take(*gate, result, std::exchange(is_first, false), run);
      if (!goes_on(*gate, result.outcome)) {
        const bool failed = result.outcome == Outcome::fails;
        stop = fmt::format("gate {} {}", gate->name, failed ? "failed" : name_of(result.outcome));
      }
    }
    if (options.until == gate->name) break;
  }
  if (const auto changed = changes(before, fingerprint_of(project)); !changed.empty()) doubt(changed, run);
  progress.done();
  run.seconds = seconds_since(start);
  write_records(context, run);
  run.next = next_command(project, run, options, context.seed);
  return run;
}

int exit_code(const GateRun& run) {
  const bool degraded = run.outcome == Outcome::holds && !run.record_problem.what.empty();
  return exit_code(degraded ? Outcome::inconclusive : run.outcome);
}

int bisect_code(const GateRun& run) {
  if (interrupted()) return 130;
  for (const GateResult& result : run.gates) {
    const Gate* gate = find_gate(result.gate);
    if (gate == nullptr || result.not_run || goes_on(*gate, result.outcome)) continue;
    const bool is_built = !result.code.starts_with("build.");
    return result.outcome == Outcome::fails && gate->judges_kernel && is_built ? 1 : 125;
  }
  return 0;
}

}  // namespace flashmoe::workflow
