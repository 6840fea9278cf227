#include "workflow/gates/context.hpp"

#include <fmt/format.h>

#include "workflow/device/capabilities.hpp"
#include "workflow/gates/runnable.hpp"
#include "workflow/gpu/launches.hpp"
#include "workflow/runner/inputs.hpp"
#include "workflow/verdict/codes.hpp"

namespace flashmoe::workflow {

Result<Runnable> GateContext::host_runnable(const Callable& callable, const std::string& role) {
  const std::string label = callable.name.empty() || role == "kernel" ? role : callable.name;
  if (callable.kind == CallableKind::none) {
    return Diagnostic{.message = fmt::format("the project has no {}", role),
                      .fix = fmt::format("declare it in {}: {} = \"file.cpp:function\"", project.file, role),
                      .code = codes::project_no_callable};
  }
  if (callable.kind == CallableKind::cuda) {
    return Diagnostic{
        .message = fmt::format("{} '{}' is a CUDA kernel, which device cpu cannot run", role, callable.name),
        .fix = fmt::format("give {} a C++ or Python callable", role),
        .code = codes::project_no_callable};
  }
  if (callable.kind == CallableKind::python) return python_runnable(project, callable, role, label, options.threads);
  auto found = built.find(role);
  if (found == built.end()) {
    auto fresh = build_cpu(project, callable, role);
    if (!fresh) {
      Diagnostic why = fresh.error();
      why.code = build_code(role, why);
      return why;
    }
    found = built.emplace(role, std::move(*fresh)).first;
  }
  return library_runnable(found->second, label, options.threads);
}

Result<Runnable> GateContext::kernel_runnable() {
  if (capabilities_of(device).runs == Runs::host_code) return host_runnable(project.kernel, "kernel");
  return gpu_runnable(project, device, {.report = report.path(), .seed = mix_seed(seed, 3)}, progress);
}

Result<Done> GateContext::prepare() {
  auto made_reference = host_runnable(project.reference, "reference");
  if (!made_reference) return made_reference.error();
  reference = std::move(*made_reference);
  auto made_kernel = kernel_runnable();
  if (!made_kernel) return made_kernel.error();
  kernel = std::move(*made_kernel);
  // Its file is hashed before the kernel runs for the first time: a kernel that changes it is found out.
  if (!baseline) baseline = host_runnable(project.baseline, "baseline");
  return Done{};
}

GateResult could_not_run(const std::string& gate, const Diagnostic& problem) {
  GateResult result;
  result.gate = gate;
  result.summary = problem.message;
  result.code = row_of(problem.code).code;
  if (row_of(problem.code).exit == ExitCode::fails) result.outcome = Outcome::fails;
  result.findings.push_back({.severity = Severity::error,
                             .group = gate,
                             .what = problem.message,
                             .where = problem.file.empty() ? "" : fmt::format("{}:{}", problem.file, problem.line),
                             .fix = problem.fix,
                             .code = result.code});
  return result;
}

}  // namespace flashmoe::workflow
