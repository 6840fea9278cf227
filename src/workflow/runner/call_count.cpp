#include "workflow/runner/call_count.hpp"

#include "support/json_text.hpp"

namespace flashmoe::workflow {

std::string count_text(const CallCount& count) {
  Json launches = Json::array();
  for (const LaunchCount& launch : count.launches) {
    Json counted = Json::object();
    for (const auto& [name, value] : launch.counted) counted[name] = value;
    launches.push_back({{"kernel", launch.kernel},
                        {"registers", launch.facts.registers},
                        {"static_shared_bytes", launch.facts.static_shared_bytes},
                        {"local_bytes", launch.facts.local_bytes},
                        {"max_threads", launch.facts.max_threads},
                        {"ctas_per_sm", launch.facts.ctas_per_sm},
                        {"counted", counted}});
  }
  return one_line({{"name", count.card.name},
                   {"sm", count.card.sm},
                   {"sm_count", count.card.sm_count},
                   {"launches", launches},
                   {"not_counted", count.not_counted.message},
                   {"fix", count.not_counted.fix}});
}

Result<CallCount> count_from(const std::string& text) {
  const Json json = parse_json(text);
  if (!json.is_object()) return Diagnostic{.message = "the worker's counts are not JSON"};
  CallCount count{
      .card = {.name = json.value("name", ""), .sm = json.value("sm", 0), .sm_count = json.value("sm_count", 0)}};
  count.not_counted = {.message = json.value("not_counted", ""), .fix = json.value("fix", "")};
  for (const Json& launch : json.value("launches", Json::array())) {
    LaunchCount made{.kernel = launch.value("kernel", ""),
                     .facts = {.registers = launch.value("registers", 0),
                               .static_shared_bytes = launch.value("static_shared_bytes", 0),
                               .local_bytes = launch.value("local_bytes", 0),
                               .max_threads = launch.value("max_threads", 0),
                               .ctas_per_sm = launch.value("ctas_per_sm", 0)}};
    const Json counted = launch.value("counted", Json::object());
    for (const auto& [name, value] : counted.items())
      if (value.is_number()) made.counted[name] = value;
    count.launches.push_back(std::move(made));
  }
  return count;
}

}  // namespace flashmoe::workflow
