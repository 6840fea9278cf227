#include "workflow/output/output.hpp"

#include <algorithm>
#include <iterator>

#include "support/json_text.hpp"
#include "workflow/compare/run_compare.hpp"
#include "workflow/environment/doctor.hpp"
#include "workflow/gates/gates.hpp"
#include "workflow/gates/profile_gate.hpp"
#include "workflow/gpu/explain.hpp"
#include "workflow/gpu/profile.hpp"
#include "workflow/gpu/program.hpp"
#include "workflow/journal/flashinfer_trace.hpp"
#include "workflow/journal/gpu_json.hpp"
#include "workflow/journal/heading.hpp"
#include "workflow/journal/journal.hpp"
#include "workflow/journal/json.hpp"
#include "workflow/journal/merge.hpp"
#include "workflow/output/brief.hpp"
#include "workflow/trial/trial.hpp"
#include "workflow/verdict/codes.hpp"

namespace flashmoe::workflow {
namespace {

// As it was written, and as the journal found it.
Json with_standing(const Record& record) {
  Json json = parse_json(record.line);
  json["standing"] = name_of(record.standing);
  if (!record.standing_why.empty()) json["standing_why"] = record.standing_why;
  return json;
}

Json problem_of(const Diagnostic& problem) {
  Json json = {{"code", row_of(problem.code).code}, {"message", problem.message}, {"fix", problem.fix}};
  if (!problem.file.empty()) json["file"] = problem.file;
  if (problem.line > 0) json["line"] = problem.line;
  if (problem.column > 0) json["column"] = problem.column;
  if (!problem.key.empty()) json["key"] = problem.key;
  return json;
}

}  // namespace

std::string error_json(const Answer& answer, const Diagnostic& problem) {
  Json errors = Json::array({problem_of(problem)});
  for (const Diagnostic& other : problem.more) errors.push_back(problem_of(other));
  return written(
      answer,
      {{"outcome", name_of(Outcome::could_not_run)}, {"error", problem_of(problem)}, {"errors", std::move(errors)}});
}

std::string doctor_json(const Answer& answer, const DoctorReport& report) {
  const Json evidence = to_json(evidence_on("cpu", report.facts.cpu ? report.facts.cpu->model : ""));
  if (answer.is_short) {
    return written(answer, {{"outcome", name_of(report.outcome())},
                            {"summary", report.verdict},
                            {"seconds", report.seconds},
                            {"evidence", evidence},
                            {"findings", brief_findings(report.findings)}});
  }
  // The same shape as a gate's, so that one reader serves both.
  Json json = to_json(GateResult{.gate = EnvironmentFacts::gate,
                                 .outcome = report.outcome(),
                                 .summary = report.verdict,
                                 .findings = report.findings,
                                 .facts = report.facts,
                                 .seconds = report.seconds});
  json["evidence"] = evidence;
  return written(answer, json);
}

std::string devices_json(const Answer& answer) {
  Json devices = known_gpus();
  if (answer.is_short) {
    for (Json& gpu : devices) gpu = picked(gpu, {"id", "name", "architecture"});
  }
  return written(answer, {{"devices", std::move(devices)}});
}

std::string new_project_json(const Answer& answer, const std::string& name, const std::string& directory,
                             const std::vector<std::string>& files) {
  return written(answer, {{"name", name}, {"directory", directory}, {"files", files}});
}

std::string gate_json(const Answer& answer, const GateRun& run) {
  if (answer.is_short) return written(answer, brief_gate(run));
  Json json = parse_json(run.record.line);
  json["outcome"] = name_of(run.outcome);
  if (!run.record_problem.what.empty()) json["record_problem"] = run.record_problem.what;
  return written(answer, json);
}

std::string profile_json(const Answer& answer, const Profile& profile) {
  if (answer.is_short) return written(answer, brief_profile(profile));
  const ProfileRun& run = profile.run;
  Json launches = Json::array();
  for (const LaunchProfile& launch : run.launches) {
    Json advice = Json::array();
    for (const Advice& one : launch.advice)
      advice.push_back({{"rule", one.rule}, {"says", one.says}, {"where", one.where}, {"fix", one.fix}});
    launches.push_back({{"kernel", launch.report.kernel},
                        {"share", launch.share},
                        {"advice", advice},
                        {"counters", parse_json(launch.report.json)}});
    Json& unasked = launches.back()["unasked"] = Json::array();
    for (const UnaskedRule& one : launch.unasked) unasked.push_back({{"rule", one.rule}, {"missing", one.missing}});
    if (unasked.empty()) launches.back().erase("unasked");
  }
  Json findings = Json::array();
  for (const Finding& finding : run.findings)
    findings.push_back({{"check", finding.group},
                        {"code", finding.code},
                        {"what", finding.what},
                        {"where", finding.where},
                        {"fix", finding.fix}});
  Json json = {{"outcome", name_of(profile.result.outcome)}};
  if (!profile.record.id.empty()) json["id"] = profile.record.id;
  json["project"] = run.project;
  json["device"] = run.device;
  json["evidence"] = to_json(profile.record.evidence.value_or(evidence_on(run.device, "")));
  json["workload"] = run.workload;
  json["summary"] = profile.result.summary;
  json["profile"] = to_json(profile.result)["data"];
  json["findings"] = std::move(findings);
  json["launches"] = std::move(launches);
  if (!profile.record_problem.what.empty()) json["record_problem"] = profile.record_problem.what;
  return written(answer, json);
}

std::string program_json(const Answer& answer, const ProgramRun& run) {
  if (answer.is_short) return written(answer, brief_program(run));
  Json list = Json::array();
  for (const LaunchReport& launch : run.launches) list.push_back(parse_json(launch.json));
  return written(answer, {{"device", run.device},
                          {"clock", run.clock},
                          {"evidence", to_json(evidence_on(run.device, ""))},
                          {"outcome", run.outcome},
                          {"program_exit_code", run.program_exit_code},
                          {"findings", run.findings.size()},
                          {"refused", run.refused},
                          {"launches", list}});
}

std::string explanation_json(const Answer& answer, const Explanation& explanation) {
  Json missing = Json::array(), libraries = Json::array(), cannot_run = Json::array();
  for (const Finding& finding : explanation.lacks) missing.push_back(to_json(finding));
  for (const NeededLibrary& library : explanation.libraries) {
    libraries.push_back({{"name", library.name},
                         {"path", library.path.empty() ? Json() : Json(library.path)},
                         {"is_ours", library.is_ours}});
  }
  for (const NeededKernel& kernel : explanation.kernels) {
    if (!kernel.why.empty())
      cannot_run.push_back({{"kernel", kernel.name}, {"file", kernel.file}, {"why", kernel.why}});
  }
  Json environment = Json::object();
  for (const std::string& setting : explanation.environment) {
    const std::size_t equals = setting.find('=');
    environment[setting.substr(0, equals)] = setting.substr(equals + 1);
  }
  return written(answer, {{"program", explanation.program},
                          {"runtime", explanation.runtime},
                          {"missing", missing},
                          {"kernels", explanation.kernels.size()},
                          {"cannot_run", cannot_run},
                          {"libraries", libraries},
                          {"notes", explanation.notes},
                          {"environment", environment}});
}

std::string compare_json(const Answer& answer, const CompareReport& report) {
  Json json = parse_json(report.record.line);
  json["notes"] = report.notes;
  if (!answer.is_short) return written(answer, json);
  return written(answer, picked(json, {"verdict",    "id",      "project",     "device", "run",      "workload", "gain",
                                       "pairs_used", "problem", "fix",         "notes",  "evidence", "seconds",  "base",
                                       "candidate",  "policy",  "calibration", "note",   "phase",    "seed"}));
}

std::string trial_json(const Answer& answer, const TrialReport& report) {
  Json json = parse_json(report.record.line);
  json["patch"] = report.snapshot.patch;
  json["gates"] = Json::array();
  for (const GateResult& gate : report.gates.gates) {
    if (!gate.not_run) json["gates"].push_back(to_json(gate));
  }
  json["comparison_record"] = report.comparison ? parse_json(report.comparison->record.line) : Json();
  json["notes"] = report.notes;
  if (!answer.is_short) return written(answer, json);
  return written(answer, picked(json, {"verdict", "id", "project", "device", "run", "workload", "hypothesis", "gain",
                                       "seen", "files", "lines_added", "lines_removed", "candidate", "parent",
                                       "summary", "notes", "evidence", "seconds"}));
}

std::string selftest_json(const Answer& answer, const Record& record) {
  Json json = {{"verdict", record.verdict}, {"seconds", record.seconds}};
  if (record.evidence) json["evidence"] = to_json(*record.evidence);
  json.update(to_json(std::get<SelftestRecord>(record.body)));
  return written(answer, answer.is_short ? picked(json, {"verdict", "seconds", "evidence", "checks"}) : json);
}

std::string record_json(const Answer& answer, const Record& record) {
  return written(answer, answer.is_short ? brief_record(record) : with_standing(record));
}

std::string records_json(const Answer& answer, const std::vector<Record>& records) {
  Json list = Json::array();
  // A short list begins with the newest: the others may be left out.
  if (answer.is_short) {
    std::transform(records.rbegin(), records.rend(), std::back_inserter(list), brief_record);
  } else {
    std::transform(records.begin(), records.end(), std::back_inserter(list), with_standing);
  }
  return written(answer, {{"records", std::move(list)}});
}

std::string merge_json(const Answer& answer, const MergeReport& report) {
  return written(answer, {{"holds", report.holds()},
                          {"journals", report.journals},
                          {"records", report.records},
                          {"added", report.added},
                          {"duplicates", report.duplicates},
                          {"conflicts", report.conflicts},
                          {"refused", report.left_out},
                          {"problems", report.state.problems},
                          {"notes", report.state.notes}});
}

std::string traces_json(const Answer& answer, const ExportedTraces& exported) {
  Json traces = Json::array();
  for (const std::string& line : exported.lines) traces.push_back(bounded_json(line));
  return written(answer, {{"format", flashinfer_trace_format},
                          {"schema", flashinfer_trace_schema},
                          {"traces", std::move(traces)},
                          {"not_told", exported.not_told}});
}

std::string imported_json(const Answer& answer, std::size_t read, std::size_t added) {
  return written(answer, {{"format", flashinfer_trace_format}, {"read", read}, {"added", added}});
}

std::string journal_state_json(const Answer& answer, const JournalState& state, const std::vector<Heading>& headings) {
  Json standing = Json::object();
  for (const Standing one : {Standing::chained, Standing::unchained, Standing::foreign, Standing::changed}) {
    standing[name_of(one)] = std::count_if(headings.begin(), headings.end(),
                                           [&](const Heading& heading) { return heading.standing == one; });
  }
  return written(answer, {{"holds", state.problems.empty()},
                          {"records", headings.size()},
                          {"standing", std::move(standing)},
                          {"missing", state.missing},
                          {"damaged", state.damaged},
                          {"problems", state.problems},
                          {"notes", state.notes}});
}

std::string side_by_side_json(const Answer& answer, const SideBySide& difference) {
  const auto id = [](const std::string& text) { return text.empty() ? Json(nullptr) : Json(text); };
  Json rows = Json::array();
  for (const Difference& row : difference.differs) rows.push_back(to_json(row));
  return written(
      answer,
      {{"a", id(difference.a)}, {"b", id(difference.b)}, {"same", difference.same}, {"differs", std::move(rows)}});
}

std::string completion_json(const Answer& answer, const std::string& shell, const std::string& script) {
  return written(answer, {{"shell", shell}, {"script", script}});
}

std::string codes_json(const Answer& answer) {
  Json list = Json::array();
  for (const ProblemCode& row : all_codes()) {
    list.push_back(
        {{"code", row.code}, {"exit_code", static_cast<int>(row.exit)}, {"about", row.about}, {"next", row.next}});
  }
  return written(answer, {{"codes", std::move(list)}});
}

}  // namespace flashmoe::workflow
