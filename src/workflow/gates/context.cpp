#include "workflow/gates/context.hpp"

#include <fmt/format.h>

#include "workflow/device/capabilities.hpp"
#include "workflow/gates/predicted.hpp"
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
  if (!baseline)
    baseline = capabilities_of(device).is_card ? card_baseline() : host_runnable(project.baseline, "baseline");
  return Done{};
}

// On a card only what runs there is a rival: torch in the user's own process, or kernels of another project.
Result<Runnable> GateContext::card_baseline() {
  const Callable* in_torch = card_rival(project);
  if (in_torch != nullptr) {
    auto torch = host_runnable(*in_torch, "baseline");
    // What the virtual GPU stands in for, torch cannot use: in a rehearsal it computes on the CPU.
    if (!torch || device.kind == DeviceKind::rehearsal) return torch;
    torch->card = device.to_string();
    torch->by_events = true;
    return torch;
  }
  if (project.cuda_baseline.empty())
    return Diagnostic{
        .message = fmt::format("no baseline of {} runs on {}", project.name, device.to_string()),
        .fix =
            "declare torch_baseline = \"baseline.py:function\", over torch tensors, or a project with CUDA "
            "kernels: cuda.baseline = \"directory\"",
        .file = project.file,
        .code = codes::project_no_callable};
  auto rival = rival_of(project);
  if (!rival) return rival.error();
  auto runnable = gpu_runnable(*rival, device, {}, progress);
  if (!runnable) return runnable;
  runnable->label = rival->name;
  return counted_as(std::move(*runnable), *rival, project);
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
