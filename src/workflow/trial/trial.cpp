#include "workflow/trial/trial.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include "support/clock.hpp"
#include "support/text.hpp"
#include "workflow/compare/versions.hpp"
#include "workflow/device/selector.hpp"
#include "workflow/gates/next.hpp"
#include "workflow/journal/journal.hpp"
#include "workflow/journal/listing.hpp"
#include "workflow/trial/allowed.hpp"
#include "workflow/verdict/codes.hpp"

namespace flashmoe::workflow {
namespace {

std::string next_command(const TrialReport& report, const TrialRequest& request, const Project& tried) {
  const std::string project = project_argument(tried.directory);
  const std::string at = project.empty() ? "" : " -C" + project;
  const std::string device = request.device.empty() ? "" : " --device " + request.device;
  const bool predicted = report.word == predicted_word;
  const bool promises = predicted && report.comparison->counters->predicted->is_worth_keeping();
  if (promises || report.word == name_of(Decision::keep)) {
    return fmt::format("git{} add --all . && git{} commit -m {}", at, at,
                       shell_word(request.because.empty() ? "say what it is" : request.because));
  }
  if (predicted || report.word == counters_moved || report.word == counters_not_moved) {
    return fmt::format("cudadent profile{}{}", project, device);
  }
  if (report.word == name_of(Decision::revert) || report.word == refused_word) {
    std::string files;
    for (const std::string& file : report.snapshot.files) files += " " + shell_word(":/" + file);
    return fmt::format("git{} stash push --include-untracked --{}", at, files);
  }
  return fmt::format("cudadent try{}{}", project, device);
}

Record record_of(const TrialRequest& request, const Project& project, const TrialReport& report, double seconds) {
  const Snapshot& snapshot = report.snapshot;
  IterationRecord iteration{.cost_per_hour = Prices{project.cost.machine_per_hour, project.cost.agent_per_hour},
                            .proposer = request.proposer,
                            .hypothesis = request.because,
                            .rule = request.rule,
                            .predicted = request.predicted,
                            .parent = snapshot.base,
                            .candidate = snapshot.commit,
                            .patch_sha256 = snapshot.patch_sha256,
                            .files = snapshot.files,
                            .lines_added = snapshot.lines_added,
                            .lines_removed = snapshot.lines_removed,
                            .summary = report.gates.summary};
  if (report.comparison) {
    const auto& compared = std::get<CompareRecord>(report.comparison->record.body);
    iteration.workload = compared.workload.value_or("");
    iteration.comparison = report.comparison->record.id;
    iteration.gain = compared.gain;
    iteration.seen = compared.counters;
    iteration.summary = report.word;
    if (compared.gain) iteration.summary += " " + gain_text(*compared.gain);
    if (compared.predicted) iteration.summary += " " + text_of(*compared.predicted);
    if (!compared.problem.empty()) iteration.summary = compared.problem;
    iteration.fix = compared.fix;
  }
  if (request.decide) {
    const TrialDecision decision =
        report.comparison ? request.decide(*report.comparison) : TrialDecision{.ground = report.gates.summary};
    iteration.decision = decision.advance ? "advance" : "leave";
    iteration.ground = decision.ground;
    if (decision.seen) iteration.seen.insert(iteration.seen.begin(), *decision.seen);
  }
  Record record;
  record.run = request.run.empty() ? current_run() : request.run;
  record.project = project.name;
  record.commit = snapshot.commit;
  record.dirty = false;
  record.device = report.gates.device;
  record.verdict = report.word;
  if (report.comparison) record.evidence = report.comparison->record.evidence;
  record.seconds = seconds;
  record.body = std::move(iteration);
  return record;
}

// What a gate that does not hold says about the edit.
void judge_gates(TrialReport& report) {
  const bool fails = report.gates.outcome == Outcome::fails;
  report.word = name_of(fails ? Decision::revert : Decision::inconclusive);
  report.outcome = report.gates.outcome;
  report.code = report.gates.code;
}

// Before anything is built: an edit that changes what judges, too.
Result<TrialReport> refuse(const Project& project, TrialReport report, const TrialRequest& request,
                           const std::string& judges) {
  report.gates.summary = "refused: " + judges + ", and no change of a kernel may";
  report.word = refused_word;
  report.outcome = Outcome::fails;
  report.code = codes::proposal_not_allowed;
  report.notes.push_back(report.gates.summary + "; commit what judges by itself first, where that is meant");
  report.next = next_command(report, request, project);
  auto record = Journal(project.directory).append(record_of(request, project, report, 0));
  if (!record) return record.error();
  report.record = std::move(*record);
  return report;
}

}  // namespace

Result<TrialReport> run_trial(const TrialRequest& request, Progress& progress) {
  const auto project = load_project(request.project);
  if (!project) return project.error();
  auto snapshot = take_snapshot(*project);
  if (!snapshot) return snapshot.error();
  return try_change(*project, std::move(*snapshot), request, progress);
}

Result<TrialReport> try_change(const Project& project, Snapshot change, const TrialRequest& request,
                               Progress& progress) {
  const auto began = std::chrono::steady_clock::now();
  TrialReport report{.snapshot = std::move(change)};
  // A device that is none is the caller's mistake, and no iteration of the run's.
  const auto device = select_device(request.device);
  if (!device) return device.error();
  report.gates.device = device->to_string();
  {
    const auto base = resolve_version(project, report.snapshot.base);
    if (!base) return base.error();
    const auto candidate = resolve_version(project, report.snapshot.commit);
    if (!candidate) return candidate.error();
    if (const std::string judges = judging_change(base->project, candidate->project, report.snapshot); !judges.empty())
      return refuse(project, std::move(report), request, judges);
    report.gates =
        run_gates(candidate->project, {.device = request.device, .until = "build", .record = false}, progress);
  }
  if (report.gates.outcome == Outcome::holds || report.gates.outcome == Outcome::inconclusive) {
    auto compared = run_compare({.project = project.directory,
                                 .base = report.snapshot.base,
                                 .candidate = report.snapshot.commit,
                                 .device = request.device,
                                 .workload = request.workload,
                                 .phase = request.phase,
                                 .min_gain = request.min_gain,
                                 .run = request.run,
                                 .note = request.because,
                                 .limit_seconds = request.limit_seconds,
                                 .seed = request.seed},
                                progress);
    if (!compared) return compared.error();
    report.outcome = compared->outcome();
    // A candidate that is wrong, or ends otherwise, is not worth keeping either.
    report.word = report.outcome == Outcome::fails ? name_of(Decision::revert) : compared->word();
    report.code = compared->code();
    report.comparison = std::move(*compared);
  } else {
    judge_gates(report);
  }
  report.next = next_command(report, request, project);
  auto record = Journal(project.directory).append(record_of(request, project, report, seconds_since(began)));
  if (!record) return record.error();
  report.record = std::move(*record);
  progress.done();
  return report;
}

}  // namespace flashmoe::workflow
