// --json of `cudadent status`.
#include "workflow/report/status.hpp"

#include "support/json.hpp"
#include "workflow/output/output.hpp"

namespace flashmoe::workflow {

std::string status_json(const Answer& answer, const StatusReport& report) {
  Json devices = Json::array();
  for (const DeviceStatus& one : report.devices) {
    Json json = {{"device", one.device}, {"outcome", name_of(one.outcome)}};
    json["code"] = one.code.empty() ? Json(nullptr) : Json(one.code);
    json["whole"] = one.whole;
    json["summary"] = one.summary;
    json["record"] = one.id;
    json["time"] = one.time;
    json["commit"] = one.commit;
    if (one.speed) {
      const RatioFacts& ratio = one.speed->ratio;
      json["speed"] = {{"mean", ratio.mean}, {"lower", ratio.lower}, {"upper", ratio.upper}, {"rung", one.speed->rung}};
    }
    json["next"] = one.next;
    devices.push_back(std::move(json));
  }
  Json body = {{"directory", report.directory}};
  body["project"] = report.project.empty() ? Json(nullptr) : Json(report.project);
  body["records"] = report.records;
  body["last_comparison"] = report.comparison.empty() ? Json(nullptr) : Json(report.comparison);
  body["devices"] = std::move(devices);
  body["journal_problems"] = report.problems;
  return written(answer, body);
}

}  // namespace flashmoe::workflow
