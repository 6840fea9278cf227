#include "workflow/output/loop_json.hpp"

#include <fmt/format.h>

#include "support/json.hpp"
#include "workflow/optimize/optimize.hpp"
#include "workflow/optimize/shard.hpp"
#include "workflow/output/brief.hpp"
#include "workflow/output/output.hpp"

namespace flashmoe::workflow {
namespace {

Json to_json(const CounterChange& change) {
  return {{"name", change.name}, {"from", change.from}, {"to", change.to}};
}

Json to_json(const std::optional<CounterChange>& change) {
  return change ? to_json(*change) : Json();
}

Json number_or_null(const std::optional<double>& number) {
  return number ? Json(*number) : Json();
}

}  // namespace

Json list_of(const std::vector<Advice>& advice) {
  Json list = Json::array();
  for (const Advice& one : advice) {
    list.push_back({{"rule", one.rule},
                    {"bottleneck", one.bottleneck},
                    {"says", one.says},
                    {"where", one.where},
                    {"fix", one.fix},
                    {"phase", one.phase},
                    {"expected", to_json(one.expected)},
                    {"stays_when_fake", one.stays_when_fake},
                    {"expected_gain", one.gain}});
  }
  return list;
}

Json list_of(const std::vector<Iteration>& iterations) {
  Json list = Json::array();
  for (const Iteration& one : iterations) {
    list.push_back({{"number", one.number},
                    {"proposer", one.proposer},
                    {"rule", one.rule},
                    {"hypothesis", one.hypothesis},
                    {"predicted", to_json(one.predicted)},
                    {"seen", to_json(one.seen)},
                    {"verdict", one.verdict},
                    {"advanced", one.advanced},
                    {"ground", one.ground},
                    {"seconds", one.seconds}});
  }
  return list;
}

std::string advice_json(const Answer& answer, const ProfileRun& run, const std::vector<Advice>& advice) {
  return written(answer, {{"project", run.project},
                          {"device", run.device},
                          {"workload", run.workload},
                          {"findings", brief_findings(run.findings)},
                          {"advice", list_of(advice)}});
}

std::string shard_json(const Answer& answer, const ShardReport& report) {
  return written(answer, {{"run", report.run},
                          {"device", report.device},
                          {"shard", fmt::format("{}/{}", report.shard.index, report.shard.count)},
                          {"batch", report.batch},
                          {"counted", report.counted},
                          {"open", report.open},
                          {"seconds", report.seconds}});
}

std::string optimize_json(const Answer& answer, const OptimizeReport& report) {
  Json elsewhere = Json::array();
  for (const Elsewhere& other : report.elsewhere) {
    elsewhere.push_back(
        {{"workload", other.workload}, {"factor", other.factor}, {"loses", other.factor > worse_elsewhere}});
  }
  return written(answer, {{"run", report.run},
                          {"device", report.device},
                          {"start", report.start},
                          {"end", report.end},
                          {"iterations", list_of(report.iterations)},
                          {"bottlenecks", report.bottlenecks},
                          {"cycles_at_start", report.cycles_at_start},
                          {"cycles_at_end", report.cycles_at_end},
                          {"predicted_at_start", number_or_null(report.predicted_at_start)},
                          {"predicted_at_end", number_or_null(report.predicted_at_end)},
                          {"busiest_sm_at_start", report.busiest_sm_at_start},
                          {"busiest_sm_at_end", report.busiest_sm_at_end},
                          {"baseline", report.baseline},
                          {"ratio_at_start", number_or_null(report.ratio_at_start)},
                          {"ratio_at_end", number_or_null(report.ratio_at_end)},
                          {"elsewhere", elsewhere},
                          {"stopped", report.stopped},
                          {"seconds", report.seconds},
                          {"waiting", report.waiting},
                          {"verdict", verdict_of(report)}});
}

}  // namespace flashmoe::workflow
