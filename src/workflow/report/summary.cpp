#include "workflow/report/summary.hpp"

#include <fmt/format.h>

#include <cmath>

#include "workflow/journal/listing.hpp"
#include "workflow/journal/record.hpp"
#include "workflow/machine/machine.hpp"

namespace flashmoe::workflow {
namespace {

Named<Speed> speeds_of(const GateRecord& record) {
  Named<Speed> speeds;
  for (const GateResult& gate : record.gates) {
    const auto* measured = std::get_if<PerformanceFacts>(&gate.facts);
    if (measured == nullptr) continue;
    for (const auto& [name, workload] : measured->workloads) {
      if (workload.speed) put_named(speeds, name, {workload.speed->ratio.mean, workload.speed->ratio.lower});
    }
  }
  return speeds;
}

ChangeSummary change_of(const Record& record, const CompareRecord& comparison) {
  const std::string note = comparison.note.value_or("");
  return {.id = record.id,
          .change = note.empty() && comparison.candidate ? comparison.candidate->name : note,
          .commit = record.commit.value_or(""),
          .phase = comparison.phase,
          .workload = comparison.workload,
          .verdict = record.verdict,
          .gain = comparison.gain,
          .pairs = comparison.pairs_used,
          .minimum_detectable_gain = comparison.calibration.minimum_detectable_gain,
          .problem = comparison.problem,
          .fix = comparison.fix,
          .seconds = record.seconds,
          .comparison = comparison.identity()};
}

// A comparison that was stopped and went on later has two records; its last one counts.
void add_change(const Record& record, const CompareRecord& comparison, std::vector<ChangeSummary>& changes) {
  ChangeSummary change = change_of(record, comparison);
  for (ChangeSummary& earlier : changes) {
    if (comparison.key && earlier.comparison == change.comparison) {
      earlier = std::move(change);
      return;
    }
  }
  changes.push_back(std::move(change));
}

// The first thing that is wrong in the last gate run, and the next rung of the ladder.
void add_gate_goals(const GateRecord& last, const std::optional<Project>& project, std::vector<std::string>& goals) {
  for (const GateResult& gate : last.gates) {
    if (gate.outcome == Outcome::holds) continue;
    std::string goal = "gate " + gate.gate + " " + name_of(gate.outcome) + ": " + gate.summary;
    for (const Finding& finding : gate.findings) {
      if (finding.severity != Severity::error) continue;
      goal += " Fix: " + finding.fix;
      break;
    }
    goals.push_back(std::move(goal));
    break;
  }
  if (!project) return;
  const Named<Speed> speeds = speeds_of(last);
  const std::string& target = project->thresholds.target_workload;
  const Speed* speed = find_named(speeds, target);
  if (speed == nullptr) return;
  for (const double rung : project->thresholds.ladder) {
    if (speed->lower >= rung) continue;
    goals.push_back(fmt::format("{:.2f}x on {}: the lower bound is at {:.3f}x", rung, target, speed->lower));
    return;
  }
  goals.push_back(fmt::format("the ladder is climbed on {}: {:.3f}x", target, speed->lower));
}

void add_change_goals(const std::vector<ChangeSummary>& changes, std::vector<std::string>& goals) {
  for (const ChangeSummary& change : changes) {
    const std::string& verdict = change.verdict;
    if (verdict == name_of(Decision::inconclusive)) {
      goals.push_back("'" + change.change + "' stayed open: a quieter machine or a larger change would decide it");
    } else if (verdict == name_of(Ending::preempted) || verdict == name_of(Ending::interrupted) ||
               verdict == name_of(Ending::out_of_time)) {
      goals.push_back("'" + change.change + "' was stopped: cudadent compare --resume goes on");
    } else if (verdict == name_of(Ending::threshold_refused) || verdict == name_of(Ending::biased)) {
      goals.push_back("'" + change.change + "' could not be judged: " + change.fix);
    }
  }
}

}  // namespace

Result<std::string> find_run(const std::vector<Record>& records, const std::string& name) {
  for (const Record& record : records) {
    if (record.run == name) return name;
  }
  for (const Record& record : records) {
    if (!name.empty() && record.id.starts_with(name)) return record.run;
  }
  std::string known;
  std::string last;
  for (const Record& record : records) {
    if (record.run != last && known.find(record.run) == std::string::npos) {
      known += (known.empty() ? "" : ", ") + record.run;
    }
    last = record.run;
  }
  return Diagnostic{.message = "no run and no record '" + name + "'" + (known.empty() ? "" : "; runs are " + known),
                    .fix = "cudadent journal lists the records with their runs"};
}

RunSummary run_summary(const std::vector<Record>& records, const std::string& run,
                       const std::optional<Project>& project) {
  RunSummary summary{.run = run};
  GateRecord last_gate;
  double kept_log_gain = 0;
  for (const Record& record : records) {
    if (record.run != run) continue;
    ++summary.records;
    if (!record.project.empty()) summary.project = record.project;
    if (!record.device.empty()) summary.device = record.device;
    if (summary.first.empty()) summary.first = record.time;
    summary.last = record.time;
    summary.environment = record.environment;
    summary.seconds += record.seconds;
    summary.cost.machine += record.cost.machine;
    summary.cost.agent += record.cost.agent;
    if (const auto* comparison = record.as<CompareRecord>()) {
      add_change(record, *comparison, summary.changes);
      const bool kept = record.verdict == name_of(Decision::keep) && comparison->gain && comparison->gain->mean;
      if (kept) kept_log_gain += std::log1p(*comparison->gain->mean);
    } else if (const auto* gates = record.as<GateRecord>()) {
      summary.gates.push_back({.id = record.id,
                               .commit = record.commit.value_or(""),
                               .verdict = record.verdict,
                               .what = detail_of(record),
                               .seconds = record.seconds});
      last_gate = *gates;
      const Named<Speed> speeds = speeds_of(*gates);
      if (summary.before.empty()) summary.before = speeds;
      if (!speeds.empty()) summary.after = speeds;
    }
  }
  summary.cost.total = summary.cost.machine + summary.cost.agent;
  summary.kept_gain = std::expm1(kept_log_gain);
  add_gate_goals(last_gate, project, summary.next_goals);
  add_change_goals(summary.changes, summary.next_goals);
  if (project) {
    summary.planned_minutes = project->thresholds.max_minutes;
    summary.planned_iterations = project->thresholds.max_iterations;
  }
  if (project && project->cost.machine_per_hour > 0) {
    summary.machine_advice = advice_text({}, project->cost, project->machine);
  }
  return summary;
}

}  // namespace flashmoe::workflow
