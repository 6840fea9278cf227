// --json of `cudadent report`.
#include "support/json.hpp"
#include "workflow/output/output.hpp"
#include "workflow/report/files.hpp"
#include "workflow/report/run_report.hpp"

namespace flashmoe::workflow {

std::string report_json(const Answer& answer, const RunReport& report, const std::vector<ReportedFile>& files) {
  Json list = Json::array();
  for (const ReportedFile& file : files)
    list.push_back({{"path", file.path}, {"kind", file.kind}, {"bytes", file.bytes}, {"sha256", file.sha256}});
  Json predicted = Json::array();
  for (const PredictedVersion& version : report.predicted) predicted.push_back(version.label);
  Json body = {{"outcome", name_of(Outcome::holds)},
               {"run", report.summary.run},
               {"project", report.summary.project},
               {"device", report.summary.device},
               {"files", std::move(list)},
               {"records", report.summary.records},
               {"left_out_records", report.summary.left_out},
               {"changes", report.summary.changes.size()},
               {"predicted", std::move(predicted)}};
  body["not_predicted"] = report.not_predicted.empty() ? Json(nullptr) : Json(report.not_predicted);
  return written(answer, body);
}

}  // namespace flashmoe::workflow
