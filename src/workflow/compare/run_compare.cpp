#include "workflow/compare/run_compare.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <csignal>
#include <set>
#include <utility>

#include "support/clock.hpp"
#include "support/process.hpp"
#include "workflow/compare/measure.hpp"
#include "workflow/compare/outcome.hpp"
#include "workflow/compare/versions.hpp"
#include "workflow/device/capabilities.hpp"
#include "workflow/device/card.hpp"
#include "workflow/device/card_watch.hpp"
#include "workflow/gates/correctness.hpp"
#include "workflow/gates/runnable.hpp"
#include "workflow/gpu/launches.hpp"
#include "workflow/journal/facts.hpp"
#include "workflow/journal/journal.hpp"
#include "workflow/journal/partial.hpp"
#include "workflow/machine/machine.hpp"
#include "workflow/project/fingerprint.hpp"
#include "workflow/runner/inputs.hpp"
#include "workflow/verdict/codes.hpp"

namespace flashmoe::workflow {
namespace {

constexpr double typical_pair_seconds = 0.7;
constexpr const char* rehearsal_word = "REHEARSAL";

bool unfinished(const std::string& verdict) {
  return verdict == name_of(Ending::preempted) || verdict == name_of(Ending::interrupted) ||
         verdict == name_of(Ending::out_of_time);
}

VersionRecord describe_version(const Version& version, const std::string& content_hash) {
  VersionRecord record{.name = version.name, .dirty = version.dirty, .library_sha256 = content_hash};
  if (!version.commit.empty()) record.commit = version.commit;
  return record;
}

// What a recipe calls it, and whether that means the same for ever.
std::string lasting_name(const Version& version) {
  return version.commit.empty() ? version.name : version.commit;
}
bool is_commit(const Version& version) {
  return !version.dirty && !version.commit.empty();
}

struct Sides {
  Version base, candidate;
  Workload workload;
};

Result<Sides> resolve_sides(const CompareRequest& request, const Project& project, Progress& progress) {
  progress.step("versions", 2);
  auto base = resolve_version(project, request.base);
  if (!base) return base.error();
  auto candidate = resolve_version(project, request.candidate);
  if (!candidate) return candidate.error();
  auto workload = workload_of(project, request.workload);
  if (!workload) return workload.error();
  if (const auto same = check_comparable(*base, *candidate, *workload); !same) return same.error();
  return Sides{std::move(*base), std::move(*candidate), std::move(*workload)};
}

// What the candidate is held against does not build: no verdict on the candidate.
Diagnostic of_the_judge(Diagnostic problem) {
  problem.code = build_code("reference", problem);
  return problem;
}

struct Prepared {
  Version base, candidate;
  Workload workload;
  PairSetup setup;  // project points into `project` of run_compare
  std::string key;
  std::string device;
  Fingerprint base_files, candidate_files;  // before anything was built or run
};

// A verdict on files that are no longer there is none.
void doubt_if_files_changed(const Prepared& prepared, Comparison& comparison) {
  std::string list;
  for (const auto& [version, before] :
       {std::pair{&prepared.base, &prepared.base_files}, std::pair{&prepared.candidate, &prepared.candidate_files}}) {
    for (const std::string& change : changes(*before, fingerprint_of(version->project))) {
      list += fmt::format("{}{} ({})", list.empty() ? "" : ", ", change, version->name);
    }
  }
  if (list.empty() || comparison.ending != Ending::decided) return;
  comparison.verdict.decision = Decision::inconclusive;
  comparison.problem = {.message = "files of the project changed during the comparison: " + list,
                        .fix = "let nothing write to the project, and compare again"};
}

// A version's kernel where it is to run.
Result<Runnable> kernel_of(const Version& version, const DeviceSelector& device, const std::string& label,
                           const BuildOptions& options, Progress& progress) {
  if (!capabilities_of(device).is_card)
    return make_runnable(version.project, version.project.kernel, "kernel", label, options);
  auto kernel = gpu_runnable(version.project, device, {}, progress);
  if (kernel) kernel->label = label;
  return kernel;
}

// The rules of `rules` over the tensors of the candidate, and the scratch of either.
Project judge_over_both(const Project& rules, const Prepared& prepared) {
  Project judge = judge_of(rules, prepared.candidate.project);
  for (const TensorSpec& tensor : prepared.base.project.tensors) {
    const bool known = std::any_of(judge.tensors.begin(), judge.tensors.end(),
                                   [&](const TensorSpec& one) { return one.name == tensor.name; });
    if (!known && tensor.role == TensorRole::scratch) judge.tensors.push_back(tensor);
  }
  return judge;
}

// Launches count tensors: both sides as the judge does.
Result<Done> count_tensors_as(const Project& judge, Prepared& prepared) {
  for (auto [version, kernel] :
       {std::pair{&prepared.base, &prepared.setup.base}, std::pair{&prepared.candidate, &prepared.setup.candidate}}) {
    auto counted = counted_as(*kernel, version->project, judge);
    if (!counted) return counted.error();
    *kernel = std::move(*counted);
  }
  return Done{};
}

// A card that is held back, or serves somebody else, decides nothing.
void doubt_card(const CardWatch& watch, Comparison& comparison) {
  const std::vector<std::string> doubts = watch.doubts_since_begun();
  if (doubts.empty() || comparison.ending != Ending::decided) return;
  comparison.verdict.decision = Decision::inconclusive;
  comparison.problem = {.message = doubts.front() + ": its times are not its own",
                        .fix = "let it cool down, let nobody else use it, and compare again"};
}

Result<Prepared> prepare(const CompareRequest& request, const Project& project, const DeviceSelector& device,
                         Progress& progress) {
  auto sides = resolve_sides(request, project, progress);
  if (!sides) return sides.error();

  progress.step("build", 10);
  BuildOptions options;
  options.output_root = project.directory + "/.cudadent/build";
  Prepared prepared{
      std::move(sides->base), std::move(sides->candidate), std::move(sides->workload), {}, {}, {}, {}, {}};
  prepared.device = device.to_string();
  prepared.base_files = fingerprint_of(prepared.base.project);
  prepared.candidate_files = fingerprint_of(prepared.candidate.project);
  progress.update("base");
  auto base_kernel = kernel_of(prepared.base, device, "base", options, progress);
  if (!base_kernel) return of_the_judge(base_kernel.error());
  progress.update("candidate");
  auto candidate_kernel = kernel_of(prepared.candidate, device, "candidate", options, progress);
  if (!candidate_kernel) return candidate_kernel.error();
  // The base's reference: a candidate is not judged by rules of its own.
  const Project& judge = prepared.base.project;
  if (judge.reference.kind != CallableKind::none) {
    progress.update("reference");
    auto reference = make_runnable(judge, judge.reference, "reference", "reference", options);
    if (!reference) return of_the_judge(reference.error());
    prepared.setup.reference = std::move(*reference);
  }
  prepared.setup.workload = prepared.workload;
  prepared.setup.base = std::move(*base_kernel);
  prepared.setup.candidate = std::move(*candidate_kernel);
  prepared.setup.block_seconds = request.block_seconds;
  std::optional<std::string> where = machine_facts().host;
  if (capabilities_of(device).is_card) where = where.value_or("") + " " + prepared.device;
  prepared.key = comparison_key({.base_sha256 = prepared.setup.base.content_hash,
                                 .candidate_sha256 = prepared.setup.candidate.content_hash,
                                 .workload = prepared.workload.name,
                                 .host = where,
                                 .block_seconds = request.block_seconds,
                                 .final_claim = request.final_claim});
  return prepared;
}

// Seed and index are fixed when a comparison begins and stay when it goes on.
struct Start {
  std::uint64_t seed = 0;
  int index = 1;
  std::optional<int> counted{};  // what the journal says where the user said something else
  Comparison earlier{};
};

std::string run_of(const CompareRequest& request) {
  return request.run.empty() ? current_run() : request.run;
}

// Looks that were taken are spent, also when nobody wants to go on from them: they get a record before they go.
Result<Done> abandon(const CompareRequest& request, const Comparison& earlier, const PartialHeader& header,
                     Journal& journal) {
  if (earlier.pairs.empty()) return Done{};
  CompareRecord measured = measured_record(earlier);
  measured.key = header.key;
  measured.seed = header.seed;
  Record record;
  record.run = header.run.value_or(run_of(request));
  record.verdict = "ABANDONED";
  record.seconds = earlier.seconds;
  record.body = std::move(measured);
  const auto written = journal.append(std::move(record));
  if (!written) return written.error();
  return Done{};
}

Result<Start> begin_or_resume(const CompareRequest& request, const Prepared& prepared, Journal& journal,
                              const PartialComparison& partial, std::vector<std::string>& notes) {
  Start start;
  if (partial.exists()) {
    auto stored = partial.load();
    if (!stored) return stored.error();
    const PartialHeader& header = stored->header;
    if (request.resume && header.seed) {
      start.seed = *header.seed;
      start.index = request.index > 0 ? request.index : std::max(1, header.index);
      start.earlier = std::move(stored->comparison);
      notes.push_back(fmt::format("goes on after {} calibration pairs and {} pairs",
                                  start.earlier.calibration_pairs.size(), start.earlier.pairs.size()));
      return start;
    }
    const auto written = abandon(request, stored->comparison, header.seed ? header : PartialHeader{}, journal);
    if (!written) return written.error();
    notes.emplace_back("an unfinished comparison of these two versions was dropped; --resume would have gone on");
  } else if (request.resume) {
    notes.emplace_back("nothing to resume for these two versions: begun anew");
  }
  JournalState state;
  const auto records = journal.read(&state);
  if (!records) return records.error();
  if (state.missing > 0) {
    notes.push_back(
        fmt::format("{} records of this journal are missing: looks that were taken may not be counted, and "
                    "alpha may be spent twice (cudadent journal --check)",
                    state.missing));
  }
  start.seed = request.seed.value_or(fresh_seed());
  // A claim is made on inputs that chose nothing.
  const bool seen = std::any_of(records->begin(), records->end(), [&](const Record& record) {
    const auto* comparison = record.as<CompareRecord>();
    return comparison != nullptr && comparison->seed == start.seed;
  });
  if (request.final_claim && seen) {
    return Diagnostic{
        .message = fmt::format("seed {} was used by an earlier comparison: a final claim needs a new one", start.seed),
        .fix = "leave --seed out",
        .code = codes::usage_seed};
  }
  start.index = next_index(*records, run_of(request));
  if (request.index > 0 && request.index != start.index) {
    start.counted = std::exchange(start.index, request.index);
    notes.push_back(
        fmt::format("--index {}, but the journal counts {} for run {}", start.index, *start.counted, run_of(request)));
  }
  const auto begun =
      partial.begin({.seed = start.seed, .index = start.index, .key = prepared.key, .run = run_of(request)});
  if (!begun) return begun.error();
  return start;
}

// No timing of a candidate that is wrong. False, with `refused` saying why, when nothing is to be timed. The rules are
// the base's: its reference, its workloads, its tolerances.
bool candidate_is_right(const Prepared& prepared, std::uint64_t seed, Progress& progress, Comparison& refused) {
  if (!prepared.setup.reference) return true;
  progress.step("correctness of the candidate", 5);
  const GateResult gate =
      run_correctness_gate(judge_over_both(prepared.base.project, prepared), prepared.setup.candidate,
                           *prepared.setup.reference, {.seed = mix_seed(seed, 0xC0), .repeat_with = seed}, progress);
  if (gate.outcome == Outcome::holds) return true;
  std::string message = "the candidate is not correct, so it was not timed: ";
  refused.ending = Ending::candidate_failed;
  if (interrupted()) {
    refused.ending = interrupt_signal() == SIGTERM ? Ending::preempted : Ending::interrupted;
    message = "stopped in the correctness gate: ";
  } else if (gate.outcome != Outcome::fails) {
    refused.ending = gate.outcome == Outcome::inconclusive ? Ending::out_of_time : Ending::base_failed;
    message = "the candidate could not be checked, so it was not timed: ";
  }
  refused.problem.message = message + gate.summary;
  if (!gate.findings.empty()) {
    const Finding& last = gate.findings.back();
    if (!last.where.empty()) refused.problem.message += " (" + last.where + ")";
    refused.problem.fix = last.fix;
  }
  return false;
}

Recipe recipe_for(const CompareRequest& request, const Prepared& prepared, const Start& start,
                  const ComparePolicy& policy) {
  Recipe recipe{
      .exact = is_commit(prepared.base) && is_commit(prepared.candidate),
      .argv = {"compare", "--base", lasting_name(prepared.base), "--candidate", lasting_name(prepared.candidate),
               "--workload", prepared.workload.name, "--min-gain", fmt::format("{}", policy.min_gain), "--index",
               std::to_string(start.index), "--seed", std::to_string(start.seed), "--max-pairs",
               std::to_string(policy.max_pairs), "--block-ms", fmt::format("{}", request.block_seconds * 1e3),
               "--limit", fmt::format("{}", request.limit_seconds)}};
  if (prepared.setup.candidate.by_events) recipe.argv.insert(recipe.argv.end(), {"--device", prepared.device});
  if (!request.phase.empty()) recipe.argv.insert(recipe.argv.end(), {"--phase", request.phase});
  if (request.final_claim) recipe.argv.emplace_back("--final");
  return recipe;
}

Record record_of(const CompareRequest& request, const Project& project, const Prepared& prepared, const Start& start,
                 const ComparisonPlan& plan, const Comparison& comparison, double seconds) {
  CompareRecord measured = measured_record(comparison);
  measured.cost_per_hour = Prices{project.cost.machine_per_hour, project.cost.agent_per_hour};
  measured.key = prepared.key;
  measured.note = request.note;
  measured.phase = request.phase;
  measured.base = describe_version(prepared.base, prepared.setup.base.content_hash);
  measured.candidate = describe_version(prepared.candidate, prepared.setup.candidate.content_hash);
  measured.workload = prepared.workload.name;
  measured.final_claim = request.final_claim;
  measured.policy = PolicyRecord{.index = start.index,
                                 .alpha = plan.policy.alpha,
                                 .min_gain = plan.policy.min_gain,
                                 .min_pairs = plan.policy.min_pairs,
                                 .max_pairs = plan.policy.max_pairs,
                                 .g = plan.policy.g,
                                 .block_seconds = request.block_seconds,
                                 .counted = start.counted};
  measured.seed = start.seed;
  measured.recipe = recipe_for(request, prepared, start, plan.policy);
  Record record;
  record.run = run_of(request);
  record.project = project.name;
  record.commit = prepared.candidate.commit;
  record.dirty = prepared.candidate.dirty;
  record.verdict = comparison.word();
  record.seconds = seconds;
  record.hashes = {{"base", prepared.setup.base.content_hash}, {"candidate", prepared.setup.candidate.content_hash}};
  record.body = std::move(measured);
  return record;
}

// On a device without a clock: the counters of both.
Result<CompareReport> count_both(const CompareRequest& request, const Project& project, const DeviceSelector& device,
                                 Progress& progress) {
  const auto began = std::chrono::steady_clock::now();
  const auto sides = resolve_sides(request, project, progress);
  if (!sides) return sides.error();
  const auto& [base, candidate, workload] = *sides;
  const std::uint64_t seed = request.seed.value_or(fresh_seed());
  const auto least_gain = request.min_gain ? Result<double>(*request.min_gain) : least_gain_of(project, request.phase);
  if (!least_gain) return least_gain.error();
  auto counted = compare_counters(
      base, candidate, {.device = device, .workload = workload.name, .seed = seed, .least_gain = *least_gain},
      progress);
  if (!counted) return counted.error();

  CompareReport report{.counters = std::move(*counted)};
  Record record;
  record.run = run_of(request);
  record.project = project.name;
  record.commit = candidate.commit;
  record.dirty = candidate.dirty;
  record.device = device.to_string();
  record.verdict = report.counters->word();
  if (report.counters->predicted) record.evidence = Evidence{.kind = predicted_evidence, .where = device.gpu};
  record.seconds = seconds_since(began);
  record.body = CompareRecord{
      .cost_per_hour = Prices{project.cost.machine_per_hour, project.cost.agent_per_hour},
      .note = request.note,
      .base = describe_version(base, report.counters->base_hash),
      .candidate = describe_version(candidate, report.counters->candidate_hash),
      .workload = workload.name,
      .seed = seed,
      .recipe = Recipe{.exact = is_commit(base) && is_commit(candidate),
                       .argv = {"compare", "--device", device.to_string(), "--base", lasting_name(base), "--candidate",
                                lasting_name(candidate), "--workload", workload.name, "--min-gain",
                                fmt::format("{}", *least_gain), "--seed", std::to_string(seed)}},
      .counters = report.counters->changes,
      .predicted = report.counters->predicted,
      .not_predicted = report.counters->not_predicted,
      .problem = report.counters->correctness.outcome == Outcome::holds ? "" : report.counters->correctness.summary};
  auto written = Journal(project.directory).append(std::move(record));
  if (!written) return written.error();
  report.record = std::move(*written);
  progress.done();
  return report;
}

}  // namespace

namespace {

// Times decided, and they are nobody's.
bool is_rehearsed(const CompareReport& report) {
  return report.rehearsal && report.comparison.ending == Ending::decided;
}

}  // namespace

std::string CompareReport::word() const {
  if (counters) return counters->word();
  return is_rehearsed(*this) ? rehearsal_word : comparison.word();
}

Outcome CompareReport::outcome() const {
  if (counters) return counters->outcome();
  return is_rehearsed(*this) ? Outcome::inconclusive : outcome_of(comparison);
}

std::string CompareReport::code() const {
  if (counters) return counters->code();
  return is_rehearsed(*this) ? codes::performance_rehearsal : code_of(comparison);
}

Result<double> least_gain_of(const Project& project, const std::string& phase) {
  const auto& gains = project.thresholds.least_gain;
  if (const auto found = gains.find(phase); found != gains.end()) return found->second;
  std::string known;
  for (const auto& [name, gain] : gains) known += (known.empty() ? "" : ", ") + name;
  return Diagnostic{.message = "no phase '" + phase + "'; the project has " + known,
                    .fix = "--phase with one of them, or --min-gain with a number",
                    .file = project.file,
                    .key = "thresholds.least_gain",
                    .code = codes::usage_phase};
}

Result<Workload> workload_of(const Project& project, const std::string& name) {
  if (const Workload* found = name.empty() ? target_workload(project) : find_workload(project, name)) return *found;
  return Diagnostic{.message = "no workload '" + name + "'; the project has " + workload_names(project),
                    .fix = "--workload with one of them",
                    .file = project.file,
                    .code = codes::usage_workload};
}

int next_index(const std::vector<Record>& records, const std::string& run) {
  std::set<std::string> spent;
  for (const Record& record : records) {
    const auto* comparison = record.as<CompareRecord>();
    if (comparison == nullptr || record.run != run) continue;
    if (comparison->pairs_used > 0) spent.insert(comparison->identity());
  }
  return static_cast<int>(spent.size()) + 1;
}

Result<CompareReport> run_compare(const CompareRequest& request, Progress& progress) {
  const auto began = std::chrono::steady_clock::now();
  const auto project = load_project(request.project);
  if (!project) return project.error();
  double min_gain = 0;
  if (request.min_gain) {
    min_gain = *request.min_gain;
  } else {
    const auto least = least_gain_of(*project, request.phase);
    if (!least) return least.error();
    min_gain = *least;
  }
  const auto machine = ask_machine(project->machine, project->directory);
  if (!machine) return machine.error();
  if (machine->state == MachineState::stopped) return machine_is_stopped(project->machine, *machine);

  const auto device = select_device(request.device);
  if (!device) return device.error();
  if (const auto available = device_available(*device); !available) return available.error();
  const Capabilities can = capabilities_of(*device);
  if (can.clock == ClockKind::none) return count_both(request, *project, *device, progress);

  auto prepared = prepare(request, *project, *device, progress);
  if (!prepared) return prepared.error();
  CompareReport report{.rehearsal = can.clock == ClockKind::rehearsed};
  if (prepared->setup.base.content_hash == prepared->setup.candidate.content_hash) {
    report.notes.emplace_back("both versions build to the same file: this is an A/A comparison");
  }
  Journal journal(project->directory);
  const PartialComparison partial(project->directory, prepared->key);
  auto start = begin_or_resume(request, *prepared, journal, partial, report.notes);
  if (!start) return start.error();
  prepared->setup.seed = start->seed;
  const Project judge = judge_over_both(*project, *prepared);
  if (can.is_card) {
    if (const auto counted = count_tensors_as(judge, *prepared); !counted) return counted.error();
  }
  prepared->setup.project = &judge;

  ComparisonPlan plan;
  plan.policy.alpha = spend_alpha(run_alpha, start->index);
  plan.policy.min_gain = min_gain;
  plan.policy.max_pairs = request.max_pairs;
  plan.limit_seconds = request.limit_seconds;
  plan.lower_bound_decides = request.final_claim;

  const auto finish = [&]() -> Result<CompareReport> {
    Record made = record_of(request, *project, *prepared, *start, plan, report.comparison, seconds_since(began));
    made.device = device->to_string();
    made.verdict = report.word();
    auto record = journal.append(std::move(made));
    if (!record) return record.error();
    report.record = std::move(*record);
    if (!unfinished(report.comparison.word())) partial.forget();
    progress.done();
    return std::move(report);
  };
  Comparison refused = start->earlier;
  if (!candidate_is_right(*prepared, start->seed, progress, refused)) {
    report.comparison = std::move(refused);
    return finish();
  }

  PairSetup equal = prepared->setup;
  equal.candidate = equal.base;
  equal.seed = mix_seed(start->seed, 0xAA);
  progress.step("calibrate A/A", plan.calibration_pairs * typical_pair_seconds);
  bool calibrating = true;
  Result<Done> stored = Done{};
  ComparisonHooks hooks;
  hooks.after_pair = [&](bool calibration, const PairSample& sample, const Verdict& so_far) {
    if (auto added = partial.add(calibration, sample); !added) stored = added;
    if (calibrating && !calibration) {
      calibrating = false;
      progress.step("compare", plan.policy.max_pairs * typical_pair_seconds);
    }
    if (calibration) {
      progress.update(fmt::format("pair {:+.2f} %", 100 * std::expm1(sample.log_ratio)));
    } else {
      progress.update(fmt::format("pair {}/{}  gain {:+.2f} %", so_far.pairs, plan.policy.max_pairs,
                                  100 * std::expm1(so_far.interval.mean)),
                      static_cast<double>(so_far.pairs) / plan.policy.max_pairs);
    }
  };
  std::optional<CardWatch> watch;
  if (can.is_card) {
    const auto card = card_of(*device);
    if (!card) return card.error();
    watch.emplace(*card);
  }
  report.comparison =
      compare_versions(pair_source(equal), pair_source(prepared->setup), plan, std::move(start->earlier), hooks);
  doubt_if_files_changed(*prepared, report.comparison);
  if (watch) doubt_card(*watch, report.comparison);
  if (!stored) report.notes.push_back("pairs could not be stored: " + stored.error().to_string());
  return finish();
}

}  // namespace flashmoe::workflow
