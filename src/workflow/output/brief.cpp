#include "workflow/output/brief.hpp"

#include "support/json.hpp"
#include "workflow/gates/gates.hpp"
#include "workflow/gates/profile_gate.hpp"
#include "workflow/gpu/profile.hpp"
#include "workflow/gpu/program.hpp"
#include "workflow/journal/listing.hpp"
#include "workflow/verdict/named.hpp"

namespace flashmoe::workflow {
namespace {

Json advice_json(const Advice& advice) {
  return {{"rule", advice.rule}, {"says", advice.says}, {"where", advice.where}, {"fix", advice.fix}};
}

// Null: none was named.
Json bottleneck_in(const GateResult& result) {
  const auto* facts = std::get_if<ProfileFacts>(&result.facts);
  if (facts == nullptr || !facts->bottleneck) return nullptr;
  const BottleneckFacts& found = *facts->bottleneck;
  return {{"rule", found.rule},   {"bottleneck", found.bottleneck}, {"says", found.says},
          {"where", found.where}, {"change", found.change},         {"counters", facts->counters}};
}

Json speeds_of(const GateRun& run) {
  Json speeds = Json::object();
  for (const GateResult& gate : run.gates) {
    const auto* measured = std::get_if<PerformanceFacts>(&gate.facts);
    if (measured == nullptr) continue;
    for (const auto& [workload, one] : measured->workloads) {
      if (!one.speed) continue;
      const RatioFacts& ratio = one.speed->ratio;
      speeds[workload] = {
          {"mean", ratio.mean}, {"lower", ratio.lower}, {"upper", ratio.upper}, {"rung", one.speed->rung}};
    }
  }
  return speeds;
}

}  // namespace

Json brief_findings(const std::vector<Finding>& findings) {
  Json list = Json::array();
  for (const Finding& finding : findings) {
    if (finding.severity != Severity::ok) list.push_back(to_json(finding));
  }
  return list;
}

Json brief_gate(const GateRun& run) {
  Json json = {{"outcome", name_of(run.outcome)}};
  if (!run.record.id.empty()) json["id"] = run.record.id;
  json["project"] = run.project;
  json["device"] = run.device;
  json["summary"] = run.summary;
  json["seconds"] = run.seconds;
  if (run.record.evidence) json["evidence"] = to_json(*run.record.evidence);
  if (!run.record_problem.what.empty()) json["record_problem"] = run.record_problem.what;
  if (Json speeds = speeds_of(run); !speeds.empty()) json["speed"] = std::move(speeds);
  json["gates"] = Json::array();
  json["findings"] = Json::array();
  for (const GateResult& gate : run.gates) {
    if (Json bottleneck = bottleneck_in(gate); !bottleneck.is_null()) json["bottleneck"] = std::move(bottleneck);
    Json one = {{"gate", gate.gate}};
    one["outcome"] = gate.not_run ? Json(nullptr) : Json(name_of(gate.outcome));
    if (!gate.code.empty()) one["code"] = gate.code;
    one["seconds"] = gate.seconds;
    json["gates"].push_back(std::move(one));
    for (Json& finding : brief_findings(gate.findings)) json["findings"].push_back(std::move(finding));
  }
  return json;
}

Json brief_profile(const Profile& profile) {
  const ProfileRun& run = profile.run;
  Json launches = Json::array();
  for (const LaunchProfile& launch : run.launches) {
    Json advice = Json::array();
    for (const Advice& one : launch.advice) advice.push_back(advice_json(one));
    launches.push_back({{"kernel", launch.report.kernel},
                        {"grid", launch.report.grid},
                        {"sms", launch.report.sms},
                        {"waves", launch.report.waves},
                        {"occupancy_percent", launch.report.occupancy_percent},
                        {"advice", std::move(advice)}});
  }
  return {{"outcome", name_of(profile.result.outcome)},
          {"project", run.project},
          {"device", run.device},
          {"workload", run.workload},
          {"summary", profile.result.summary},
          {"bottleneck", bottleneck_in(profile.result)},
          {"findings", brief_findings(profile.result.findings)},
          {"launches", std::move(launches)}};
}

Json brief_program(const ProgramRun& run) {
  Named<std::size_t> counts;
  for (const LaunchReport& launch : run.launches) {
    const std::size_t* before = find_named(counts, launch.kernel);
    put_named(counts, launch.kernel, before == nullptr ? std::size_t{1} : *before + 1);
  }
  Json launches = Json::array();
  for (const auto& [kernel, count] : counts) launches.push_back({{"kernel", kernel}, {"launches", count}});
  return {{"outcome", run.outcome},
          {"device", run.device},
          {"program_exit_code", run.program_exit_code},
          {"findings", run.findings.size()},
          {"first_findings", brief_findings(run.findings)},
          {"refused", run.refused},
          {"launches", std::move(launches)}};
}

Json brief_record(const Record& record) {
  return {{"id", record.id},
          {"time", record.time},
          {"kind", record.kind},
          {"device", record.device},
          {"verdict", record.verdict},
          {"what", detail_of(record)},
          {"standing", name_of(record.standing)}};
}

}  // namespace flashmoe::workflow
