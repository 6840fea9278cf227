#include "workflow/gates/environment_gate.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>

#include "support/clock.hpp"
#include "workflow/device/capabilities.hpp"
#include "workflow/environment/observation.hpp"
#include "workflow/gates/context.hpp"
#include "workflow/gates/runnable.hpp"

namespace flashmoe::workflow {
namespace {

// Whether a Python file imports a module at all: "import torch", "from torch.nn import ...", "import os, torch as t".
bool imports(const std::filesystem::path& file, const std::string& module) {
  std::ifstream lines(file);
  for (std::string line; std::getline(lines, line);) {
    std::replace(line.begin(), line.end(), ',', ' ');
    std::istringstream words(line);
    std::string word;
    if (!(words >> word) || (word != "import" && word != "from")) continue;
    const bool from = word == "from";
    while (words >> word) {
      if (word.substr(0, word.find('.')) == module) return true;
      if (from) break;
    }
  }
  return false;
}

std::set<Need> needs_of(const Project& project, const DeviceSelector& device) {
  std::set<Need> needs{Need::disk};
  const bool on_card = capabilities_of(device).is_card;
  const Callable* rival = on_card ? card_rival(project) : &project.baseline;
  for (const Callable* callable : {on_card ? nullptr : &project.kernel, &project.reference, rival}) {
    if (callable == nullptr) continue;
    if (callable->kind == CallableKind::cpp) needs.insert(Need::cxx);
    if (std::ranges::count(callable->libraries, "flashmoe") > 0) needs.insert(Need::library);
    if (callable->kind != CallableKind::python) continue;
    needs.insert({Need::python, Need::numpy});
    const bool with_torch =
        callable->torch_tensors || imports(std::filesystem::path(project.directory) / callable->source, "torch");
    if (with_torch) needs.insert(Need::torch);
  }
  if (!project.cuda_sources.empty() && runs_cuda(project, device)) needs.insert(Need::cuda_toolkit);
  if (capabilities_of(device).needs_driver) needs.insert(Need::gpu);
  return needs;
}

}  // namespace

GateResult run_environment_gate(const Project& project, const DeviceSelector& device) {
  const auto begin = std::chrono::steady_clock::now();
  GateResult result;
  result.gate = EnvironmentFacts::gate;
  const auto needs = needs_of(project, device);
  Observations seen;
  if (const auto available = device_available(device); available)
    seen.ok("device", device.to_string());
  else
    seen.all.push_back({{.severity = Severity::error,
                         .group = "device",
                         .what = available.error().message,
                         .fix = available.error().fix,
                         .code = available.error().code},
                        Need::gpu});
  seen.add(examine_cpu());
  seen.add(examine_compilers());
  if (!project.cuda_sources.empty() || needs.contains(Need::gpu)) seen.add(examine_cuda());
  if (needs.contains(Need::python))
    // Needed here, so it may take its time: a slow import is not a broken one.
    seen.add(examine_python({.limit_seconds = 60, .torch = needs.contains(Need::torch), .extension = false}));
  seen.add(examine_clocks());
  seen.add(examine_disk(project.directory));

  const Finding* first = nullptr;
  for (Observation& one : seen.all) {
    if (one.finding.severity != Severity::ok && one.finding.group != "device") {
      const bool needed = needs.contains(one.need);
      // No driver is no shortcoming for a project that runs on the CPU, nor is a library that it does not link with;
      // that a twin is not compiled the build gate says.
      const bool may_lack = one.need == Need::gpu || one.need == Need::cuda_toolkit || one.need == Need::library;
      if (!needed && may_lack) continue;
      one.finding.severity = needed ? Severity::error : Severity::warning;
    }
    result.findings.push_back(one.finding);
  }
  for (const Finding& finding : result.findings)
    if (finding.severity == Severity::error && first == nullptr) first = &finding;
  seen.facts.device = device.to_string();
  seen.facts.device_from = device.from;
  result.facts = std::move(seen.facts);
  if (first != nullptr) {
    result.outcome = Outcome::could_not_run;
    result.code = first->code;
    result.summary = first->what.substr(0, first->what.find('\n'));
  } else {
    result.outcome = Outcome::holds;
    result.summary = fmt::format("all that {} needs on {} is there", project.name, device.to_string());
  }
  result.seconds = seconds_since(begin);
  return result;
}

const Gate environment_gate{
    .name = EnvironmentFacts::gate,
    .about = "what this project needs on this machine",
    .needs = GateNeeds::nothing,
    .expected_seconds = [](const Project&) { return 3.0; },
    .run = [](GateContext& context) { return run_environment_gate(context.project, context.device); },
    .degraded_goes_on = true};

}  // namespace flashmoe::workflow
