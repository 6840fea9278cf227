#include "workflow/gates/record.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "support/sha256.hpp"
#include "workflow/gates/context.hpp"
#include "workflow/gates/gates.hpp"
#include "workflow/journal/facts.hpp"
#include "workflow/journal/journal.hpp"
#include "workflow/journal/record.hpp"
#include "workflow/project/fingerprint.hpp"
#include "workflow/verdict/codes.hpp"

namespace flashmoe::workflow {
namespace {

// Baselines that a run measured and kept: only those may be compared with later. A recorded one stays what it was
// until someone accepts another: many small drifts would add up unseen.
Named<BaselineRecord> accepted_baselines(const GateContext& context, const GateRun& run) {
  const auto recorded = context.options.accept_baseline ? std::map<std::string, RecordedBaseline>{}
                                                        : recorded_baselines(context.history, run.device);
  Named<BaselineRecord> baselines;
  for (const GateResult& gate : run.gates) {
    const auto* measured = std::get_if<PerformanceFacts>(&gate.facts);
    if (measured == nullptr || !gate.stopped.empty()) continue;
    for (const auto& [name, workload] : measured->workloads) {
      if (!workload.speed) continue;
      BaselineRecord kept{.seconds = workload.speed->baseline_seconds, .facts = context.facts};
      if (!measured->baseline_version.value_or("").empty()) kept.facts.baseline_version = measured->baseline_version;
      kept.facts.values = workload.values;
      const auto before = recorded.find(name);
      if (before != recorded.end() && before->second.facts.values == kept.facts.values) {
        kept = {.seconds = before->second.seconds, .facts = before->second.facts};
      }
      put_named(baselines, name, std::move(kept));
    }
  }
  return baselines;
}

Recipe recipe_of(const GateContext& context, const GateRun& run) {
  const GateOptions& options = context.options;
  Recipe recipe{.argv = {"gate", "--device", run.device, "--seed", std::to_string(context.seed), "--threads",
                         std::to_string(options.threads), "--limit",
                         fmt::format("{}", options.limit_seconds_per_workload)}};
  if (!options.only.empty()) recipe.argv.insert(recipe.argv.end(), {"--only", options.only});
  if (!options.until.empty()) recipe.argv.insert(recipe.argv.end(), {"--until", options.until});
  if (options.accept_baseline) recipe.argv.emplace_back("--accept-baseline");
  return recipe;
}

}  // namespace

std::vector<Record> read_history(const Project& project) {
  auto records = Journal(project.directory).read();
  if (!records) return {};
  std::erase_if(*records, [](const Record& record) { return !is_usable(record); });
  return std::move(*records);
}

double recorded_seconds(const std::vector<Record>& history, const std::string& gate) {
  for (auto record = history.rbegin(); record != history.rend(); ++record) {
    const auto* run = record->as<GateRecord>();
    if (run == nullptr) continue;
    for (const GateResult& one : run->gates) {
      if (one.gate == gate && one.seconds > 0) return one.seconds;
    }
  }
  return 0;
}

std::map<std::string, RecordedBaseline> recorded_baselines(const std::vector<Record>& history,
                                                           const std::string& device) {
  std::map<std::string, RecordedBaseline> baselines;
  for (const Record& record : history) {
    const auto* run = record.as<GateRecord>();
    if (run == nullptr || record.device != device) continue;
    for (const auto& [name, baseline] : run->baselines) {
      if (baseline.seconds > 0) baselines[name] = {baseline.seconds, record.id, baseline.facts};
    }
  }
  return baselines;
}

int next_look(const std::vector<Record>& history, const std::string& device, const std::string& kernel_hash) {
  const auto came_to_a_figure = [](const GateResult& gate) {
    const auto* measured = std::get_if<PerformanceFacts>(&gate.facts);
    return measured != nullptr && std::any_of(measured->workloads.begin(), measured->workloads.end(),
                                              [](const auto& workload) { return workload.second.speed.has_value(); });
  };
  const auto looks = std::count_if(history.begin(), history.end(), [&](const Record& record) {
    const auto* run = record.as<GateRecord>();
    const std::string* hash = find_named(record.hashes, "kernel");
    return run != nullptr && hash != nullptr && record.device == device && *hash == kernel_hash &&
           std::any_of(run->gates.begin(), run->gates.end(), came_to_a_figure);
  });
  return static_cast<int>(looks) + 1;
}

BaselineFacts baseline_facts(const Project& project, const Runnable& baseline) {
  const TreeState tree = tree_state(project.directory);
  const MachineFacts& machine = machine_facts();
  return {.commit = tree.commit.empty() ? "none" : tree.commit + (tree.dirty ? " (changed)" : ""),
          .baseline_file = baseline.content_hash.substr(0, 12),
          .threads = baseline.threads,
          .host = machine.host,
          .cpu = machine.cpu,
          .cores = machine.cores,
          .kernel = machine.kernel,
          .compilers = machine.compilers};
}

Named<std::string> hashes_of(const GateContext& context) {
  const Project& project = context.project;
  Named<std::string> hashes;
  for (const auto& [role, callable] : context.built) put_named(hashes, role, callable.content_hash);
  for (const auto& [role, callable] : {std::pair{"kernel", &project.kernel}, std::pair{"reference", &project.reference},
                                       std::pair{"baseline", &project.baseline}}) {
    if (callable->kind != CallableKind::python) continue;
    if (auto hash = sha256_of_file(project.directory + "/" + callable->source)) put_named(hashes, role, *hash);
  }
  if (auto hash = sha256_of_file(project.file)) put_named(hashes, "cudadent.toml", *hash);
  put_named(hashes, hash_of_sources, sources_hash(project));
  return hashes;
}

void write_or_show(const GateContext& context, const Record& record, bool write, Record& written, Finding& problem) {
  if (write) {
    auto appended = Journal(context.project.directory).append(record);
    if (appended) {
      written = std::move(*appended);
      return;
    }
    problem = {.severity = Severity::warning,
               .group = "record",
               .what = "no record was written: " + appended.error().message,
               .fix = appended.error().fix,
               .code = codes::record_not_written};
  }
  written = unwritten(record);
}

Record gate_record(const GateContext& context, const GateRun& run) {
  const Project& project = context.project;
  Record record;
  record.project = project.name;
  record.device = run.device;
  record.verdict = name_of(run.outcome);
  record.seconds = run.seconds;
  record.hashes = hashes_of(context);
  record.body = GateRecord{.summary = run.summary,
                           .cost_per_hour = Prices{project.cost.machine_per_hour, project.cost.agent_per_hour},
                           .seed = context.seed,
                           .threads = context.options.threads,
                           .point = project.point,
                           .recipe = recipe_of(context, run),
                           .baselines = accepted_baselines(context, run),
                           .gates = run.gates};
  return record;
}

}  // namespace flashmoe::workflow
