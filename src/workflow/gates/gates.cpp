#include "workflow/gates/gates.hpp"

#include <fmt/format.h>

#include <chrono>

#include "support/clock.hpp"
#include "support/process.hpp"
#include "workflow/gates/context.hpp"
#include "workflow/gates/next.hpp"
#include "workflow/gates/record.hpp"
#include "workflow/gates/runnable.hpp"
#include "workflow/journal/journal.hpp"
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

void write_record(const GateContext& context, GateRun& run) {
  Record record = gate_record(context, run);
  if (!context.options.record) {
    run.record = unwritten(std::move(record));
    return;
  }
  auto written = Journal(context.project.directory).append(record);
  if (written) {
    run.record = std::move(*written);
    return;
  }
  run.record = unwritten(std::move(record));
  run.record_problem = {.severity = Severity::warning,
                        .group = "record",
                        .what = "no record was written: " + written.error().message,
                        .fix = written.error().fix,
                        .code = codes::record_not_written};
  if (run.outcome == Outcome::holds) run.code = codes::record_not_written;
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
  for (const Gate* gate : all_gates()) {
    const bool wanted = options.only.empty() || options.only == gate->name;
    if (!stop.empty() || !wanted) {
      run.gates.push_back(not_run(*gate, stop.empty() ? "not asked for" : stop));
      continue;
    }
    progress.step(gate->name, expected_seconds(*gate, context));
    run.gates.push_back(device ? run_one(*gate, context) : could_not_run(gate->name, device.error()));
    const GateResult& result = run.gates.back();
    run.outcome = result.outcome;
    run.code = result.code;
    run.summary = fmt::format("{} {}: {}", result.gate, name_of(result.outcome), result.summary);
    if (!goes_on(*gate, result.outcome)) {
      stop =
          fmt::format("gate {} {}", gate->name, result.outcome == Outcome::fails ? "failed" : name_of(result.outcome));
    }
    if (options.until == gate->name) break;
  }
  if (const auto changed = changes(before, fingerprint_of(project)); !changed.empty()) doubt(changed, run);
  progress.done();
  run.seconds = seconds_since(start);
  write_record(context, run);
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
