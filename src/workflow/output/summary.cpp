// --json of `cudadent journal --summary`.
#include "workflow/report/summary.hpp"

#include "support/json_text.hpp"
#include "workflow/journal/json.hpp"
#include "workflow/output/output.hpp"

namespace flashmoe::workflow {
namespace {

Json text_or_null(const std::string& text) {
  return text.empty() ? Json(nullptr) : Json(text);
}

template <class T>
Json value_or_null(const std::optional<T>& value) {
  return value ? Json(*value) : Json(nullptr);
}

Json speeds_json(const Named<Speed>& speeds) {
  Json json = Json::object();
  for (const auto& [workload, speed] : speeds) {
    json[workload] = {{"speedup", speed.speedup}, {"lower", speed.lower}, {"evidence", speed.evidence}};
  }
  return json;
}

Json change_json(const ChangeSummary& change) {
  return {{"id", change.id},
          {"change", change.change},
          {"commit", text_or_null(change.commit)},
          {"fate", name_of(change.fate)},
          {"why", text_or_null(change.why)},
          {"phase", value_or_null(change.phase)},
          {"workload", value_or_null(change.workload)},
          {"verdict", change.verdict},
          {"gain", change.gain ? to_json(*change.gain) : Json(nullptr)},
          {"predicted_gain", change.predicted ? Json(change.predicted->gain()) : Json(nullptr)},
          {"pairs", change.pairs},
          {"minimum_detectable_gain", value_or_null(change.minimum_detectable_gain)},
          {"problem", text_or_null(change.problem)},
          {"fix", change.problem.empty() ? Json(nullptr) : Json(change.fix)},
          {"seconds", change.seconds},
          {"comparison", change.comparison},
          {"evidence", change.evidence}};
}

Json run_json(const RunSummary& summary) {
  Json json = {{"run", summary.run},
               {"project", text_or_null(summary.project)},
               {"device", text_or_null(summary.device)},
               {"first", text_or_null(summary.first)},
               {"last", text_or_null(summary.last)}};
  if (summary.records > 0) json["environment"] = summary.environment ? to_json(*summary.environment) : Json(nullptr);
  json["records"] = summary.records;
  json["left_out"] = summary.left_out;
  json["missing"] = summary.missing;
  json["before"] = speeds_json(summary.before);
  json["after"] = speeds_json(summary.after);
  json["endpoints"] = Json::array();
  for (const Endpoints& one : summary.endpoints) {
    json["endpoints"].push_back(
        {{"what", one.what}, {"before", one.before}, {"after", one.after}, {"evidence", one.evidence}});
  }
  json["kept"] = Json::array();
  for (const KeptGain& kept : summary.kept) {
    json["kept"].push_back(
        {{"workload", kept.workload}, {"evidence", kept.evidence}, {"changes", kept.changes}, {"gain", kept.gain}});
  }
  json["changes"] = Json::array();
  for (const ChangeSummary& change : summary.changes) json["changes"].push_back(change_json(change));
  json["gates"] = Json::array();
  for (const GateSummary& gate : summary.gates) {
    json["gates"].push_back({{"id", gate.id},
                             {"commit", text_or_null(gate.commit)},
                             {"verdict", gate.verdict},
                             {"what", gate.what},
                             {"seconds", gate.seconds},
                             {"evidence", gate.evidence}});
  }
  json["bottlenecks"] = summary.bottlenecks;
  json["time"] = {{"seconds", summary.seconds},
                  {"busy_seconds", summary.busy_seconds},
                  {"planned_minutes", value_or_null(summary.planned_minutes)},
                  {"comparisons", summary.changes.size()},
                  {"planned_iterations", value_or_null(summary.planned_iterations)}};
  json["cost"] = {{"machine", summary.cost.machine},
                  {"agent", summary.cost.agent},
                  {"total", summary.cost.total},
                  {"planned", value_or_null(summary.planned_dollars)},
                  {"price_given", summary.prices.has_value()}};
  json["stopped"] = text_or_null(summary.stopped);
  json["next_goals"] = summary.next_goals;
  if (!summary.machine_advice.empty()) json["machine_advice"] = summary.machine_advice;
  return json;
}

}  // namespace

std::string summary_json(const Answer& answer, const RunSummary& summary) {
  return written(answer, run_json(summary));
}

std::string runs_json(const Answer& answer, const std::vector<RunSummary>& runs) {
  Json list = Json::array();
  for (const RunSummary& run : runs) list.push_back(run_json(run));
  return written(answer, {{"runs", std::move(list)}});
}

}  // namespace flashmoe::workflow
