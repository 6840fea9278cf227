#include "workflow/report/summary.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <ctime>

#include "workflow/journal/journal.hpp"
#include "workflow/journal/listing.hpp"
#include "workflow/journal/record.hpp"
#include "workflow/machine/machine.hpp"
#include "workflow/report/changes.hpp"
#include "workflow/report/kept.hpp"
#include "workflow/verdict/codes.hpp"

namespace flashmoe::workflow {
namespace {

Named<Speed> speeds_of(const GateRecord& record, const std::string& evidence) {
  Named<Speed> speeds;
  for (const GateResult& gate : record.gates) {
    const auto* measured = std::get_if<PerformanceFacts>(&gate.facts);
    if (measured == nullptr) continue;
    for (const auto& [name, workload] : measured->workloads) {
      if (!workload.speed) continue;
      put_named(speeds, name, {workload.speed->ratio.mean, workload.speed->ratio.lower, evidence});
    }
  }
  return speeds;
}

// Seconds since 1970 of "2026-11-15T05:12:46.123456Z"; unset: it is no time.
std::optional<double> seconds_of(const std::string& time) {
  std::tm parts{};
  const char* rest = ::strptime(time.c_str(), "%Y-%m-%dT%H:%M:%S", &parts);
  if (rest == nullptr) return std::nullopt;
  return static_cast<double>(::timegm(&parts)) + (*rest == '.' ? std::strtod(rest, nullptr) : 0);
}

std::optional<Prices> prices_of(const Record& record) {
  const auto prices = [](const auto& body) -> std::optional<Prices> {
    if constexpr (requires { body.cost_per_hour; }) return body.cost_per_hour;
    return std::nullopt;
  };
  return std::visit(prices, static_cast<const AnyRecordBody&>(record.body));
}

// The loop's own word on where it began and ended.
void add_run(const Record& record, const RunRecord& run, RunSummary& summary) {
  summary.stopped = run.stopped;
  summary.start = run.start;
  summary.end = run.end;
  summary.planned_iterations = run.max_iterations;
  summary.planned_minutes = run.max_minutes;
  summary.planned_dollars = run.max_dollars;
  if (run.busiest_sm_at_start && run.busiest_sm_at_end) {
    summary.endpoints.push_back({.what = "instructions of the busiest SM",
                                 .before = *run.busiest_sm_at_start,
                                 .after = *run.busiest_sm_at_end,
                                 .evidence = evidence_text(record)});
  }
  if (run.ratio_at_start && run.ratio_at_end) {
    summary.endpoints.push_back({.what = "times the speed of " + (run.baseline.empty() ? "the baseline" : run.baseline),
                                 .before = *run.ratio_at_start,
                                 .after = *run.ratio_at_end,
                                 .more_is_better = true,
                                 .evidence = evidence_text(record)});
  }
  for (std::size_t i = 0; i < run.bottlenecks.size(); ++i) {
    summary.bottlenecks.push_back(
        fmt::format("{}{} ({} counters)", i == 0 ? "first: " : "then: ", run.bottlenecks[i], evidence_text(record)));
  }
}

// From what the first change began with to what the last kept one ended with, where the model had an answer.
void add_predicted_endpoints(RunSummary& summary) {
  const ChangeSummary* first = nullptr;
  const ChangeSummary* last = nullptr;
  for (const ChangeSummary& change : summary.changes) {
    if (!change.predicted) continue;
    if (first == nullptr) first = &change;
    if (change.fate == Fate::kept) last = &change;
  }
  if (first == nullptr || last == nullptr || first->evidence != last->evidence) return;
  summary.endpoints.insert(summary.endpoints.begin(), {.what = "cycles of a call",
                                                       .before = first->predicted->base_cycles,
                                                       .after = last->predicted->candidate_cycles,
                                                       .evidence = last->evidence});
}

bool is_climbed(const Named<Speed>& speeds, const Project& project) {
  const Speed* speed = find_named(speeds, project.thresholds.target_workload);
  return speed != nullptr && !project.thresholds.ladder.empty() && speed->lower >= project.thresholds.ladder.back();
}

// The first thing that is wrong in the last gate run, and the next rung of the ladder.
void add_gate_goals(const GateRecord& last, const std::optional<Project>& project, std::vector<std::string>& goals) {
  for (const GateResult& gate : last.gates) {
    if (gate.outcome == Outcome::holds || gate.not_run) continue;
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
  const Named<Speed> speeds = speeds_of(last, "");
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

// A trial without a clock, which leaves the decision to others, was kept by who committed it, and left by who went on
// without it.
void settle_trials(const Project& project, const std::string& parent, RunSummary& summary) {
  const auto is_theirs = [](const ChangeSummary& one) {
    const bool has_figure = one.predicted || !one.counters.empty();
    return one.fate == Fate::open && one.proposer == "person" && !one.commit.empty() && has_figure;
  };
  std::vector<std::string> candidates;
  for (const ChangeSummary& change : summary.changes) {
    if (is_theirs(change)) candidates.push_back(change.commit);
  }
  const auto kept = kept_in_history(project, candidates);
  if (!kept) return;
  std::string end;
  for (ChangeSummary& change : summary.changes) {
    if (!is_theirs(change)) continue;
    if (const auto found = kept->find(change.commit); found != kept->end()) {
      change.fate = Fate::kept;
      end = found->second;
    } else if (&change != &summary.changes.back()) {
      change.fate = Fate::left;
    }
  }
  if (!summary.end.empty() || end.empty()) return;
  summary.start = parent;
  summary.end = end;
}

// What a loop ended with is nobody's until it is taken, and no speed until a clock has seen it.
void add_loop_goals(RunSummary& summary) {
  if (!summary.stopped.empty() && summary.end != summary.start) {
    summary.next_goals.push_back(
        fmt::format("take what was kept: git restore --source refs/cudadent/{} -- .", summary.end.substr(0, 12)));
  }
  const bool is_predicted = std::any_of(summary.changes.begin(), summary.changes.end(), [](const ChangeSummary& one) {
    return one.fate == Fate::kept && (one.predicted || !one.gain);
  });
  if (is_predicted)
    summary.next_goals.emplace_back("measure it on a card: what was kept is predicted or counted alone");
}

// Gains multiply where they were measured alike; a change that went on later counts once.
std::vector<KeptGain> kept_gains(const std::vector<ChangeSummary>& changes) {
  std::vector<KeptGain> all;
  for (const ChangeSummary& change : changes) {
    const auto gain = change.predicted ? std::optional(change.predicted->gain())
                      : change.gain    ? change.gain->mean
                                       : std::nullopt;
    if (change.fate != Fate::kept || !gain) continue;
    const std::string workload = change.workload.value_or("");
    auto found = std::find_if(all.begin(), all.end(), [&](const KeptGain& kept) {
      return kept.workload == workload && kept.evidence == change.evidence;
    });
    if (found == all.end()) found = all.insert(all.end(), {.workload = workload, .evidence = change.evidence});
    ++found->changes;
    found->gain = (1 + found->gain) * (1 + *gain) - 1;
  }
  return all;
}

// The last one named on evidence stays.
void name_bottleneck(const Record& record, const ProfileRecord& named, std::string& last) {
  if (named.profile.debug || !named.profile.bottleneck) return;
  last = fmt::format("{} (rule {}, {} counters, {})", named.profile.bottleneck->says, named.profile.bottleneck->rule,
                     named.profile.counters, evidence_text(record));
}

// What holds the kernel back, as far as its build tells, and what holds the work back.
void add_bottlenecks(const GateRecord& last, const Named<double>& gate_seconds, RunSummary& summary) {
  std::vector<std::string>& found = summary.bottlenecks;
  for (const GateResult& gate : last.gates) {
    const auto* build = std::get_if<BuildFacts>(&gate.facts);
    if (build == nullptr || !build->cuda) continue;
    for (const InstanceFacts& instance : build->cuda->instances) {
      const LaunchFacts* least = nullptr;
      for (const LaunchFacts& launch : instance.workloads) {
        if (least == nullptr || launch.occupancy < least->occupancy) least = &launch;
      }
      if (least == nullptr || least->occupancy >= 1) continue;
      found.push_back(fmt::format("{}: occupancy {:.0f} % in {}, limited by {} (computed from the build, {})",
                                  instance.instance, 100 * least->occupancy, least->workload, least->limiter,
                                  build->cuda->device));
    }
  }
  const auto open = std::count_if(summary.changes.begin(), summary.changes.end(), [](const ChangeSummary& change) {
    return change.verdict == name_of(Decision::inconclusive) || change.verdict == name_of(Ending::threshold_refused);
  });
  double worst = 0;
  for (const ChangeSummary& change : summary.changes)
    worst = std::max(worst, change.minimum_detectable_gain.value_or(0));
  if (open > 0) {
    found.push_back(
        fmt::format("noise: {} of {} comparisons could not be decided; smallest detectable gain up to {:.1f} %", open,
                    summary.changes.size(), 100 * worst));
  }
  const std::pair<std::string, double>* longest = nullptr;
  for (const auto& one : gate_seconds) {
    if (longest == nullptr || one.second > longest->second) longest = &one;
  }
  if (longest != nullptr && summary.busy_seconds > 0) {
    found.push_back(fmt::format("time: {} took {:.0f} % of what cudadent ran", longest->first,
                                100 * longest->second / summary.busy_seconds));
  }
  if (0.99 * summary.seconds > summary.busy_seconds && summary.busy_seconds > 0) {
    found.push_back(fmt::format("time: trials and gates took {:.0f} % of it; the rest was spent between the records{}",
                                100 * summary.busy_seconds / summary.seconds,
                                summary.stopped.empty() ? "" : ", counting candidates among it"));
  }
}

// What is ahead follows from the plan and from what is still open.
Plans plans_of(const RunSummary& summary, bool open) {
  if (!open) return {};
  const double left = summary.planned_minutes.value_or(0) * 60 - summary.seconds;
  const bool more = static_cast<int>(summary.changes.size()) < summary.planned_iterations.value_or(0);
  return {.work_ahead_hours = more ? std::max(0.0, left) / 3600 : 0, .next_work_in_hours = 0};
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
                    .fix = "cudadent journal lists the records with their runs",
                    .code = codes::usage_run};
}

RunSummary run_summary(const std::vector<Record>& records, const std::string& run,
                       const std::optional<Project>& project) {
  RunSummary summary{.run = run};
  GateRecord last_gate;
  std::vector<std::pair<std::string, Speed>> speeds;  // in the order of the records
  Named<double> gate_seconds;
  std::string named_bottleneck;
  std::string parent;  // of the first trial
  std::optional<Prices> prices;
  std::optional<double> began;
  std::optional<double> ended;
  for (const Record& record : records) {
    if (record.run != run) continue;
    if (!is_usable(record)) {
      ++summary.left_out;
      continue;
    }
    ++summary.records;
    if (!record.project.empty()) summary.project = record.project;
    if (!record.device.empty()) summary.device = record.device;
    if (summary.first.empty()) summary.first = record.time;
    summary.last = record.time;
    summary.environment = record.environment;
    summary.busy_seconds += record.seconds;
    summary.cost.machine += record.cost.machine;
    summary.cost.agent += record.cost.agent;
    if (const auto found = prices_of(record)) prices = found;
    if (const auto end = seconds_of(record.time)) {  // a record is written when its work is done
      began = std::min(began.value_or(*end), *end - record.seconds);
      ended = std::max(ended.value_or(*end), *end);
    }
    if (const auto* comparison = record.as<CompareRecord>()) {
      add_change(record, *comparison, summary.changes);
    } else if (const auto* iteration = record.as<IterationRecord>()) {
      if (parent.empty()) parent = iteration->parent;
      add_iteration(record, *iteration, summary);
    } else if (const auto* ended_loop = record.as<RunRecord>()) {
      add_run(record, *ended_loop, summary);
    } else if (const auto* named = record.as<ProfileRecord>()) {
      name_bottleneck(record, *named, named_bottleneck);
    } else if (const auto* gates = record.as<GateRecord>()) {
      summary.gates.push_back({.id = record.id,
                               .commit = record.commit.value_or(""),
                               .verdict = record.verdict,
                               .what = detail_of(record),
                               .seconds = record.seconds,
                               .evidence = evidence_text(record)});
      last_gate = *gates;
      for (const GateResult& gate : gates->gates) {
        const double* before = find_named(gate_seconds, gate.gate);
        put_named(gate_seconds, gate.gate, (before != nullptr ? *before : 0) + gate.seconds);
      }
      for (const auto& speed : speeds_of(*gates, evidence_text(record))) speeds.push_back(speed);
    }
  }
  for (const auto& [workload, speed] : speeds) put_named(summary.after, workload, speed);
  for (const auto& [workload, speed] : speeds) {
    const Speed* after = find_named(summary.after, workload);
    const bool first = find_named(summary.before, workload) == nullptr;
    if (first && speed.evidence == after->evidence) put_named(summary.before, workload, speed);
  }
  summary.seconds = began ? *ended - *began : summary.busy_seconds;
  if (project && !prices) prices = Prices{project->cost.machine_per_hour, project->cost.agent_per_hour};
  if (prices) summary.cost = cost_of(summary.seconds, *prices);
  if (prices && *prices != Prices{}) summary.prices = prices;
  summary.cost.total = summary.cost.machine + summary.cost.agent;
  if (project) settle_trials(*project, parent, summary);
  add_predicted_endpoints(summary);
  summary.kept = kept_gains(summary.changes);
  add_gate_goals(last_gate, project, summary.next_goals);
  add_change_goals(summary.changes, summary.next_goals);
  add_loop_goals(summary);
  if (!named_bottleneck.empty()) summary.bottlenecks.push_back(named_bottleneck);
  add_bottlenecks(last_gate, gate_seconds, summary);
  if (!project) return summary;
  if (!summary.planned_minutes) summary.planned_minutes = project->thresholds.max_minutes;
  if (!summary.planned_iterations) summary.planned_iterations = project->thresholds.max_iterations;
  if (project->cost.machine_per_hour > 0) {
    const bool open = !summary.next_goals.empty() && !is_climbed(summary.after, *project);
    summary.machine_advice = advice_text(plans_of(summary, open), project->cost, project->machine);
  }
  return summary;
}

std::vector<RunSummary> all_runs(const std::vector<Record>& records, const std::optional<Project>& project) {
  std::vector<RunSummary> runs;
  for (const Record& record : records) {
    const bool known =
        std::any_of(runs.begin(), runs.end(), [&](const RunSummary& run) { return run.run == record.run; });
    if (!known) runs.push_back(run_summary(records, record.run, project));
  }
  return runs;
}

}  // namespace flashmoe::workflow
