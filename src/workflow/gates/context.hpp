// What the gates of one run share: the project, where it runs, what was built so far, and what earlier runs recorded.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "support/progress.hpp"
#include "support/result.hpp"
#include "workflow/compile/cpu_build.hpp"
#include "workflow/device/selector.hpp"
#include "workflow/gates/gate.hpp"
#include "workflow/gates/options.hpp"
#include "workflow/gpu/launch_report.hpp"
#include "workflow/journal/baseline.hpp"
#include "workflow/runner/runner.hpp"

namespace flashmoe::workflow {

struct Record;

struct GateContext {
  const Project& project;
  const GateOptions& options;
  Progress& progress;
  std::uint64_t seed = 0;
  const std::vector<Record>& history;  // oldest first
  DeviceSelector device{};
  std::span<const GateResult> done{};            // of the gates before
  std::map<std::string, BuiltCallable> built{};  // by role
  Runnable kernel{}, reference{};
  std::optional<Result<Runnable>> baseline{};
  BaselineFacts facts{};  // what may explain the baseline's time
  ReportFile report{};    // of a virtual GPU

  // Builds what is not built yet: kernel, reference and, if there is one, the baseline.
  [[nodiscard]] Result<Done> prepare();

 private:
  [[nodiscard]] Result<Runnable> host_runnable(const Callable& callable, const std::string& role);
  [[nodiscard]] Result<Runnable> kernel_runnable();
  [[nodiscard]] Result<Runnable> card_baseline();
};

// A kernel that does not build has failed; every other problem says nothing about it.
[[nodiscard]] GateResult could_not_run(const std::string& gate, const Diagnostic& problem);

}  // namespace flashmoe::workflow
