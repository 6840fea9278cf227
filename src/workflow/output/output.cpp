#include "workflow/output/output.hpp"

#include <algorithm>

#include "support/json_text.hpp"
#include "workflow/compare/run_compare.hpp"
#include "workflow/environment/doctor.hpp"
#include "workflow/gates/gates.hpp"
#include "workflow/gpu/profile.hpp"
#include "workflow/gpu/program.hpp"
#include "workflow/journal/gpu_json.hpp"
#include "workflow/journal/journal.hpp"
#include "workflow/journal/json.hpp"

namespace flashmoe::workflow {
namespace {

// As it was written, and as the journal found it.
Json with_standing(const Record& record) {
  Json json = parse_json(record.line);
  json["standing"] = name_of(record.standing);
  if (!record.standing_why.empty()) json["standing_why"] = record.standing_why;
  return json;
}

}  // namespace

std::string problem_json(const std::string& key, const std::string& word, const Diagnostic& problem) {
  Json json = Json::object();
  if (!key.empty()) json[key] = word;
  json["problem"] = problem.message;
  json["fix"] = problem.fix;
  return indented(json);
}

std::string doctor_json(const DoctorReport& report) {
  // The same shape as a gate's, so that one reader serves both.
  Json json = to_json(GateResult{.gate = EnvironmentFacts::gate,
                                 .outcome = report.outcome(),
                                 .summary = report.verdict,
                                 .findings = report.findings,
                                 .facts = report.facts,
                                 .seconds = report.seconds});
  json["evidence"] = to_json(evidence_on("cpu", report.facts.cpu ? report.facts.cpu->model : ""));
  return indented(json);
}

std::string devices_json() {
  return indented(known_gpus());
}

std::string new_project_json(const std::string& name, const std::string& directory,
                             const std::vector<std::string>& files) {
  return one_line({{"name", name}, {"directory", directory}, {"files", files}, {"next", "cudadent gate"}}) + "\n";
}

std::string gate_json(const GateRun& run) {
  Json json = parse_json(run.record.line);
  json["outcome"] = name_of(run.outcome);
  json["exit_code"] = exit_code(run.outcome);
  if (!run.record_problem.what.empty()) json["record_problem"] = run.record_problem.what;
  return indented(json);
}

std::string profile_json(const ProfileRun& run) {
  Json launches = Json::array();
  for (const LaunchProfile& launch : run.launches) {
    Json advice = Json::array();
    for (const Advice& one : launch.advice)
      advice.push_back({{"rule", one.rule}, {"says", one.says}, {"where", one.where}, {"fix", one.fix}});
    launches.push_back({{"kernel", launch.report.kernel},
                        {"share", launch.share},
                        {"advice", advice},
                        {"counters", parse_json(launch.report.json)}});
  }
  Json findings = Json::array();
  for (const Finding& finding : run.findings)
    findings.push_back(
        {{"check", finding.group}, {"what", finding.what}, {"where", finding.where}, {"fix", finding.fix}});
  return indented({{"project", run.project},
                   {"device", run.device},
                   {"evidence", to_json(evidence_on(run.device, ""))},
                   {"workload", run.workload},
                   {"findings", findings},
                   {"launches", launches}});
}

std::string program_json(const ProgramRun& run) {
  Json list = Json::array();
  for (const LaunchReport& launch : run.launches) list.push_back(parse_json(launch.json));
  return indented({{"device", run.device},
                   {"evidence", to_json(evidence_on(run.device, ""))},
                   {"outcome", run.outcome},
                   {"exit_code", run.exit_code},
                   {"findings", run.findings},
                   {"launches", list}});
}

std::string compare_json(const CompareReport& report) {
  Json json = parse_json(report.record.line);
  json["notes"] = report.notes;
  return indented(json);
}

std::string selftest_json(const Record& record) {
  Json json = {{"verdict", record.verdict}, {"seconds", record.seconds}};
  if (record.evidence) json["evidence"] = to_json(*record.evidence);
  json.update(to_json(std::get<SelftestRecord>(record.body)));
  return indented(json);
}

std::string record_json(const Record& record) {
  return indented(with_standing(record));
}

std::string records_json(const std::vector<Record>& records) {
  Json list = Json::array();
  for (const Record& record : records) list.push_back(with_standing(record));
  return indented(list);
}

std::string journal_state_json(const JournalState& state, const std::vector<Record>& records) {
  Json standing = Json::object();
  for (const Standing one : {Standing::chained, Standing::unchained, Standing::foreign, Standing::changed}) {
    standing[name_of(one)] =
        std::count_if(records.begin(), records.end(), [&](const Record& record) { return record.standing == one; });
  }
  return indented({{"holds", state.problems.empty()},
                   {"records", records.size()},
                   {"standing", std::move(standing)},
                   {"missing", state.missing},
                   {"damaged", state.damaged},
                   {"problems", state.problems},
                   {"notes", state.notes}});
}

std::string side_by_side_json(const SideBySide& difference) {
  const auto id = [](const std::string& text) { return text.empty() ? Json(nullptr) : Json(text); };
  Json rows = Json::array();
  for (const Difference& row : difference.differs) rows.push_back(to_json(row));
  return indented(
      {{"a", id(difference.a)}, {"b", id(difference.b)}, {"same", difference.same}, {"differs", std::move(rows)}});
}

}  // namespace flashmoe::workflow
