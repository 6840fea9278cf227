#include "vgpu/driver/predicted_clock.hpp"

#include <fmt/format.h>

#include <cstdlib>
#include <fstream>
#include <functional>
#include <map>
#include <string>

#include "support/result.hpp"
#include "vgpu/driver/child.hpp"
#include "vgpu/driver/log.hpp"
#include "vgpu/driver/ptxas.hpp"

namespace flashmoe::vgpu::driver {
namespace {

using Json = nlohmann::ordered_json;

struct Predicted {
  double launch_us = 0;  // the kernel at boost, and what a launch adds
  std::string text{};    // for the log
};

std::string predictor() {
  const char* const asked = std::getenv("VGPU_PREDICTOR");
  return asked != nullptr && *asked != '\0' ? asked : found_on_path("cudadent");
}

Diagnostic because(const std::string& message) {
  return {.message = message};
}

// Fields of the answer are the predictor's word: one that is missing is an answer that cannot be read.
Result<Predicted> read_answer(const std::string& file) {
  std::ifstream in(file);
  const Json answer = Json::parse(in, nullptr, false);
  if (!answer.is_object()) return because("the predictor did not answer");
  try {
    if (answer.contains("error")) return because(answer.at("error").at("message").get<std::string>());
    const Json& launch = answer.at("launches").at(0);
    if (!launch.at("predicted").get<bool>()) return because(launch.at("refusals").at(0).get<std::string>());
    const Json& boost = launch.at("boost");
    const double gap = launch.at("launch_us").at("stream").get<double>();
    return Predicted{
        .launch_us = boost.at("us").get<double>() + gap,
        .text = fmt::format("{:.2f} us predicted at boost ({:.2f} to {:.2f}), limited by {}; a launch "
                            "adds {:.2f} us. Nothing was measured",
                            boost.at("us").get<double>(), boost.at("least_us").get<double>(),
                            boost.at("most_us").get<double>(), launch.at("limiter").get<std::string>(), gap)};
  } catch (const Json::exception&) {
    return because("the predictor's answer cannot be read");
  }
}

Result<Predicted> ask(const Json& report, const Function& function) {
  const std::string program = predictor();
  if (program.empty()) return because("there is no cudadent on PATH, and VGPU_PREDICTOR names none");
  const Module& module = *function.module;
  if (module.texts.size() != 1) return because("the module was linked from several texts of PTX");
  const ScratchDirectory scratch;
  if (scratch.path().empty()) return because("no temporary directory can be made");
  const std::string cubin = scratch.path() / "module.cubin", reported = scratch.path() / "launch.jsonl",
                    answer = scratch.path() / "answer.json";
  if (!compile_with_lines(module.texts[0], module.machine->gpu.architecture, cubin))
    return because("there is no ptxas that compiles its PTX");
  std::ofstream(reported) << report.dump() << '\n';
  if (run_child({program, "predict", "--report", reported, "--cubin", cubin, "--device",
                 "virtual:" + std::string(module.machine->gpu.id), "--json", "--quiet"},
                answer) < 0)
    return because(program + " cannot be started");
  return read_answer(answer);
}

}  // namespace

std::optional<double> predicted_ns(const Json& report, const Function& function) {
  // By all that a prediction goes by: a benchmark launches the same again and again.
  static auto& known = *new std::map<std::pair<const void*, std::size_t>, std::optional<double>>();
  Json asked = report;
  for (const char* const other : {"launch", "seed", "schedule", "summary", "annotated_sources", "findings"})
    asked.erase(other);
  const std::pair<const void*, std::size_t> key{function.module, std::hash<std::string>{}(asked.dump())};
  if (const auto before = known.find(key); before != known.end()) return before->second;
  const auto predicted = ask(report, function);
  std::optional<double> ns;
  if (predicted) {
    ns = predicted->launch_us * 1e3;
    log_once(fmt::format("{}: {}", function.name, predicted->text));
  } else {
    log_once(fmt::format("{}: not predicted: {}. The clock goes on by a lower bound", function.name,
                         predicted.error().message));
  }
  known.emplace(key, ns);
  return ns;
}

}  // namespace flashmoe::vgpu::driver
