#include "support/json.hpp"
#include "workflow/first_light/bundle.hpp"
#include "workflow/first_light/first_light.hpp"
#include "workflow/output/output.hpp"

namespace flashmoe::workflow {

std::string first_light_json(const Answer& answer, const FirstLightReport& report) {
  Json steps = Json::array();
  for (const LightStep& step : report.steps)
    steps.push_back({{"name", step.name},
                     {"state", name_of(step.state)},
                     {"why", step.why},
                     {"file", step.file},
                     {"seconds", step.seconds}});
  Json beside = Json::array();
  for (const BesidePrediction& one : report.beside)
    beside.push_back({{"problem", one.problem},
                      {"predicted_us", one.predicted_us},
                      {"measured_us", one.stale ? Json() : Json(one.measured_us)},
                      {"stale", one.stale}});
  return written(answer, {{"outcome", name_of(report.outcome)},
                          {"summary", report.summary},
                          {"device", report.device},
                          {"card", report.card},
                          {"rehearsal", report.rehearsal},
                          {"steps", steps},
                          {"beside_predictions", beside},
                          {"notes", report.notes},
                          {"machine", report.stopped},
                          {"seconds", report.seconds},
                          {"dollars", report.dollars},
                          {"bundle", report.bundle},
                          {"bundle_sha256", report.bundle_sha256}});
}

std::string bundle_json(const Answer& answer, const BundleCheck& check) {
  return written(answer, {{"bundle_sha256", check.sha256},
                          {"rehearsal", check.rehearsal},
                          {"files", check.files},
                          {"problems", check.problems}});
}

}  // namespace flashmoe::workflow
