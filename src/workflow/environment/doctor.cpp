#include "workflow/environment/doctor.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <future>

#include "workflow/build/compiler.hpp"
#include "workflow/device/gpu_json.hpp"
#include "workflow/environment/observation.hpp"

namespace flashmoe::workflow {
namespace {

std::ptrdiff_t count(const std::vector<Finding>& findings, Severity severity) {
  return std::count_if(findings.begin(), findings.end(), [&](const Finding& one) { return one.severity == severity; });
}

}  // namespace

Outcome DoctorReport::outcome() const {
  if (count(findings, Severity::error) > 0) return Outcome::fails;
  return count(findings, Severity::warning) > 0 ? Outcome::inconclusive : Outcome::holds;
}

DoctorReport examine_machine(const DoctorOptions& options) {
  const auto begin = std::chrono::steady_clock::now();
  // Python takes longest and waits most: it runs beside the rest.
  auto python = std::async(std::launch::async, [&] {
    return examine_python({.limit_seconds = options.python_limit_seconds, .torch = true, .extension = true});
  });
  Observations seen;
  seen.add(examine_cpu());
  seen.add(examine_compilers());
  seen.add(examine_cuda());
  seen.add(examine_counters());
  seen.add(examine_clocks());
  seen.add(examine_disk(absolute_path(options.directory).lexically_normal().string()));
  seen.add(python.get());

  DoctorReport report;
  for (Observation& one : seen.all) report.findings.push_back(std::move(one.finding));
  // Findings of one group stand together, in the order in which the groups first came.
  std::vector<std::string> groups;
  for (const Finding& finding : report.findings)
    if (std::find(groups.begin(), groups.end(), finding.group) == groups.end()) groups.push_back(finding.group);
  std::stable_sort(report.findings.begin(), report.findings.end(), [&](const Finding& a, const Finding& b) {
    return std::find(groups.begin(), groups.end(), a.group) < std::find(groups.begin(), groups.end(), b.group);
  });
  report.facts = std::move(seen.facts);
  report.facts["devices"] = known_gpus();
  const auto errors = count(report.findings, Severity::error);
  const auto warnings = count(report.findings, Severity::warning);
  if (errors > 0) {
    report.verdict = fmt::format("not fit: {} to repair first (✗), {} that would be better (!)", errors, warnings);
  } else {
    report.verdict = "fit: kernels run on the CPU";
    if (!report.facts["cuda"]["toolkit"].is_null()) report.verdict += ", CUDA sources can be built and checked";
    if (!report.facts["gpus"].empty()) report.verdict += ", a GPU is here";
    if (warnings > 0) report.verdict += fmt::format("; {} that would be better (!)", warnings);
  }
  report.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  return report;
}

Json to_json(const DoctorReport& report) {
  // The same shape as a gate's, so that one reader serves both.
  Json json = to_json(GateResult{.gate = "environment",
                                 .outcome = report.outcome(),
                                 .summary = report.verdict,
                                 .findings = report.findings,
                                 .data = report.facts,
                                 .seconds = report.seconds});
  return json;
}

}  // namespace flashmoe::workflow
