#include "workflow/gpu/profile.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "workflow/device/capabilities.hpp"
#include "workflow/gpu/findings.hpp"
#include "workflow/gpu/launches.hpp"
#include "workflow/runner/inputs.hpp"
#include "workflow/runner/judge_call.hpp"
#include "workflow/runner/session.hpp"
#include "workflow/verdict/codes.hpp"

namespace flashmoe::workflow {
namespace {

using std::chrono::milliseconds;

std::string unasked_text(const std::vector<UnaskedRule>& unasked) {
  if (unasked.empty()) return "";
  std::string text = "  not asked   for want of counters:";
  for (const UnaskedRule& one : unasked)
    text += fmt::format("{} {} ({})", &one == unasked.data() ? "" : ",", one.rule, fmt::join(one.missing, ", "));
  return text + "\n";
}

std::string origin_text(const ProfileRun& run) {
  if (run.counted_by.empty())
    return "Counted on a virtual GPU: exact for the PTX that ran, caches modelled, no time claimed.\n";
  if (run.degraded.empty())
    return fmt::format(
        "Counted on the card by {}: instructions are SASS, not PTX, and every launch was repeated to count it.\n",
        run.counted_by);
  return fmt::format("Degraded, nothing was counted: {}\n{}", run.degraded,
                     run.degraded_fix.empty() ? "" : "  fix: " + run.degraded_fix + "\n");
}

}  // namespace

Diagnostic could_not_profile(const RunError& error) {
  Diagnostic problem = error.diagnostic;
  problem.code = codes::kernel_could_not_start;
  return problem;
}

Result<Workload> profiled_workload(const Project& project, const std::string& name) {
  if (const Workload* found = name.empty() ? target_workload(project) : find_workload(project, name)) return *found;
  return Diagnostic{.message = fmt::format("no workload is called {}; there are {}", name, workload_names(project)),
                    .fix = "--workload with one of them",
                    .code = codes::usage_workload};
}

Result<ProfileRun> count_call(const Project& project, const DeviceSelector& device, const CountedCall& call) {
  std::uint64_t from = end_of_report(call.report);
  Session session;
  if (const RunError error = session.start(project, call.kernel, true); error.failure != Failure::none)
    return could_not_profile(error);
  if (const RunError error = session.bind(project, call.workload.values, call.workload.name, 1, false);
      error.failure != Failure::none)
    return could_not_profile(error);
  session.fill(0, call.seed);
  session.seal_inputs_and_poison();
  const milliseconds limit(static_cast<long>(project.call_limit_seconds * call.kernel.limit_factor * 1e3));
  const Block block = session.run(0, 1, limit);
  session.stop();

  ProfileRun run{.project = project.name,
                 .device = device.to_string(),
                 .workload = call.workload.name,
                 .image_hash = call.kernel.content_hash};
  auto launches = read_launches(call.report, from);
  run.findings = virtual_findings(launches, call.kernel.argument_names).findings;
  if (!block.ok() && run.findings.empty()) return could_not_profile(block.error);
  if (block.ok() && call.reference != nullptr) {
    auto wrong = wrong_output(project, call.workload, session, *call.reference);
    if (!wrong) return wrong.error();
    if (*wrong) run.findings.push_back(std::move(**wrong));
  }
  for (LaunchReport& launch : launches) {
    if (launch.kernel.empty()) continue;  // what the context says at its end
    run.launches.push_back({.report = std::move(launch)});
  }
  weigh_by_instructions(run.launches);
  return run;
}

Result<ProfileRun> run_profile(const Project& project, const ProfileOptions& options, Progress& progress) {
  const auto device = select_device(options.device, "virtual:" + project.cuda_device);
  if (!device) return device.error();
  if (capabilities_of(*device).counters != CounterKind::exact)
    return Diagnostic{.message = fmt::format("{} ({}) counts no launches", device->to_string(), device->from),
                      .fix = "use --device virtual:" + project.cuda_device,
                      .code = codes::usage_device};
  const auto workload = profiled_workload(project, options.workload);
  if (!workload) return workload.error();
  const std::uint64_t seed = options.seed != 0 ? options.seed : fresh_seed();

  progress.step("build", 10);
  const ReportFile report;
  const auto kernel = gpu_runnable(project, *device, {.report = report.path(), .seed = mix_seed(seed, 3)}, progress);
  if (!kernel) return kernel.error();

  progress.step("run", 10);
  auto run =
      count_call(project, *device, {.kernel = *kernel, .report = report.path(), .workload = *workload, .seed = seed});
  progress.done();
  return run;
}

void weigh_by_instructions(std::vector<LaunchProfile>& launches) {
  double total = 0;
  for (const LaunchProfile& launch : launches) total += launch.report.instructions();
  if (total == 0) return;
  for (LaunchProfile& launch : launches) launch.share = launch.report.instructions() / total;
}

std::string profile_text(const ProfileRun& run) {
  std::string text = fmt::format("{}, workload {}, on {}\n\n", run.project, run.workload, run.device);
  for (const LaunchProfile& launch : run.launches) {
    if (run.launches.size() > 1)
      text +=
          fmt::format("Launch {} of {}, {:.1f} % of the {}\n", &launch - run.launches.data() + 1, run.launches.size(),
                      100 * launch.share, run.degraded.empty() ? "instructions executed" : "call");
    text += launch.report.summary + unasked_text(launch.unasked);
    for (const std::string& source : launch.report.annotated_sources) text += "\n" + source;
    text += "\n";
  }
  text += findings_text(run.findings);
  text += origin_text(run);
  return text;
}

}  // namespace flashmoe::workflow
