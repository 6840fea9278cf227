#include "workflow/output/prediction_json.hpp"

#include "support/json.hpp"
#include "workflow/journal/json.hpp"

namespace flashmoe::workflow {
namespace {

Json time_json(const predict::Time& time) {
  if (time.us == 0) return nullptr;
  return {{"us", time.us}, {"least_us", time.least_us}, {"most_us", time.most_us}};
}

Json waits_json(const std::array<double, predict::stalls>& cycles) {
  Json json = Json::object();
  for (std::size_t i = 0; i < cycles.size(); ++i)
    if (cycles[i] > 0) json[std::string(name_of(static_cast<predict::Stall>(i)))] = cycles[i];
  return json;
}

Json uses_json(const predict::Prediction& prediction) {
  Json json = Json::object();
  for (const predict::PipeUse& one : prediction.uses) json[std::string(one.name)] = one.use;
  return json;
}

Json lines_json(const LaunchPrediction& launch) {
  Json lines = Json::array();
  for (const LinePressure& line : launch.lines)
    lines.push_back({{"file", line.file},
                     {"line", line.line},
                     {"share", line.share},
                     {"executions", line.executions},
                     {"warp_cycles", waits_json(line.cycles)}});
  return lines;
}

Json launch_json(const LaunchPrediction& launch, bool is_short) {
  const predict::Prediction& one = launch.prediction;
  Json json = {{"kernel", launch.report.kernel}, {"predicted", launch.is_predicted()},
               {"cycles", one.cycles},           {"limiter", one.limiter},
               {"boost", time_json(one.boost)},  {"sustained", time_json(one.sustained)},
               {"refusals", one.refusals}};
  if (is_short) return json;
  json["grid"] = launch.report.grid;
  json["cta_cycles"] = {{"alone", one.cta_alone}, {"resident", one.cta_resident}};
  json["ctas_per_sm"] = one.occupancy.ctas_per_sm;
  json["waves"] = one.waves;
  json["tensor_use"] = one.tensor_use;
  json["issue_use"] = one.issue_use;
  json["uses"] = uses_json(one);
  json["warp_cycles"] = waits_json(launch.waits());
  json["unmatched_weight"] = launch.unmatched_weight;
  json["launch_us"] = {{"stream", one.launch.stream_us.value},
                       {"graph", one.launch.graph_us.value},
                       {"source", std::string(one.launch.stream_us.standing())}};
  json["cold_start_cycles"] = {{"least", one.cold_start_cycles.least}, {"most", one.cold_start_cycles.most}};
  json["spread"] = one.spread;
  json["extended"] = one.extended;
  json["doubts"] = one.doubts;
  return json;
}

}  // namespace

std::string prediction_json(const Answer& answer, const PredictionRun& run, bool lines) {
  Json launches = Json::array();
  for (const LaunchPrediction& launch : run.launches) {
    Json json = launch_json(launch, answer.is_short);
    if (lines && !answer.is_short) json["lines"] = lines_json(launch);
    launches.push_back(std::move(json));
  }
  Json json = {{"outcome", name_of(run.is_predicted() ? Outcome::holds : Outcome::inconclusive)},
               {"project", run.project},
               {"device", run.device},
               {"evidence", to_json(run.evidence())},
               {"workload", run.workload},
               {"summary", prediction_summary(run)},
               {"cycles", run.cycles()},
               {"boost", time_json(run.boost())},
               {"sustained", time_json(run.sustained())}};
  json["launches"] = std::move(launches);
  return written(answer, json);
}

}  // namespace flashmoe::workflow
