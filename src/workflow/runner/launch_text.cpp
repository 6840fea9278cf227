#include "workflow/runner/launch_text.hpp"

#include "support/json_text.hpp"

namespace flashmoe::workflow {
namespace {

bool is_real(const std::string& type) {
  return type == "f32" || type == "f64";
}

Launch launch_from(const Json& json) {
  Launch launch{.image = json.at("image"),
                .kernel = json.at("kernel"),
                .grid = json.at("grid").get<std::array<std::int64_t, 3>>(),
                .block = json.at("block").get<std::array<std::int64_t, 3>>(),
                .shared_bytes = json.at("shared_bytes"),
                .instruction_budget = json.value("instruction_budget", std::uint64_t{0})};
  for (const Json& argument : json.at("args")) {
    const std::string& type = argument.begin().key();
    const Json& value = argument.begin().value();
    LaunchValue made{.type = type};
    if (type == "tensor") {
      made.tensor = value.get<std::size_t>();
    } else if (is_real(type)) {
      made.real = value.get<double>();
    } else {
      made.integer = value.get<std::int64_t>();
    }
    launch.args.push_back(std::move(made));
  }
  return launch;
}

}  // namespace

std::string launches_text(const std::vector<Launch>& launches) {
  Json all = Json::array();
  for (const Launch& launch : launches) {
    Json args = Json::array();
    for (const LaunchValue& value : launch.args) {
      if (value.tensor) {
        args.push_back({{"tensor", *value.tensor}});
      } else if (is_real(value.type)) {
        args.push_back({{value.type, value.real}});
      } else {
        args.push_back({{value.type, value.integer}});
      }
    }
    all.push_back({{"image", launch.image},
                   {"kernel", launch.kernel},
                   {"grid", launch.grid},
                   {"block", launch.block},
                   {"shared_bytes", launch.shared_bytes},
                   {"args", std::move(args)},
                   {"instruction_budget", launch.instruction_budget}});
  }
  return one_line(all);
}

Result<std::vector<Launch>> launches_from(const std::string& text) {
  try {
    std::vector<Launch> launches;
    const Json all = parse_json(text);
    if (!all.is_array()) return Diagnostic{.message = "bad launches: no list of them"};
    for (const Json& json : all) launches.push_back(launch_from(json));
    return launches;
  } catch (const Json::exception& error) {
    return Diagnostic{.message = std::string("bad launches: ") + error.what()};
  }
}

}  // namespace flashmoe::workflow
