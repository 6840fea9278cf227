#include "workflow/optimize/optimize.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <future>
#include <set>
#include <thread>
#include <utility>

#include "support/clock.hpp"
#include "support/process.hpp"
#include "workflow/advise/counters.hpp"
#include "workflow/compare/git.hpp"
#include "workflow/compare/versions.hpp"
#include "workflow/device/selector.hpp"
#include "workflow/journal/journal.hpp"
#include "workflow/optimize/proposal.hpp"
#include "workflow/trial/trial.hpp"
#include "workflow/verdict/codes.hpp"

namespace flashmoe::workflow {
namespace {

constexpr std::size_t screened_at_once = 8;  // proposals of one bottleneck that are counted before one is tried
constexpr double least_improvement = 0.01;   // of the estimate; a counter that moved by less has not

// The counter of the launch that has most of it to say: the one with the largest share.
double counter_in(const ProfileRun& run, const std::string& name) {
  const auto weightiest = std::max_element(run.launches.begin(), run.launches.end(),
                                           [](const auto& a, const auto& b) { return a.share < b.share; });
  const CounterName* counter = find_counter_name(name);
  return weightiest == run.launches.end() || counter == nullptr ? 0 : counter->of(weightiest->report);
}

bool moved_as_foretold(const CounterChange& predicted, double seen) {
  return predicted.to >= predicted.from ? seen >= predicted.to : seen <= predicted.to;
}

class Loop {
 public:
  Loop(OptimizeRequest request, Project project, DeviceSelector device, RuleSet rules)
      : request_(std::move(request)),
        project_(std::move(project)),
        device_(std::move(device)),
        rules_(std::move(rules)),
        journal_(project_.directory) {}

  Result<OptimizeReport> run() {
    report_.device = device_.to_string();
    report_.run = request_.run.empty() ? "optimize-" + utc_now() : request_.run;
    const auto head = run_git(project_.directory, {"rev-parse", "--verify", "--quiet", "HEAD^{commit}"});
    if (!head) {
      return Diagnostic{.message = "there is no commit to start from",
                        .fix = "git add -A && git commit -m start",
                        .code = codes::usage_nothing_to_try};
    }
    report_.start = *head;
    current_ = *head;
    if (const auto restored = restore(); !restored) return restored.error();
    if (const auto seen = look(); !seen) return seen.error();
    report_.cycles_at_start = report_.cycles_at_start > 0 ? report_.cycles_at_start : cycles_;
    while (report_.stopped.empty()) {
      report_.stopped = reason_to_stop();
      if (!report_.stopped.empty()) break;
      const auto going = iterate();
      if (!going) return going.error();
    }
    report_.end = current_;
    report_.cycles_at_end = cycles_;
    report_.seconds = seconds_since(began_);
    report_.next = current_ == report_.start
                       ? fmt::format("cudadent profile --device {}", report_.device)
                       : fmt::format("git restore --source refs/cudadent/{} -- . && git diff", current_.substr(0, 12));
    return std::move(report_);
  }

 private:
  // What an earlier process of this run decided. A candidate's commit follows from its parent and its files, so that
  // what was tried is known by it.
  Result<Done> restore() {
    const auto records = journal_.read();
    if (!records) return records.error();
    for (const Record& record : *records) {
      const auto* iteration = record.as<IterationRecord>();
      if (iteration == nullptr || record.run != report_.run || !is_usable(record)) continue;
      if (report_.iterations.empty()) report_.start = current_ = iteration->parent;
      tried_.insert(iteration->candidate);
      note(*iteration, record);
      if (iteration->decision == "advance") current_ = iteration->candidate;
    }
    return Done{};
  }

  void note(const IterationRecord& iteration, const Record& record) {
    report_.iterations.push_back({.number = static_cast<int>(report_.iterations.size()) + 1,
                                  .proposer = iteration.proposer,
                                  .rule = iteration.rule,
                                  .hypothesis = iteration.hypothesis,
                                  .predicted = iteration.predicted,
                                  .seen = iteration.seen.empty() ? std::nullopt : std::optional(iteration.seen.front()),
                                  .verdict = record.verdict,
                                  .advanced = iteration.decision == "advance",
                                  .ground = iteration.ground,
                                  .seconds = record.seconds});
  }

  // Counts the current version, once.
  Result<Done> look() {
    auto version = resolve_version(project_, current_);
    if (!version) return version.error();
    current_project_ = version->project;
    if (!has_clock(device_)) {
      Progress progress(profile_steps, request_.quiet);
      auto counted = run_profile(version->project, {.device = report_.device, .seed = request_.seed}, progress);
      if (!counted) return counted.error();
      if (!counted->findings.empty()) {
        const Finding& first = counted->findings.front();
        return Diagnostic{.message = "the version to start from is not right: " + first.what, .fix = first.fix};
      }
      return use(std::move(*counted));
    }
    return Done{};
  }

  Result<Done> use(ProfileRun counted) {
    profile_ = std::move(counted);
    const auto cycles = least_cycles(profile_, rules_);
    if (!cycles) return cycles.error();
    cycles_ = *cycles;
    if (const auto advised = advise(profile_, rules_); !advised) return advised.error();
    advice_ = ranked(profile_);
    if (!advice_.empty() && (report_.bottlenecks.empty() || report_.bottlenecks.back() != advice_.front().bottleneck)) {
      report_.bottlenecks.push_back(advice_.front().bottleneck);
    }
    return Done{};
  }

  [[nodiscard]] std::string reason_to_stop() const {
    if (interrupted()) return "interrupted";
    const int most = request_.max_iterations.value_or(project_.thresholds.max_iterations);
    if (static_cast<int>(report_.iterations.size()) >= most) return fmt::format("{} iterations", most);
    const double minutes = seconds_since(began_) / 60;
    const double most_minutes = request_.max_minutes.value_or(project_.thresholds.max_minutes);
    if (minutes >= most_minutes) return fmt::format("{:.0f} minutes", most_minutes);
    const double dollars = minutes / 60 * (project_.cost.machine_per_hour + project_.cost.agent_per_hour);
    if (request_.max_dollars && dollars >= *request_.max_dollars) return fmt::format("${:.2f} spent", dollars);
    return "";
  }

  struct Candidate {
    Proposal proposal;
    Snapshot change;
    double cycles = 0;  // estimated; 0: not counted
  };

  // Proposals of one bottleneck that nobody has tried yet, as commits.
  Result<std::vector<Candidate>> untried(std::vector<Proposal>& proposals) {
    std::vector<Candidate> candidates;
    while (!proposals.empty() && candidates.size() < screened_at_once) {
      const bool same = candidates.empty() || proposals.front().rule == candidates.front().proposal.rule;
      if (!same || (has_clock(device_) && !candidates.empty())) break;
      Proposal proposal = std::move(proposals.front());
      proposals.erase(proposals.begin());
      if (!check_allowed(current_project_, proposal.files)) continue;
      auto change = snapshot_of(project_, current_, proposal.files);
      if (!change || !tried_.insert(change->commit).second) continue;
      candidates.push_back({.proposal = std::move(proposal), .change = std::move(*change)});
    }
    return candidates;
  }

  // Counts all of them, as many at once as there are cores; those that do not build or do not run cost nothing more.
  void screen(std::vector<Candidate>& candidates) {
    const auto count = [this](const Version& version) -> double {
      Progress silent(profile_steps, true);
      const auto counted = run_profile(version.project, {.device = report_.device, .seed = request_.seed}, silent);
      if (!counted || !counted->findings.empty()) return 0;
      const auto cycles = least_cycles(*counted, rules_);
      return cycles ? *cycles : 0;
    };
    const std::size_t cores = std::max(1U, std::thread::hardware_concurrency());
    for (std::size_t begin = 0; begin < candidates.size(); begin += cores) {
      const std::size_t end = std::min(begin + cores, candidates.size());
      std::vector<Version> versions;  // git makes worktrees one after the other
      for (std::size_t i = begin; i < end; ++i) {
        auto version = resolve_version(project_, candidates[i].change.commit);
        versions.push_back(version ? std::move(*version) : Version{});
      }
      std::vector<std::future<double>> running;
      running.reserve(versions.size());
      for (const Version& version : versions)
        running.push_back(std::async(std::launch::async, count, std::cref(version)));
      for (std::size_t i = begin; i < end; ++i) candidates[i].cycles = running[i - begin].get();
    }
    std::erase_if(candidates, [this](const Candidate& candidate) {
      return candidate.cycles == 0 || candidate.cycles > (1 - least_improvement) * cycles_;
    });
    std::stable_sort(candidates.begin(), candidates.end(),
                     [](const Candidate& a, const Candidate& b) { return a.cycles < b.cycles; });
  }

  Result<Done> iterate() {
    std::vector<Proposal> proposals = propose_moves({.project = current_project_, .advice = advice_});
    while (!proposals.empty()) {
      auto candidates = untried(proposals);
      if (!candidates) return candidates.error();
      if (candidates->empty()) continue;
      if (!has_clock(device_)) screen(*candidates);
      if (interrupted()) return Done{};
      if (!candidates->empty()) {
        // The others may be worth it from where this one leads.
        for (std::size_t i = 1; i < candidates->size(); ++i) tried_.erase((*candidates)[i].change.commit);
        return attempt(candidates->front());
      }
    }
    report_.stopped = "no proposal is left that promises anything";
    return Done{};
  }

  Result<Done> attempt(const Candidate& candidate) {
    const Proposal& proposal = candidate.proposal;
    Progress progress(trial_steps, request_.quiet);
    progress.note(fmt::format("iteration {}: {}", report_.iterations.size() + 1, proposal.hypothesis));
    TrialRequest request{
        .project = project_.directory,
        .device = report_.device,
        .because = proposal.hypothesis,
        .phase = proposal.phase.empty() ? "tuning" : proposal.phase,
        .run = report_.run,
        .proposer = proposal.proposer,
        .rule = proposal.rule,
        .predicted = proposal.predicted,
        .decide = [this, &proposal](const CompareReport& compared) { return decide(proposal, compared); }};
    auto tried = try_change(project_, candidate.change, request, progress);
    if (!tried) return tried.error();
    const auto& iteration = std::get<IterationRecord>(tried->record.body);
    note(iteration, tried->record);
    if (iteration.decision != "advance") return Done{};
    current_ = candidate.change.commit;
    if (has_clock(device_)) return look();
    auto version = resolve_version(project_, current_);
    if (!version) return version.error();
    current_project_ = version->project;
    return use(std::move(tried->comparison->counters->candidate));
  }

  // Advance where it was measured to be worth it; without a clock, where the counter moved as far as foretold and the
  // busiest SM has less to do.
  TrialDecision decide(const Proposal& proposal, const CompareReport& compared) {
    if (!compared.counters) {
      const bool kept = compared.word() == name_of(Decision::keep);
      return {.advance = kept, .ground = compared.word()};
    }
    const CounterComparison& counters = *compared.counters;
    if (counters.changes.empty()) return {.advance = false, .ground = counters.correctness.summary};
    const auto before = least_cycles(counters.base, rules_);
    const auto after = least_cycles(counters.candidate, rules_);
    if (!before || !after) return {.advance = false, .ground = "the rules could not be evaluated"};
    const bool better = *after < (1 - least_improvement) * *before;
    std::string ground =
        fmt::format("busiest SM {:.4g} -> {:.4g} cycles at least (estimated from counts)", *before, *after);
    if (!proposal.predicted) return {.advance = better, .ground = ground};
    const double seen = counter_in(counters.candidate, proposal.predicted->name);
    const bool foretold = moved_as_foretold(*proposal.predicted, seen);
    ground = fmt::format("{} {:.4g} -> {:.4g}, foretold {:.4g}; {}", proposal.predicted->name, proposal.predicted->from,
                         seen, proposal.predicted->to, ground);
    return {.advance = better && foretold,
            .ground = ground,
            .seen = CounterChange{.name = proposal.predicted->name, .from = proposal.predicted->from, .to = seen}};
  }

  OptimizeRequest request_;
  Project project_;
  DeviceSelector device_;
  RuleSet rules_;
  Journal journal_;
  OptimizeReport report_{};
  std::string current_{};
  Project current_project_{};
  ProfileRun profile_{};
  std::vector<Advice> advice_{};
  double cycles_ = 0;
  std::set<std::string> tried_{};
  std::chrono::steady_clock::time_point began_ = std::chrono::steady_clock::now();
};

}  // namespace

Result<OptimizeReport> run_optimize(const OptimizeRequest& request) {
  auto project = load_project(request.project);
  if (!project) return project.error();
  if (project->tunables.empty()) {
    return Diagnostic{.message = "the project leaves nothing open: there are no tunables to search",
                      .fix = "declare [tunables] in cudadent.toml, or try edits of your own: cudadent try",
                      .file = project->file,
                      .code = codes::usage_no_tunables};
  }
  auto device = select_device(request.device);
  if (!device) return device.error();
  if (const auto available = device_available(*device); !available) return available.error();
  auto rules = rules_for(*project);
  if (!rules) return rules.error();
  return Loop(request, std::move(*project), std::move(*device), std::move(*rules)).run();
}

}  // namespace flashmoe::workflow
