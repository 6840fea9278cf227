#include "workflow/gates/build_gate.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include "support/clock.hpp"
#include "support/process.hpp"
#include "workflow/compile/cuda_compile.hpp"
#include "workflow/gates/context.hpp"
#include "workflow/gates/cuda_gate.hpp"
#include "workflow/gates/stopped.hpp"

namespace flashmoe::workflow {
namespace {

// A compiler that is not there is a gate that could not run; a source that does not compile is a gate that fails.
void build_cpu_callables(const Project& project, const BuildOptions& options, Progress& progress, BuildGate& gate,
                         bool& could_run) {
  if (const auto compiler = find_cxx_compiler(); !compiler) {
    gate.result.findings.push_back({Severity::error, "cpu", compiler.error().message, "", compiler.error().fix});
    could_run = false;
    return;
  }
  std::vector<LibraryFacts> libraries;
  for (const auto& [role, callable] : {std::pair<std::string, const Callable*>{"kernel", &project.kernel},
                                       {"reference", &project.reference},
                                       {"baseline", &project.baseline}}) {
    if (callable->kind != CallableKind::cpp || interrupted()) continue;
    progress.update(role);
    auto built = build_cpu(project, *callable, role, options);
    if (!built) {
      const Diagnostic& why = built.error();
      gate.result.findings.push_back(
          {Severity::error, "cpu", fmt::format("{}: {}", role, why.message),
           why.file.empty() ? callable->source
                            : fmt::format("{}{}", why.file, why.line > 0 ? fmt::format(":{}", why.line) : ""),
           why.fix});
      continue;
    }
    gate.result.findings.push_back(
        {Severity::ok, "cpu",
         fmt::format("{}: {}, {} ({})", role, callable->source, built->content_hash.substr(0, 12),
                     built->from_cache ? "unchanged" : fmt::format("{:.1f} s", built->seconds)),
         built->library, ""});
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

void build_cuda_sources(const Project& project, const BuildOptions& options, Progress& progress, GateResult& result,
                        bool& could_run) {
  if (project.cuda_sources.empty()) return;
  const auto toolkit = find_cuda_toolkit();
  if (!toolkit) {
    result.findings.push_back({Severity::error, "cuda", toolkit.error().message, "", toolkit.error().fix});
    could_run = false;
    return;
  }
  result.facts_as<BuildFacts>().cuda_toolkit = toolkit->version;
  check_cuda_targets(project, compile_cuda(project, *toolkit, options, progress), result);
}

}  // namespace

BuildGate run_build_gate(const Project& project, const BuildOptions& options, Progress& progress) {
  const auto begin = std::chrono::steady_clock::now();
  BuildGate gate;
  GateResult& result = gate.result;
  result.gate = BuildFacts::gate;
  bool could_run = true;
  build_cpu_callables(project, options, progress, gate, could_run);
  build_cuda_sources(project, options, progress, result, could_run);

  const auto count = [&](Severity severity) {
    return std::count_if(result.findings.begin(), result.findings.end(),
                         [&](const Finding& finding) { return finding.severity == severity; });
  };
  const auto errors = count(Severity::error);
  const auto warnings = count(Severity::warning);
  result.seconds = seconds_since(begin);
  if (interrupted()) {
    result.outcome = Outcome::could_not_run;
    result.summary = "interrupted";
  } else if (errors > 0) {
    result.outcome = could_run ? Outcome::fails : Outcome::could_not_run;
    const auto first = std::find_if(result.findings.begin(), result.findings.end(),
                                    [](const Finding& finding) { return finding.severity == Severity::error; });
    result.summary = fmt::format("{}{}", first->what.substr(0, first->what.find('\n')),
                                 errors > 1 ? fmt::format(" (and {} more)", errors - 1) : std::string());
  } else {
    result.outcome = Outcome::holds;
    const auto& cuda = result.facts_as<BuildFacts>().cuda;
    const auto instances = cuda ? cuda->instances.size() : 0;
    result.summary = fmt::format(
        "{} C++ callables built{}{}", gate.built.size(),
        project.cuda_sources.empty()
            ? std::string()
            : fmt::format(", {} CUDA instances checked for {}", instances, fmt::join(project.cuda_architectures, ", ")),
        warnings > 0 ? fmt::format(", {} warnings", warnings) : std::string());
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
                            BuildGate gate = run_build_gate(context.project, {}, context.progress);
                            context.built = std::move(gate.built);
                            if (interrupted()) mark_stopped(gate.result);
                            return gate.result;
                          }};

}  // namespace flashmoe::workflow
