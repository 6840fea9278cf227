#include "workflow/environment/doctor.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <future>

#include "devices/device.hpp"
#include "support/clock.hpp"
#include "workflow/compile/compiler.hpp"
#include "workflow/environment/observation.hpp"
#include "workflow/verdict/codes.hpp"

namespace flashmoe::workflow {
namespace {

std::ptrdiff_t count(const std::vector<Finding>& findings, Severity severity) {
  return std::count_if(findings.begin(), findings.end(), [&](const Finding& one) { return one.severity == severity; });
}

}  // namespace

Outcome DoctorReport::outcome() const {
  if (count(findings, Severity::error) > 0) return Outcome::could_not_run;
  return count(findings, Severity::warning) > 0 ? Outcome::inconclusive : Outcome::holds;
}

std::string DoctorReport::code() const {
  if (outcome() == Outcome::holds) return "";
  const Severity worst = outcome() == Outcome::could_not_run ? Severity::error : Severity::warning;
  const auto first =
      std::find_if(findings.begin(), findings.end(), [&](const Finding& one) { return one.severity == worst; });
  // What would be better is one kind of problem, whatever it is: each finding says which.
  return worst == Severity::error ? first->code : codes::environment_degraded;
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
  seen.add(examine_nvdisasm(options.python_limit_seconds));
  seen.add(examine_counters());
  seen.add(examine_confinement());
  seen.add(examine_clocks());
  seen.add(examine_disk(absolute_path(options.directory).lexically_normal().string()));
  seen.add(python.get());

  DoctorReport report;
  for (Observation& one : seen.all) {
    // The attention library is another distribution: a project that links with it is told by its environment gate.
    const bool is_asked_for = std::getenv("CUDADENT_FLASHMOE_DIR") != nullptr;
    if (one.need == Need::library && one.finding.severity == Severity::warning && !is_asked_for) continue;
    report.findings.push_back(std::move(one.finding));
  }
  // Findings of one group stand together, in the order in which the groups first came.
  std::vector<std::string> groups;
  for (const Finding& finding : report.findings)
    if (std::find(groups.begin(), groups.end(), finding.group) == groups.end()) groups.push_back(finding.group);
  std::stable_sort(report.findings.begin(), report.findings.end(), [&](const Finding& a, const Finding& b) {
    return std::find(groups.begin(), groups.end(), a.group) < std::find(groups.begin(), groups.end(), b.group);
  });
  report.facts = std::move(seen.facts);
  for (const Gpu& gpu : all_gpus()) report.facts.devices.emplace_back(gpu.id);
  const auto errors = count(report.findings, Severity::error);
  const auto warnings = count(report.findings, Severity::warning);
  if (errors > 0) {
    report.verdict = fmt::format("not fit: {} to repair first (✗), {} that would be better (!)", errors, warnings);
  } else {
    const bool has_compiler = report.facts.compilers && report.facts.compilers->cxx;
    report.verdict = has_compiler ? "fit: kernels run on the CPU" : "fit: programs run on the virtual GPU";
    if (report.facts.cuda && report.facts.cuda->toolkit) report.verdict += ", CUDA sources can be built and checked";
    if (report.facts.cuda && !report.facts.cuda->gpus.empty()) report.verdict += ", a GPU is here";
    if (warnings > 0) report.verdict += fmt::format("; {} that would be better (!)", warnings);
  }
  report.seconds = seconds_since(begin);
  return report;
}

}  // namespace flashmoe::workflow
