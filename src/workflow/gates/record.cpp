#include "workflow/gates/record.hpp"

#include <fmt/format.h>

#include "support/sha256.hpp"
#include "workflow/journal/facts.hpp"
#include "workflow/journal/journal.hpp"

namespace flashmoe::workflow {
namespace {

bool is_gate_record(const Json& record) {
  return record.value("kind", "") == "gate";
}

// Baselines that a run measured and kept: only those may be compared with later.
Json accepted_baselines(const GateRun& run, const Json& facts,
                        const std::map<std::string, RecordedBaseline>& recorded) {
  Json baselines = Json::object();
  for (const GateResult& gate : run.gates) {
    if (gate.gate != "performance" || !gate.data.contains("workloads") || gate.data.contains("stopped")) continue;
    for (const auto& [name, workload] : gate.data["workloads"].items()) {
      if (!workload.contains("baseline_seconds")) continue;
      Json kept = {{"seconds", workload["baseline_seconds"]}, {"facts", facts}};
      if (const std::string version = gate.data.value("baseline_version", ""); !version.empty()) {
        kept["facts"]["baseline_version"] = version;
      }
      kept["facts"]["values"] = workload.value("values", Json::object());
      const auto before = recorded.find(name);
      if (before != recorded.end() && before->second.facts.value("values", Json()) == kept["facts"]["values"]) {
        kept = {{"seconds", before->second.seconds}, {"facts", before->second.facts}};
      }
      baselines[name] = std::move(kept);
    }
  }
  return baselines;
}

}  // namespace

std::vector<Json> read_history(const Project& project) {
  auto records = Journal(project.directory).read();
  return records ? std::move(*records) : std::vector<Json>{};
}

double recorded_seconds(const std::vector<Json>& history, const std::string& gate) {
  for (auto record = history.rbegin(); record != history.rend(); ++record) {
    if (!is_gate_record(*record) || !record->contains("gates") || !(*record)["gates"].is_array()) continue;
    for (const Json& one : (*record)["gates"]) {
      if (!one.is_object() || one.value("gate", "") != gate || !one.contains("seconds")) continue;
      if (one["seconds"].is_number() && one["seconds"] > 0) return one["seconds"];
    }
  }
  return 0;
}

std::map<std::string, RecordedBaseline> recorded_baselines(const std::vector<Json>& history,
                                                           const std::string& device) {
  std::map<std::string, RecordedBaseline> baselines;
  for (const Json& record : history) {
    if (!is_gate_record(record) || record.value("device", Json()) != device) continue;
    if (!record.contains("baselines") || !record["baselines"].is_object()) continue;
    for (const auto& [name, baseline] : record["baselines"].items()) {
      if (!baseline.is_object() || !baseline.contains("seconds") || !baseline["seconds"].is_number()) continue;
      if (!(baseline["seconds"] > 0.0)) continue;
      baselines[name] = {baseline["seconds"], record.value("id", "?"), baseline.value("facts", Json::object())};
    }
  }
  return baselines;
}

Json baseline_facts(const Project& project, const Runnable& baseline) {
  const TreeState tree = tree_state(project.directory);
  const Json& machine = machine_facts();
  Json facts = {{"commit", tree.commit.empty() ? "none" : tree.commit + (tree.dirty ? " (changed)" : "")},
                {"baseline_file", baseline.content_hash.substr(0, 12)},
                {"threads", baseline.threads}};
  for (const char* key : {"host", "cpu", "cores", "kernel", "compilers"}) {
    if (machine.contains(key)) facts[key] = machine[key];
  }
  return facts;
}

Json gate_record(const Project& project, const GateRun& run, std::uint64_t seed, int threads,
                 const std::map<std::string, BuiltCallable>& built, const Json& facts,
                 const std::map<std::string, RecordedBaseline>& recorded) {
  Json gates = Json::array();
  for (const GateResult& gate : run.gates) gates.push_back(to_json(gate));
  Json hashes = Json::object();
  for (const auto& [role, callable] : built) hashes[role] = callable.content_hash;
  for (const auto& [role, callable] :
       {std::pair{"reference", &project.reference}, std::pair{"baseline", &project.baseline}}) {
    if (callable->kind != CallableKind::python) continue;
    if (const auto hash = sha256_of_file(project.directory + "/" + callable->source)) hashes[role] = *hash;
  }
  if (const auto hash = sha256_of_file(project.file)) hashes["cudadent.toml"] = *hash;
  return {{"kind", "gate"},
          {"project", project.name},
          {"device", run.device},
          {"verdict", name_of(run.outcome)},
          {"summary", run.summary},
          {"seconds", run.seconds},
          {"cost_per_hour", {{"machine", project.cost.machine_per_hour}, {"agent", project.cost.agent_per_hour}}},
          {"seed", seed},
          {"threads", threads},
          {"hashes", hashes},
          {"baselines", accepted_baselines(run, facts, recorded)},
          {"gates", gates}};
}

}  // namespace flashmoe::workflow
