#include "workflow/gates/build_gate.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>

#include "support/clock.hpp"
#include "support/process.hpp"
#include "workflow/compile/cuda_compile.hpp"
#include "workflow/gates/context.hpp"
#include "workflow/gates/cuda_gate.hpp"
#include "workflow/gates/runnable.hpp"
#include "workflow/gates/stopped.hpp"
#include "workflow/verdict/codes.hpp"

namespace flashmoe::workflow {
namespace {

// A compiler that is not there is a gate that could not run; a kernel that does not compile is a gate that fails. What
// the kernel is held against says nothing about it.
void build_cpu_callables(const Project& project, const BuildOptions& options, Progress& progress, BuildGate& gate,
                         bool& could_run) {
  const std::array<std::pair<std::string, const Callable*>, 3> callables{
      {{"kernel", &project.kernel}, {"reference", &project.reference}, {"baseline", &project.baseline}}};
  const bool any_cpp = std::any_of(callables.begin(), callables.end(),
                                   [](const auto& one) { return one.second->kind == CallableKind::cpp; });
  if (const auto compiler = find_cxx_compiler(); any_cpp && !compiler) {
    gate.result.findings.push_back(
        {Severity::error, "cpu", compiler.error().message, "", compiler.error().fix, compiler.error().code});
    could_run = false;
    return;
  }
  std::vector<LibraryFacts> libraries;
  for (const auto& [role, callable] : callables) {
    if (callable->kind == CallableKind::python && role == "kernel") {
      gate.result.findings.push_back(
          {Severity::ok, "cpu", fmt::format("kernel: {}, Python: nothing to compile", callable->source), "", "", ""});
    }
    if (callable->kind != CallableKind::cpp || interrupted()) continue;
    progress.update(role);
    auto built = build_cpu(project, *callable, role, options);
    if (!built) {
      const Diagnostic& why = built.error();
      gate.result.findings.push_back(
          {Severity::error, "cpu", fmt::format("{}: {}", role, why.message),
           why.file.empty() ? callable->source
                            : fmt::format("{}{}", why.file, why.line > 0 ? fmt::format(":{}", why.line) : ""),
           why.fix, build_code(role, why)});
      could_run = could_run && row_of(gate.result.findings.back().code).exit == ExitCode::fails;
      continue;
    }
    gate.result.findings.push_back(
        {Severity::ok, "cpu",
         fmt::format("{}: {}, {} ({})", role, callable->source, built->content_hash.substr(0, 12),
                     built->from_cache ? "unchanged" : fmt::format("{:.1f} s", built->seconds)),
         built->library, "", ""});
    libraries.push_back({.role = role,
                         .library = built->library,
                         .sha256 = built->content_hash,
                         .build_hash = built->build_hash,
                         .compiler = built->compiler,
                         .libraries = built->libraries,
                         .from_cache = built->from_cache,
                         .seconds = built->seconds});
    gate.built[role] = std::move(*built);
  }
  gate.result.facts_as<BuildFacts>().cpu = std::move(libraries);
}

// False: the twin was not checked.
bool build_cuda_sources(const Project& project, const BuildOptions& options, Progress& progress, GateResult& result,
                        bool is_twin, bool& could_run) {
  if (project.cuda_sources.empty()) return true;
  const auto toolkit = find_cuda_toolkit();
  if (!toolkit && is_twin) {
    result.findings.push_back({Severity::warning, "cuda", "the CUDA twin is not checked: " + toolkit.error().message,
                               "", toolkit.error().fix, codes::build_twin_not_checked});
    return false;
  }
  if (!toolkit) {
    result.findings.push_back(
        {Severity::error, "cuda", toolkit.error().message, "", toolkit.error().fix, toolkit.error().code});
    could_run = false;
    return true;
  }
  result.facts_as<BuildFacts>().cuda_toolkit = toolkit->version;
  check_cuda_targets(project, compile_cuda(project, *toolkit, options, progress), result);
  return true;
}

std::string cpp_summary(std::size_t built) {
  if (built == 0) return "no C++ to compile";
  return fmt::format("{} C++ callable{} built", built, built == 1 ? "" : "s");
}

std::string cuda_summary(const Project& project, const GateResult& result, bool is_twin, bool twin_checked) {
  if (project.cuda_sources.empty()) return "";
  if (!twin_checked) return ", CUDA twin not checked";
  const auto* facts = std::get_if<BuildFacts>(&result.facts);
  const auto instances = facts != nullptr && facts->cuda ? facts->cuda->instances.size() : 0;
  return fmt::format(", {} CUDA instance{} {} for {}", instances, instances == 1 ? "" : "s",
                     is_twin ? "compiled, not run (--device virtual:l4 does)" : "checked",
                     fmt::join(project.cuda_architectures, ", "));
}

}  // namespace

BuildGate run_build_gate(const Project& project, const BuildOptions& options, Progress& progress, bool cuda_is_twin) {
  const auto begin = std::chrono::steady_clock::now();
  BuildGate gate;
  GateResult& result = gate.result;
  result.gate = BuildFacts::gate;
  bool could_run = true;
  build_cpu_callables(project, options, progress, gate, could_run);
  const bool twin_checked = build_cuda_sources(project, options, progress, result, cuda_is_twin, could_run);

  const auto count = [&](Severity severity) {
    return std::count_if(result.findings.begin(), result.findings.end(),
                         [&](const Finding& finding) { return finding.severity == severity; });
  };
  const auto errors = count(Severity::error);
  const auto warnings = count(Severity::warning);
  result.seconds = seconds_since(begin);
  if (interrupted()) {
    mark_stopped(result);
  } else if (errors > 0) {
    result.outcome = could_run ? Outcome::fails : Outcome::could_not_run;
    const auto first = std::find_if(result.findings.begin(), result.findings.end(),
                                    [](const Finding& finding) { return finding.severity == Severity::error; });
    result.code = first->code;
    result.summary = fmt::format("{}{}", first->what.substr(0, first->what.find('\n')),
                                 errors > 1 ? fmt::format(" (and {} more)", errors - 1) : std::string());
  } else {
    result.outcome = Outcome::holds;
    result.summary =
        fmt::format("{}{}{}", cpp_summary(gate.built.size()), cuda_summary(project, result, cuda_is_twin, twin_checked),
                    warnings > 0 ? fmt::format(", {} warning{}", warnings, warnings == 1 ? "" : "s") : std::string());
  }
  return gate;
}

const Gate build_gate{.name = BuildFacts::gate,
                      .about = "C++ callables; every CUDA instance for every architecture, without a GPU",
                      .needs = GateNeeds::device,
                      .expected_seconds =
                          [](const Project& project) {
                            const auto cubins = project.instances.size() * project.cuda_architectures.size();
                            return 4.0 * static_cast<double>(3 + cubins);
                          },
                      .run =
                          [](GateContext& context) {
                            const bool is_twin = !runs_cuda(context.project, context.device);
                            BuildGate gate = run_build_gate(context.project, {}, context.progress, is_twin);
                            context.built = std::move(gate.built);
                            return gate.result;
                          }};

}  // namespace flashmoe::workflow
