#include "workflow/gates/profile_gate.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <filesystem>

#include "support/clock.hpp"
#include "workflow/advise/advise.hpp"
#include "workflow/advise/counters.hpp"
#include "workflow/card/call_on_card.hpp"
#include "workflow/device/capabilities.hpp"
#include "workflow/gates/context.hpp"
#include "workflow/gates/host_profile.hpp"
#include "workflow/gates/record.hpp"
#include "workflow/journal/journal.hpp"
#include "workflow/runner/inputs.hpp"
#include "workflow/verdict/codes.hpp"

namespace flashmoe::workflow {
namespace {

namespace fs = std::filesystem;

constexpr double as_fast_as_the_baseline = 1.0;
constexpr const char* host_estimate = "an estimate from time and bytes";

struct Task {
  Workload workload;
  std::uint64_t seed = 0;
  bool debug = false;
  bool judge = true;       // whether the reference is asked; not after gates that did, nor to debug
  bool must_name = false;  // it is slow, so something is the bottleneck
};

// ---- what was counted --------------------------------------------------------------------------------------------

// The launch that the primary advice is about.
const LaunchProfile* blamed(const ProfileRun& run) {
  const LaunchProfile* found = nullptr;
  for (const LaunchProfile& launch : run.launches) {
    if (launch.advice.empty()) continue;
    if (found == nullptr || launch.advice.front().gain > found->advice.front().gain) found = &launch;
  }
  return found != nullptr || run.launches.empty() ? found : &run.launches.front();
}

void call_degraded(Profile& profile, const std::string& why, const std::string& fix) {
  auto& facts = profile.result.facts_as<ProfileFacts>();
  facts.degraded = "no counters: " + why;
  profile.result.findings.push_back({.severity = Severity::warning,
                                     .group = "counters",
                                     .what = "degraded: " + facts.degraded,
                                     .fix = fix,
                                     .code = codes::profile_degraded});
}

Result<Done> count_launches(const GateContext& context, const Task& task, Profile& profile) {
  const auto rules = rules_for(context.project);
  if (!rules) return rules.error();
  const CountedCall call{.kernel = context.kernel,
                         .report = context.report.path(),
                         .workload = task.workload,
                         .seed = task.seed,
                         .reference = task.judge ? &context.reference : nullptr};
  auto run = capabilities_of(context.device).is_card
                 ? profile_call_on_card(context.project, context.device, call, context.progress)
                 : count_call(context.project, context.device, call);
  if (!run) return run.error();
  if (const auto advised = advise(*run, *rules); !advised) return advised.error();
  profile.run = std::move(*run);
  profile.advice = ranked(profile.run);
  auto& facts = profile.result.facts_as<ProfileFacts>();
  if (!profile.run.counted_by.empty())
    facts.counters = name_of(profile.run.degraded.empty() ? CounterKind::hardware : CounterKind::degraded);
  if (!profile.run.degraded.empty()) call_degraded(profile, profile.run.degraded, profile.run.degraded_fix);
  const LaunchProfile* launch = blamed(profile.run);
  if (launch == nullptr) return Done{};
  facts.kernel = launch->report.name.empty() ? launch->report.kernel : launch->report.name;
  for (const auto& [name, value] : counters_of(launch->report)) put_named(facts.counted, name, value);
  return Done{};
}

Result<Done> measure_host(const GateContext& context, const Task& task, Profile& profile) {
  auto measured = profile_host_call(context, task.workload, task.seed, task.judge);
  if (!measured) return measured.error();
  auto advice = advise(measured->call);
  if (!advice) return advice.error();
  profile.advice = std::move(*advice);
  profile.run = {.project = context.project.name,
                 .device = context.device.to_string(),
                 .workload = task.workload.name,
                 .image_hash = context.kernel.content_hash};
  if (measured->wrong) profile.run.findings.push_back(std::move(*measured->wrong));
  auto& facts = profile.result.facts_as<ProfileFacts>();
  for (const auto& [name, value] : counters_of(measured->call)) {
    const bool is_counter = name == "cycles" || name == "instructions" || name == "cache_misses";
    if (!is_counter || !measured->call.counted.empty()) put_named(facts.counted, name, value);  // or nobody counted it
  }
  facts.counters = name_of(measured->no_counters.empty() ? CounterKind::hardware : CounterKind::degraded);
  if (!measured->no_counters.empty()) call_degraded(profile, measured->no_counters, measured->no_counters_fix);
  return Done{};
}

// ---- what it means -----------------------------------------------------------------------------------------------

// The same source may have been compiled in a worktree before (.cudadent/worktrees/<name>/<path in the repository>),
// and an image that is there is not made again: its lines are those of the project's own file.
fs::path out_of_worktree(const Project& project, const fs::path& inside) {
  std::vector<fs::path> parts(inside.begin(), inside.end());
  if (parts.size() < 4 || parts[0] != ".cudadent" || parts[1] != "worktrees") return inside;
  for (std::size_t first = 3; first < parts.size(); ++first) {
    fs::path file;
    for (std::size_t i = first; i < parts.size(); ++i) file /= parts[i];
    std::error_code ignored;
    if (fs::is_regular_file(fs::path(project.directory) / file, ignored)) return file;
  }
  return inside.filename();
}

// As people see them: inside the project by their path there, else by their name alone.
std::vector<CountedLine> in_project(const Project& project, std::vector<CountedLine> lines) {
  for (CountedLine& line : lines) {
    const fs::path inside = fs::path(line.file).lexically_normal().lexically_relative(project.directory);
    const bool is_outside = inside.empty() || *inside.begin() == "..";
    line.file = (is_outside ? fs::path(line.file).filename() : out_of_worktree(project, inside)).string();
  }
  return lines;
}

void name_bottleneck(const Project& project, const Task& task, Profile& profile) {
  if (profile.advice.empty()) return;
  const Advice& first = profile.advice.front();
  auto& facts = profile.result.facts_as<ProfileFacts>();
  facts.bottleneck = BottleneckFacts{.rule = first.rule,
                                     .bottleneck = first.bottleneck,
                                     .says = first.says,
                                     .where = first.where,
                                     .lines = in_project(project, first.lines),
                                     .change = first.fix,
                                     .expected = first.expected,
                                     .expected_gain = first.gain};
  for (std::size_t i = 1; i < profile.advice.size(); ++i) facts.further.push_back(profile.advice[i].rule);
  profile.result.findings.insert(profile.result.findings.begin(), Finding{.severity = Severity::warning,
                                                                          .group = task.workload.name,
                                                                          .what = first.says,
                                                                          .where = first.where,
                                                                          .fix = first.fix,
                                                                          .code = codes::profile_bottleneck});
}

void decide(GateResult& result, Outcome outcome, const std::string& code, const std::string& summary) {
  result.outcome = outcome;
  result.code = code;
  result.summary = summary;
}

void conclude(const Project& project, const Task& task, Profile& profile) {
  GateResult& result = profile.result;
  const std::vector<Finding>& wrong = profile.run.findings;
  if (!wrong.empty() && !task.debug) {
    // Of a kernel that does something else nobody knows what limits it.
    profile.advice.clear();
    result.findings = wrong;
    return decide(result, Outcome::fails, wrong.front().code, wrong.front().what);
  }
  name_bottleneck(project, task, profile);
  const auto& facts = result.facts_as<ProfileFacts>();
  const std::string bottleneck = facts.bottleneck ? facts.bottleneck->bottleneck : "no rule finds a bottleneck";
  if (task.debug) {
    result.findings.insert(result.findings.end(), wrong.begin(), wrong.end());
    result.findings.push_back({.severity = Severity::warning,
                               .group = "debug",
                               .what = "no evidence: looked at, not judged",
                               .fix = "cudadent gate judges it",
                               .code = codes::profile_no_evidence});
    return decide(result, Outcome::inconclusive, codes::profile_no_evidence, bottleneck + " (debug: no evidence)");
  }
  if (!facts.bottleneck && task.must_name) {
    result.findings.push_back({.severity = Severity::error,
                               .group = task.workload.name,
                               .what = "no rule finds a bottleneck in these counters, and yet it is slow",
                               .fix = fmt::format("add the rule that is missing to {}", project_rules_file),
                               .code = codes::profile_no_bottleneck});
    return decide(result, Outcome::could_not_run, codes::profile_no_bottleneck, bottleneck);
  }
  if (facts.degraded.empty()) return decide(result, Outcome::holds, "", bottleneck);
  decide(result, Outcome::inconclusive, codes::profile_degraded, bottleneck + " (degraded: no counters)");
}

Result<Profile> profile_kernel(const GateContext& context, const Task& task) {
  const auto start = std::chrono::steady_clock::now();
  Profile profile;
  profile.result.gate = ProfileFacts::gate;
  const CounterKind counters = capabilities_of(context.device).counters;
  profile.result.facts = ProfileFacts{
      .workload = task.workload.name, .seed = task.seed, .counters = name_of(counters), .debug = task.debug};
  context.progress.update(task.workload.name);
  const bool by_launch = capabilities_of(context.device).runs == Runs::cuda_code;
  const auto counted = by_launch ? count_launches(context, task, profile) : measure_host(context, task, profile);
  if (!counted) return counted.error();
  conclude(context.project, task, profile);
  profile.result.seconds = seconds_since(start);
  return profile;
}

// ---- as a gate ---------------------------------------------------------------------------------------------------

const GateResult* result_of(std::span<const GateResult> gates, const char* name) {
  const auto found = std::find_if(gates.begin(), gates.end(), [&](const GateResult& one) { return one.gate == name; });
  return found == gates.end() || found->not_run ? nullptr : &*found;
}

// The figure that decided: the last one.
const SpeedFacts* last_speed(const GateResult& performance) {
  const auto* measured = std::get_if<PerformanceFacts>(&performance.facts);
  if (measured == nullptr || measured->workloads.empty()) return nullptr;
  const auto& speed = measured->workloads.back().second.speed;
  return speed ? &*speed : nullptr;
}

bool is_below_the_baseline(const GateResult& performance) {
  const SpeedFacts* speed = last_speed(performance);
  return speed != nullptr && speed->ratio.lower < as_fast_as_the_baseline;
}

std::string nothing_to_explain(std::span<const GateResult> before) {
  const GateResult* performance = result_of(before, PerformanceFacts::gate);
  if (performance == nullptr) return "performance was not measured";
  const bool no_clock = performance->code == codes::performance_not_timed ||
                        performance->code == codes::performance_predicted ||
                        performance->code == codes::performance_rehearsal;
  if (no_clock || is_below_the_baseline(*performance)) return "";
  return last_speed(*performance) != nullptr ? "at least as fast as the baseline" : "performance came to no figure";
}

// What was measured is what is explained.
const Workload* slow_workload(const Project& project, const GateResult* performance) {
  const auto* measured = performance == nullptr ? nullptr : std::get_if<PerformanceFacts>(&performance->facts);
  const bool has_one = measured != nullptr && !measured->workloads.empty();
  return has_one ? find_workload(project, measured->workloads.back().first) : target_workload(project);
}

GateResult explain_speed(GateContext& context) {
  const GateResult* performance = result_of(context.done, PerformanceFacts::gate);
  const GateResult* correctness = result_of(context.done, CorrectnessFacts::gate);
  const Workload* workload = slow_workload(context.project, performance);
  if (workload == nullptr) return could_not_run(ProfileFacts::gate, {.message = "the project has no workload"});
  const auto profile =
      profile_kernel(context, {.workload = *workload,
                               .seed = mix_seed(context.seed, 4),
                               .judge = correctness == nullptr || correctness->outcome != Outcome::holds,
                               .must_name = performance != nullptr && is_below_the_baseline(*performance)});
  return profile ? profile->result : could_not_run(ProfileFacts::gate, profile.error());
}

}  // namespace

const Gate profile_gate{
    .name = ProfileFacts::gate,
    .about =
        "why is it not faster? Runs by itself below 1.0x of the baseline, and where there is no clock; names\n"
        "the one bottleneck, from counters where the device has some",
    .needs = GateNeeds::runnables,
    .expected_seconds = [](const Project&) { return 10.0; },
    .run = explain_speed,
    .degraded_goes_on = true,
    .nothing_to_explain = nothing_to_explain};

// ---- as a command ------------------------------------------------------------------------------------------------

Record profile_record(const GateContext& context, const GateResult& result) {
  const Project& project = context.project;
  const auto& facts = std::get<ProfileFacts>(result.facts);
  Record record;
  record.project = project.name;
  record.device = context.device.to_string();
  record.verdict = facts.debug ? "debug" : name_of(result.outcome);
  if (facts.debug) record.evidence = Evidence{.kind = no_evidence, .where = record.device};
  record.seconds = result.seconds;
  record.hashes = hashes_of(context);
  record.body = ProfileRecord{.summary = result.summary,
                              .cost_per_hour = Prices{project.cost.machine_per_hour, project.cost.agent_per_hour},
                              .threads = context.options.threads,
                              .point = project.point,
                              .profile = facts};
  return record;
}

Result<Profile> profile_project(const Project& project, const ProfileRequest& request, Progress& progress) {
  const std::string own_gpu = project.instances.empty() ? "" : "virtual:" + project.cuda_device;
  const auto device = select_device(request.device, own_gpu);
  if (!device) return device.error();
  if (const auto available = device_available(*device); !available) return available.error();
  const auto workload = profiled_workload(project, request.workload);
  if (!workload) return workload.error();
  const GateOptions options{.device = device->to_string(), .threads = request.threads};
  const std::vector<Record> history;
  GateContext context{.project = project,
                      .options = options,
                      .progress = progress,
                      .seed = request.seed != 0 ? request.seed : fresh_seed(),
                      .history = history,
                      .device = *device};
  progress.step("build", 10);
  if (const auto ready = context.prepare(); !ready) return ready.error();
  progress.step("run", 10);
  auto profile = profile_kernel(
      context, {.workload = *workload, .seed = context.seed, .debug = request.debug, .judge = !request.debug});
  progress.done();
  if (!profile) return profile;
  write_or_show(context, profile_record(context, profile->result), request.record, profile->record,
                profile->record_problem);
  return profile;
}

std::string profile_text(const Profile& profile) {
  const auto& facts = std::get<ProfileFacts>(profile.result.facts);
  std::string text;
  if (profile.run.launches.empty()) {
    text = fmt::format("{}, workload {}, on {}\n", profile.run.project, profile.run.workload, profile.run.device);
    for (const auto& [name, value] : facts.counted) text += fmt::format("  {:<20} {:>16.6g}\n", name, value);
    for (const Finding& finding : profile.run.findings) text += fmt::format("{}\n  {}\n", finding.what, finding.fix);
  } else {
    text = profile_text(profile.run);
  }
  if (!facts.degraded.empty()) text += "Degraded: " + facts.degraded + "; time and bytes stand in for them.\n";
  if (facts.debug) text += "Debug: the kernel was not judged; this is no evidence.\n";
  if (!profile.run.findings.empty() && !facts.debug) return text;
  return text +
         (profile.run.launches.empty() ? advice_text(profile.advice, host_estimate) : advice_text(profile.advice));
}

}  // namespace flashmoe::workflow
