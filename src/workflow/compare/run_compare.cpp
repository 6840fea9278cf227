#include "workflow/compare/run_compare.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <csignal>
#include <set>

#include "support/process.hpp"
#include "support/sha256.hpp"
#include "workflow/compare/measure.hpp"
#include "workflow/compare/partial.hpp"
#include "workflow/compare/versions.hpp"
#include "workflow/gates/correctness.hpp"
#include "workflow/journal/facts.hpp"
#include "workflow/journal/fields.hpp"
#include "workflow/journal/journal.hpp"
#include "workflow/machine/machine.hpp"
#include "workflow/runner/inputs.hpp"

namespace flashmoe::workflow {
namespace {

constexpr double run_alpha = 0.05;  // false keeps in a whole run
constexpr double typical_pair_seconds = 0.7;

bool unfinished(const std::string& verdict) {
  return verdict == name_of(Ending::preempted) || verdict == name_of(Ending::interrupted) ||
         verdict == name_of(Ending::out_of_time);
}

Json describe_version(const Version& version, const Runnable& kernel) {
  return {{"name", version.name},
          {"commit", version.commit.empty() ? Json(nullptr) : Json(version.commit)},
          {"dirty", version.dirty},
          {"library_sha256", kernel.content_hash}};
}

struct Prepared {
  Version base, candidate;
  Workload workload;
  PairSetup setup;  // project points into `project` of run_compare
  std::string key;
};

Result<Prepared> prepare(const CompareRequest& request, const Project& project, Progress& progress) {
  progress.step("versions", 2);
  auto base = resolve_version(project, request.base);
  if (!base) return base.error();
  auto candidate = resolve_version(project, request.candidate);
  if (!candidate) return candidate.error();
  auto workload = workload_of(project, request.workload);
  if (!workload) return workload.error();
  if (const auto same = check_comparable(*base, *candidate, *workload); !same) return same.error();

  progress.step("build", 10);
  BuildOptions options;
  options.output_root = project.directory + "/.cudadent/build";
  Prepared prepared{std::move(*base), std::move(*candidate), std::move(*workload), {}, {}};
  progress.update("base");
  auto base_kernel = make_runnable(prepared.base.project, prepared.base.project.kernel, "kernel", "base", options);
  if (!base_kernel) return base_kernel.error();
  progress.update("candidate");
  auto candidate_kernel =
      make_runnable(prepared.candidate.project, prepared.candidate.project.kernel, "kernel", "candidate", options);
  if (!candidate_kernel) return candidate_kernel.error();
  // The base's reference: a candidate is not judged by rules of its own.
  const Project& judge = prepared.base.project;
  if (judge.reference.kind != CallableKind::none) {
    progress.update("reference");
    auto reference = make_runnable(judge, judge.reference, "reference", "reference", options);
    if (!reference) return reference.error();
    prepared.setup.reference = std::move(*reference);
  }
  prepared.setup.project = &project;
  prepared.setup.workload = prepared.workload;
  prepared.setup.base = std::move(*base_kernel);
  prepared.setup.candidate = std::move(*candidate_kernel);
  prepared.setup.block_seconds = request.block_seconds;
  const Json identity = {prepared.setup.base.content_hash,
                         prepared.setup.candidate.content_hash,
                         prepared.workload.name,
                         field(machine_facts(), "host"),
                         request.block_seconds,
                         request.final_claim};
  prepared.key = sha256_hex(identity.dump()).substr(0, 16);
  return prepared;
}

// Seed and index are fixed when a comparison begins and stay when it goes on.
struct Start {
  std::uint64_t seed = 0;
  int index = 1;
  Comparison earlier{};
};

std::string run_of(const CompareRequest& request) {
  return request.run.empty() ? current_run() : request.run;
}

// Looks that were taken are spent, also when nobody wants to go on from them: they get a record before they go.
Result<Done> abandon(const CompareRequest& request, const Comparison& earlier, const Json& header, Journal& journal) {
  if (earlier.pairs.empty()) return Done{};
  Json record = to_json(earlier);
  record["kind"] = "compare";
  record["run"] = header.contains("run") ? header["run"] : Json(run_of(request));
  record["verdict"] = "ABANDONED";
  record["key"] = field(header, "key");
  record["seed"] = field(header, "seed");
  const auto written = journal.append(std::move(record));
  if (!written) return written.error();
  return Done{};
}

Result<Start> begin_or_resume(const CompareRequest& request, const Prepared& prepared, Journal& journal,
                              const PartialComparison& partial, std::vector<std::string>& notes) {
  Start start;
  if (partial.exists()) {
    Json header;
    auto earlier = partial.load(header);
    if (!earlier) return earlier.error();
    const bool usable = header.is_object() && header.contains("seed") && header["seed"].is_number_unsigned();
    if (request.resume && usable) {
      start.seed = header["seed"].get<std::uint64_t>();
      start.index = request.index > 0 ? request.index : std::max(1, static_cast<int>(number_of(header, "index")));
      start.earlier = std::move(*earlier);
      notes.push_back(fmt::format("goes on after {} calibration pairs and {} pairs",
                                  start.earlier.calibration_pairs.size(), start.earlier.pairs.size()));
      return start;
    }
    if (const auto written = abandon(request, *earlier, usable ? header : Json::object(), journal); !written) {
      return written.error();
    }
    notes.emplace_back("an unfinished comparison of these two versions was dropped; --resume would have gone on");
  } else if (request.resume) {
    notes.emplace_back("nothing to resume for these two versions: begun anew");
  }
  const auto records = journal.read();
  if (!records) return records.error();
  start.seed = request.seed.value_or(fresh_seed());
  // A claim is made on inputs that chose nothing.
  const bool seen = std::any_of(records->begin(), records->end(), [&](const Json& record) {
    return text_of(record, "kind") == "compare" && field(record, "seed") == Json(start.seed);
  });
  if (request.final_claim && seen) {
    return Diagnostic{
        .message = fmt::format("seed {} was used by an earlier comparison: a final claim needs a new one", start.seed),
        .fix = "leave --seed out"};
  }
  start.index = request.index > 0 ? request.index : next_index(*records, run_of(request));
  const auto begun =
      partial.begin({{"seed", start.seed}, {"index", start.index}, {"key", prepared.key}, {"run", run_of(request)}});
  if (!begun) return begun.error();
  return start;
}

// No timing of a candidate that is wrong. False, with `refused` saying why, when nothing is to be timed. The rules are
// the base's: its reference, its workloads, its tolerances.
bool candidate_is_right(const Prepared& prepared, std::uint64_t seed, Progress& progress, Comparison& refused) {
  if (!prepared.setup.reference) return true;
  progress.step("correctness of the candidate", 5);
  const GateResult gate =
      run_correctness_gate(prepared.base.project, prepared.setup.candidate, *prepared.setup.reference,
                           {.seed = mix_seed(seed, 0xC0), .repeat_with = seed}, progress);
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

Json record_of(const CompareRequest& request, const Project& project, const Prepared& prepared, const Start& start,
               const ComparisonPlan& plan, const Comparison& comparison, double seconds) {
  const std::string base = prepared.base.commit.empty() ? prepared.base.name : prepared.base.commit;
  const bool exact = !prepared.base.dirty && !prepared.candidate.dirty && !prepared.base.commit.empty() &&
                     !prepared.candidate.commit.empty();
  Json record = {
      {"kind", "compare"},
      {"run", run_of(request)},
      {"project", project.name},
      {"commit", prepared.candidate.commit.empty() ? Json(nullptr) : Json(prepared.candidate.commit)},
      {"dirty", prepared.candidate.dirty},
      {"device", "cpu"},
      {"seconds", seconds},
      {"cost_per_hour", {{"machine", project.cost.machine_per_hour}, {"agent", project.cost.agent_per_hour}}},
      {"hashes", {{"base", prepared.setup.base.content_hash}, {"candidate", prepared.setup.candidate.content_hash}}},
      {"key", prepared.key},
      {"note", request.note},
      {"phase", request.phase},
      {"base", describe_version(prepared.base, prepared.setup.base)},
      {"candidate", describe_version(prepared.candidate, prepared.setup.candidate)},
      {"workload", prepared.workload.name},
      {"final_claim", request.final_claim},
      {"policy",
       {{"index", start.index},
        {"alpha", plan.policy.alpha},
        {"min_gain", plan.policy.min_gain},
        {"min_pairs", plan.policy.min_pairs},
        {"max_pairs", plan.policy.max_pairs},
        {"g", plan.policy.g},
        {"block_seconds", request.block_seconds}}},
      {"seed", start.seed},
      {"recipe",
       {{"exact", exact},
        {"argv",
         {"compare", "--base", base, "--candidate",
          prepared.candidate.commit.empty() ? prepared.candidate.name : prepared.candidate.commit, "--workload",
          prepared.workload.name, "--min-gain", fmt::format("{}", plan.policy.min_gain), "--index",
          std::to_string(start.index), "--seed", std::to_string(start.seed), "--max-pairs",
          std::to_string(plan.policy.max_pairs), "--block-ms", fmt::format("{}", request.block_seconds * 1e3)}}}}};
  if (request.final_claim) record["recipe"]["argv"].push_back("--final");
  const Json measured = to_json(comparison);
  for (const auto& [key, value] : measured.items()) {
    if (key != "seconds") record[key] = value;
  }
  return record;
}

}  // namespace

Result<double> least_gain_of(const Project& project, const std::string& phase) {
  const auto& gains = project.thresholds.least_gain;
  if (const auto found = gains.find(phase); found != gains.end()) return found->second;
  std::string known;
  for (const auto& [name, gain] : gains) known += (known.empty() ? "" : ", ") + name;
  return Diagnostic{.message = "no phase '" + phase + "'; the project has " + known,
                    .fix = "--phase with one of them, or --min-gain with a number",
                    .file = project.file,
                    .key = "thresholds.least_gain"};
}

Result<Workload> workload_of(const Project& project, const std::string& name) {
  const std::string wanted = name.empty() ? project.thresholds.target_workload : name;
  for (const Workload& workload : project.workloads) {
    if (workload.name == wanted) return workload;
  }
  if (wanted.empty() && !project.workloads.empty()) return project.workloads.back();
  std::string known;
  for (const Workload& workload : project.workloads) known += (known.empty() ? "" : ", ") + workload.name;
  return Diagnostic{.message = "no workload '" + wanted + "'; the project has " + known,
                    .fix = "--workload with one of them",
                    .file = project.file};
}

int next_index(const std::vector<Json>& records, const std::string& run) {
  std::set<std::string> spent;
  for (const Json& record : records) {
    if (text_of(record, "kind") != "compare" || text_of(record, "run") != run) continue;
    if (number_of(record, "pairs_used") > 0) spent.insert(field(record, "key").dump() + field(record, "seed").dump());
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

  auto prepared = prepare(request, *project, progress);
  if (!prepared) return prepared.error();
  CompareReport report;
  if (prepared->setup.base.content_hash == prepared->setup.candidate.content_hash) {
    report.notes.emplace_back("both versions build to the same file: this is an A/A comparison");
  }
  Journal journal(project->directory);
  const PartialComparison partial(project->directory, prepared->key);
  auto start = begin_or_resume(request, *prepared, journal, partial, report.notes);
  if (!start) return start.error();
  prepared->setup.seed = start->seed;

  ComparisonPlan plan;
  plan.policy.alpha = spend_alpha(run_alpha, start->index);
  plan.policy.min_gain = min_gain;
  plan.policy.max_pairs = request.max_pairs;
  plan.limit_seconds = request.limit_seconds;
  plan.lower_bound_decides = request.final_claim;

  const auto finish = [&]() -> Result<CompareReport> {
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
    auto record = journal.append(record_of(request, *project, *prepared, *start, plan, report.comparison, seconds));
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
  report.comparison =
      compare_versions(pair_source(equal), pair_source(prepared->setup), plan, std::move(start->earlier), hooks);
  if (!stored) report.notes.push_back("pairs could not be stored: " + stored.error().to_string());
  return finish();
}

}  // namespace flashmoe::workflow
