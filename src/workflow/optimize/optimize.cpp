#include "workflow/optimize/optimize.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <map>
#include <set>
#include <utility>

#include "support/clock.hpp"
#include "support/process.hpp"
#include "support/text.hpp"
#include "workflow/advise/counters.hpp"
#include "workflow/advise/patterns.hpp"
#include "workflow/compare/git.hpp"
#include "workflow/compare/run_compare.hpp"
#include "workflow/compare/versions.hpp"
#include "workflow/device/capabilities.hpp"
#include "workflow/gates/gates.hpp"
#include "workflow/journal/heading.hpp"
#include "workflow/journal/journal.hpp"
#include "workflow/journal/listing.hpp"
#include "workflow/optimize/candidates.hpp"
#include "workflow/optimize/decision.hpp"
#include "workflow/optimize/shard.hpp"
#include "workflow/optimize/stop.hpp"
#include "workflow/predict/prediction.hpp"
#include "workflow/project/point.hpp"
#include "workflow/runner/inputs.hpp"
#include "workflow/trial/allowed.hpp"
#include "workflow/trial/trial.hpp"
#include "workflow/verdict/codes.hpp"

namespace flashmoe::workflow {
namespace {

constexpr int most_failures_in_a_row = 3;  // of a proposer or the machine, before the loop gives up on it
constexpr const char* advance = "advance";

// Launch after launch, on the SM that executes most of it.
double busiest_sm_instructions(const ProfileRun& run) {
  const CounterName* counter = find_counter_name("busiest_sm_instructions");
  double sum = 0;
  for (const LaunchProfile& launch : run.launches) sum += counter->value(launch.report);
  return sum;
}

std::string phase_of(const Proposal& proposal) {
  return proposal.phase.empty() ? "tuning" : proposal.phase;
}

// What busies an SM, the most relieved of it; nothing when none has a hundredth less.
std::optional<CounterChange> largest_decrease(const ProfileRun& before, const Counted& after) {
  CounterChange most{.name = "busiest_sm_instructions"};
  for (const char* name : {"busiest_sm_instructions", "shared_wavefronts", "global_sectors"}) {
    const CounterChange change{.name = name, .from = counter_of(before, name), .to = after.counters.at(name)};
    if (most.from == 0 || change.to * most.from < most.to * change.from) most = change;
  }
  if (most.to > (1 - least_improvement) * most.from) return std::nullopt;
  return most;
}

class Loop {
 public:
  Loop(OptimizeRequest request, Project project, DeviceSelector device, RuleSet rules, PatternPrior prior)
      : request_(std::move(request)),
        project_(std::move(project)),
        device_(std::move(device)),
        rules_(std::move(rules)),
        prior_(std::move(prior)),
        journal_(project_.directory) {}

  Result<OptimizeReport> run() {
    if (request_.seed == 0) request_.seed = fresh_seed();  // one for all, so that all counts are of the same inputs
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
    if (const auto seen = look_at_start(); !seen) return seen.error();
    while (report_.stopped.empty()) {
      report_.stopped =
          reason_to_stop(request_, project_,
                         {.report = report_, .advice = advice_, .ratio = ratio_, .seconds = seconds_since(began_)});
      if (!report_.stopped.empty()) break;
      const auto going = request_.propose ? ask() : search();
      if (!going) return going.error();
    }
    return report_.waiting > 0 ? wait() : finish();
  }

 private:
  // What an earlier process of this run decided. A candidate's commit follows from its parent and its files, so that
  // what was tried is known by it; what a clock could not decide is not paid for twice, whichever run it was.
  Result<Done> restore() {
    if (request_.shard) {
      auto counts = recorded_counts(journal_, request_, report_.device);
      if (!counts) return counts.error();
      counted_ = std::move(*counts);
    }
    const auto headings = journal_.headings();
    if (!headings) return headings.error();
    for (const Heading& heading : *headings) {
      if (heading.kind != IterationRecord::kind || !is_usable(heading)) continue;
      const auto loaded = journal_.load(heading);
      if (!loaded) return loaded.error();
      const Record& record = *loaded;
      const auto* iteration = record.as<IterationRecord>();
      const bool undecided = record.verdict == name_of(Decision::inconclusive) && !iteration->comparison.empty() &&
                             record.device == report_.device;
      if (undecided || record.run == report_.run) tried_.insert(iteration->candidate);
      if (record.run != report_.run) continue;
      if (report_.iterations.empty()) report_.start = current_ = iteration->parent;
      note(*iteration, record);
      if (iteration->decision != advance) continue;
      current_ = iteration->candidate;
      if (const auto point = run_git(project_.directory, {"show", fmt::format("{}:./{}", current_, point_file_name)}))
        been_at_.insert(*point + "\n");  // run_git() takes the last newline
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
                                  .advanced = iteration.decision == advance,
                                  .ground = iteration.ground,
                                  .seconds = record.seconds});
  }

  // Where the run began, and, when it goes on, where it stands.
  Result<Done> look_at_start() {
    const std::string current = std::exchange(current_, report_.start);
    if (const auto seen = look(); !seen) return seen.error();
    report_.cycles_at_start = now_.cycles;
    report_.predicted_at_start = now_.predicted;
    report_.busiest_sm_at_start = busiest_sm_instructions(profile_);
    report_.ratio_at_start = ratio_;
    if (current == current_) return Done{};
    current_ = current;
    return look();
  }

  Result<Done> check_out() {
    auto version = resolve_version(project_, current_);
    if (!version) return version.error();
    version_ = std::move(*version);
    been_at_.insert(point_text(version_.project, version_.project.point));
    changes_.clear();
    return Done{};
  }

  // Counts the current version, once.
  Result<Done> look() {
    if (const auto out = check_out(); !out) return out.error();
    if (has_clock(device_)) return time_against_baseline();
    Progress progress(profile_steps, request_.quiet);
    auto counted = run_profile(version_.project, {.device = report_.device, .seed = request_.seed}, progress);
    if (!counted) return counted.error();
    if (!counted->findings.empty()) {
      const Finding& first = counted->findings.front();
      return Diagnostic{.message = "the version to start from is not right: " + first.what, .fix = first.fix};
    }
    return use(std::move(*counted), predicted_cycles(counting(), version_.project));
  }

  // The ratio to the baseline's speed at the target workload, as the performance gate measures it; none where there is
  // no baseline.
  Result<Done> time_against_baseline() {
    ratio_.reset();
    if (version_.project.baseline.kind == CallableKind::none) return Done{};
    Progress progress(static_cast<int>(all_gates().size()), request_.quiet);
    const GateRun run = run_gates(
        version_.project, {.device = report_.device, .only = PerformanceFacts::gate, .record = false}, progress);
    const Workload* target = target_workload(version_.project);
    bool timed = false;  // at any workload: one that is far too slow at a small one is not timed at the target
    for (const GateResult& gate : run.gates) {
      const auto* facts = std::get_if<PerformanceFacts>(&gate.facts);
      if (facts == nullptr || target == nullptr) continue;
      report_.baseline = facts->baseline;
      for (const auto& [name, measured] : facts->workloads) {
        timed = timed || measured.speed.has_value();
        if (name == target->name && measured.speed) ratio_ = measured.speed->ratio.mean;
      }
    }
    if (timed || run.outcome == Outcome::inconclusive || interrupted()) return Done{};
    return Diagnostic{.message = "the current version cannot be timed: " + run.summary,
                      .fix = fmt::format("see why: cudadent gate --device {}", report_.device),
                      .code = run.code};
  }

  Result<Done> use(ProfileRun counted, std::optional<double> predicted) {
    profile_ = std::move(counted);
    const auto cycles = least_cycles(profile_, rules_);
    if (!cycles) return cycles.error();
    now_ = {.cycles = *cycles, .predicted = predicted};
    if (const auto advised = advise(profile_, rules_); !advised) return advised.error();
    advice_ = ranked(profile_);
    rank_by_patterns(advice_, prior_);
    if (!advice_.empty() && report_.bottlenecks.empty()) name_bottleneck(advice_.front().rule);
    return Done{};
  }

  void name_bottleneck(const std::string& rule) {
    for (const Advice& advice : advice_) {
      if (advice.rule != rule) continue;
      if (report_.bottlenecks.empty() || report_.bottlenecks.back() != advice.bottleneck)
        report_.bottlenecks.push_back(advice.bottleneck);
      return;
    }
  }

  [[nodiscard]] Counting counting() const { return {project_, device_, rules_, request_.seed, request_.quiet}; }

  [[nodiscard]] std::string side() const { return capabilities_of(device_).runs == Runs::host_code ? "cpu" : "cuda"; }

  // ---- somebody else proposes -----------------------------------------------------------------------------------

  // Every proposal is an iteration with a record, also one that is refused.
  Result<Done> ask() {
    auto proposal = request_.propose(
        {.side = side(), .project = version_.project, .advice = advice_, .profile = profile_, .report = report_});
    if (interrupted()) return Done{};
    if (!proposal) return refuse({.proposer = "proposer"}, proposal.error());
    if (!*proposal) {
      report_.stopped = "nothing more was proposed";
      return Done{};
    }
    if (const auto allowed = check_allowed(version_.project, (*proposal)->files); !allowed)
      return refuse(**proposal, allowed.error());
    auto change = snapshot_of(project_, current_, (*proposal)->files);
    if (!change) return refuse(**proposal, change.error());
    if (!tried_.insert(change->commit).second)
      return refuse(**proposal, {.message = "this very change was tried before", .fix = "propose another one"});
    return attempt({.proposal = std::move(**proposal), .change = std::move(*change)});
  }

  // Of the current version.
  [[nodiscard]] Record record_of_this_run() const {
    Record record;
    record.run = report_.run;
    record.project = project_.name;
    record.commit = current_;
    record.dirty = false;
    record.device = report_.device;
    return record;
  }

  Result<Done> refuse(const Proposal& proposal, const Diagnostic& why) {
    Record record = record_of_this_run();
    record.verdict = refused_word;
    IterationRecord iteration{.proposer = proposal.proposer,
                              .hypothesis = proposal.hypothesis,
                              .parent = current_,
                              .decision = "leave",
                              .ground = why.message,
                              .summary = why.message,
                              .fix = why.fix};
    for (const auto& [path, content] : proposal.files) iteration.files.push_back(path);
    record.body = std::move(iteration);
    auto written = journal_.append(std::move(record));
    if (!written) return written.error();
    note(std::get<IterationRecord>(written->body), *written);
    if (++failures_in_a_row_ >= most_failures_in_a_row)
      report_.stopped = fmt::format("{} proposals in a row could not be tried", failures_in_a_row_);
    return Done{};
  }

  // ---- the rules, then a search ---------------------------------------------------------------------------------

  // The next proposals of one bottleneck that nobody has tried yet, as commits.
  std::vector<Candidate> untried(std::vector<Proposal>& proposals) {
    std::vector<Candidate> candidates;
    const std::size_t most = has_clock(device_) ? 1 : static_cast<std::size_t>(request_.batch);
    while (!proposals.empty() && candidates.size() < most) {
      if (!candidates.empty() && proposals.front().rule != candidates.front().proposal.rule) break;
      Proposal proposal = std::move(proposals.front());
      proposals.erase(proposals.begin());
      if (been_at_.contains(proposal.files.at(point_file_name).value())) continue;  // a better one replaced it
      const Result<Snapshot>& change = change_of(proposal.files);
      if (!change || tried_.contains(change->commit)) continue;
      candidates.push_back({.proposal = std::move(proposal), .change = *change});
    }
    return candidates;
  }

  // Of what one bottleneck asks for, first what lasted elsewhere: a batch has an end, and with a clock it has one
  // place.
  void order_by_patterns(std::vector<Proposal>& proposals) const {
    if (prior_.knows_nothing()) return;
    const auto chance = [this](const Proposal& one) { return prior_.chance(one.rule, move_in(one.hypothesis)); };
    for (auto begin = proposals.begin(); begin != proposals.end();) {
      const auto end =
          std::find_if(begin, proposals.end(), [&](const Proposal& one) { return one.rule != begin->rule; });
      std::stable_sort(begin, end, [&](const Proposal& a, const Proposal& b) { return chance(a) > chance(b); });
      begin = end;
    }
  }

  // A move that several bottlenecks ask for is one commit, made once.
  const Result<Snapshot>& change_of(const FileChanges& files) {
    const auto known = changes_.find(files);
    if (known != changes_.end()) return known->second;
    return changes_.emplace(files, snapshot_of(project_, current_, files)).first->second;
  }

  // Whether a candidate is worth a trial: what it promises would be kept (decision.hpp).
  [[nodiscard]] bool promises(const Proposal& proposal, const Counted& counted) const {
    if (counted.cycles == 0) return false;
    const bool less_to_do = counted.cycles < (1 - least_improvement) * now_.cycles;
    if (!now_.predicted || !counted.predicted) return less_to_do;
    const double gain = *now_.predicted / *counted.predicted - 1;
    if (!proposal.rule.empty() && less_to_do && gain >= 0) return true;
    const auto least = least_gain_of(project_, phase_of(proposal));
    return gain >= std::max(least ? *least : 0, least_believed_gain);
  }

  // What it promises, times the chance that what was learned gives it.
  [[nodiscard]] double worth(const Candidate& candidate) {
    const double gain = -std::log(factor(now_, counted_[candidate.change.commit]));
    if (prior_.knows_nothing()) return gain;
    return gain * prior_.chance(candidate.proposal.rule, move_in(candidate.proposal.hypothesis));
  }

  // Here, or by those who share the run: then it waits for them.
  Result<Done> count_all(const std::vector<Candidate>& candidates) {
    if (!request_.shard) {
      count_candidates(counting(), candidates, counted_);
      return Done{};
    }
    report_.waiting = static_cast<std::size_t>(std::ranges::count_if(
        candidates, [this](const Candidate& candidate) { return !counted_.contains(candidate.change.commit); }));
    if (report_.waiting == 0) return Done{};
    report_.stopped = fmt::format("{} candidates wait for the shards that count them", report_.waiting);
    return record_batch(journal_, record_of_this_run(), candidates, current_, request_.seed);
  }

  // Those that promise something, the most promising first. A neighbour foretells what was counted of it.
  void screen(std::vector<Candidate>& candidates) {
    std::erase_if(candidates, [this](const Candidate& candidate) {
      const Counted& counted = counted_[candidate.change.commit];
      const auto& foretold = candidate.proposal.predicted;
      if (!promises(candidate.proposal, counted)) return true;
      return foretold && !moved_as_foretold(*foretold, counted.counters.at(foretold->name));
    });
    std::stable_sort(candidates.begin(), candidates.end(),
                     [this](const Candidate& a, const Candidate& b) { return worth(a) > worth(b); });
    for (Candidate& candidate : candidates) {
      if (!candidate.proposal.predicted)
        candidate.proposal.predicted = largest_decrease(profile_, counted_[candidate.change.commit]);
    }
  }

  Result<Done> search() {
    std::vector<Proposal> proposals = propose_moves(version_.project, advice_, side());
    order_by_patterns(proposals);
    while (!proposals.empty()) {
      std::vector<Candidate> candidates = untried(proposals);
      if (candidates.empty()) continue;
      if (!has_clock(device_)) {
        if (const auto counted = count_all(candidates); !counted) return counted.error();
        if (interrupted() || report_.waiting > 0) return Done{};
        screen(candidates);
      }
      if (candidates.empty()) continue;
      tried_.insert(candidates.front().change.commit);
      return attempt(candidates.front());
    }
    report_.stopped = "no proposal is left that promises anything";
    return Done{};
  }

  // ---- one change -----------------------------------------------------------------------------------------------

  Result<Done> attempt(const Candidate& candidate) {
    const Proposal& proposal = candidate.proposal;
    name_bottleneck(proposal.rule);
    Progress progress(trial_steps, request_.quiet);
    progress.note(fmt::format("iteration {}: {}", report_.iterations.size() + 1, proposal.hypothesis));
    TrialRequest request{
        .project = project_.directory,
        .device = report_.device,
        .because = proposal.hypothesis,
        .phase = phase_of(proposal),
        .run = report_.run,
        .seed = has_clock(device_) ? std::nullopt : std::optional(request_.seed),
        .proposer = proposal.proposer,
        .rule = proposal.rule,
        .predicted = proposal.predicted,
        .decide = [this, &proposal](const CompareReport& compared) { return decide(proposal, compared, rules_); }};
    auto tried = try_change(project_, candidate.change, request, progress);
    if (!tried) return tried.error();
    const auto& iteration = std::get<IterationRecord>(tried->record.body);
    note(iteration, tried->record);
    if (tried->outcome != Outcome::could_not_run) {
      failures_in_a_row_ = 0;
    } else if (++failures_in_a_row_ >= most_failures_in_a_row) {
      report_.stopped = fmt::format("{} changes in a row could not be tried: {}", failures_in_a_row_, iteration.ground);
    }
    if (iteration.decision != advance) return Done{};
    current_ = candidate.change.commit;
    if (has_clock(device_)) return look();
    if (const auto out = check_out(); !out) return out.error();
    CounterComparison& counters = *tried->comparison->counters;
    return use(std::move(counters.candidate),
               counters.predicted ? std::optional(counters.predicted->candidate_cycles) : std::nullopt);
  }

  // ---- the end --------------------------------------------------------------------------------------------------

  Result<OptimizeReport> wait() {
    report_.end = current_;
    report_.seconds = seconds_since(began_);
    const int count = request_.shard->count;
    report_.next = fmt::format("cudadent optimize --shard 1/{} --run {} --seed {} --device {}", count,
                               shell_word(report_.run), request_.seed, report_.device);
    return std::move(report_);
  }

  Result<OptimizeReport> finish() {
    report_.end = current_;
    report_.cycles_at_end = now_.cycles;
    report_.predicted_at_end = now_.predicted;
    report_.busiest_sm_at_end = busiest_sm_instructions(profile_);
    report_.ratio_at_end = ratio_;
    const bool kept = report_.end != report_.start;
    if (kept && !interrupted()) report_.elsewhere = look_elsewhere(counting(), report_.run, report_.start, report_.end);
    report_.seconds = seconds_since(began_);
    report_.next = kept ? fmt::format("git restore --source refs/cudadent/{} -- . && git diff", current_.substr(0, 12))
                        : fmt::format("cudadent profile --device {}", report_.device);
    if (const auto written = record_the_end(); !written) return written.error();
    return std::move(report_);
  }

  Result<Done> record_the_end() {
    Record record = record_of_this_run();
    RunRecord ended = run_record(report_, has_clock(device_));
    ended.max_iterations = request_.max_iterations.value_or(project_.thresholds.max_iterations);
    ended.max_minutes = request_.max_minutes.value_or(project_.thresholds.max_minutes);
    ended.max_dollars = request_.max_dollars;
    record.body = std::move(ended);
    const auto written = journal_.append(std::move(record));
    if (!written) return written.error();
    return Done{};
  }

  OptimizeRequest request_;
  Project project_;
  DeviceSelector device_;
  RuleSet rules_;
  PatternPrior prior_;
  Journal journal_;
  OptimizeReport report_{};
  std::string current_{};
  Version version_{};  // of it
  ProfileRun profile_{};
  std::vector<Advice> advice_{};
  Counted now_{};  // of the current version
  std::optional<double> ratio_{};
  std::set<std::string> tried_{};    // commits
  std::set<std::string> been_at_{};  // points of the versions that were current, as point.toml has them
  CountedVersions counted_{};
  std::map<FileChanges, Result<Snapshot>> changes_{};  // of the current version
  int failures_in_a_row_ = 0;
  std::chrono::steady_clock::time_point began_ = std::chrono::steady_clock::now();
};

}  // namespace

Result<OptimizeReport> run_optimize(const OptimizeRequest& request) {
  auto project = load_project(request.project);
  if (!project) return project.error();
  if (project->tunables.empty() && !request.propose) {
    return Diagnostic{.message = "the project leaves nothing open: there are no tunables to search",
                      .fix = "declare [tunables] in cudadent.toml, try edits of your own: cudadent try, or --agent",
                      .file = project->file,
                      .code = codes::usage_no_tunables};
  }
  auto device = select_device(request.device);
  if (!device) return device.error();
  if (const auto available = device_available(*device); !available) return available.error();
  if (request.shard) {
    if (const auto shared = check_shared(request, *device); !shared) return shared.error();
  }
  auto rules = rules_for(*project);
  if (!rules) return rules.error();
  const auto patterns = request.patterns ? patterns_of(*project) : std::vector<PatternTrial>{};
  if (!patterns) return patterns.error();
  PatternPrior prior(*patterns, has_clock(*device) ? measured_evidence : predicted_evidence);
  return Loop(request, std::move(*project), std::move(*device), std::move(*rules), std::move(prior)).run();
}

}  // namespace flashmoe::workflow
