#include "workflow/journal/gpu_json.hpp"

namespace flashmoe::workflow {
namespace {

Json fact_json(const Fact& fact) {
  return {{"value", fact.known() ? Json(fact.value) : Json()}, {"source", fact.standing()}};
}

}  // namespace

Json to_json(const Gpu& gpu) {
  Json json = {{"id", gpu.id}, {"name", gpu.name}, {"architecture", gpu.architecture}};
  for (const GpuFact& one : gpu_facts()) json[one.name] = fact_json(gpu.*one.fact);
  const auto architecture = find_architecture(std::string(gpu.architecture));
  for (const RateFact& one : rate_facts()) {
    const Fact& fact = architecture->rates.*one.fact;
    Json rate = fact_json(fact);
    if (one.fact != &PipeRates::shared_bytes) rate["clocks_a_warp"] = architecture->issue_interval(fact);
    json["per_clock_and_sm"][one.name] = std::move(rate);
  }
  return json;
}

Json known_gpus() {
  Json list = Json::array();
  for (const Gpu& gpu : all_gpus()) list.push_back(to_json(gpu));
  return list;
}

}  // namespace flashmoe::workflow
